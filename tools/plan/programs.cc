#include "tools/plan/programs.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/files.h"
#include "base/words.h"
#include "plan/algorithm.h"
#include "plan/verify.h"
#include "tools/plan/drawing.h"
#include "tools/plan/steps.h"
#include "tools/plan/names.h"

namespace ronde::plan::tool {
namespace {

constexpr size_t kMostBytes = size_t{64} << 20;  // of a file
constexpr int kMostRanks = 1024;                 // Moves are as many as its square, and are proven

Error wrong(const std::string& what) { return fail(Code::invalid_argument, what); }

Result<std::vector<PlacedSchedule>> from_file(const std::string& path) {
  RONDE_TRY(const std::string text, read_file(path, kMostBytes));
  return schedules_from_text(text, path);
}

Result<CollSpec> spec_of(const ProgramOptions& options) {
  CollSpec spec{Coll::all_reduce, options.ranks, 0};
  RONDE_TRY(spec.coll, collective_named(options.call));
  if (options.ranks < 1 || options.ranks > kMostRanks)
    return wrong(fmt::format("{} ranks; from 1 to {} are possible", options.ranks, kMostRanks));
  if (options.nodes < 1 || options.nodes > options.ranks) {
    return wrong(fmt::format("{} nodes for {} ranks; from 1 to {} are possible", options.nodes, options.ranks, options.ranks));
  }
  if (has_root(spec.coll)) spec.root = options.root;
  if (spec.root < 0 || spec.root >= spec.ranks) return wrong(fmt::format("root {} is none of {} ranks", spec.root, spec.ranks));
  return spec;
}

/// "AllReduce on 4 ranks, channel 0"
std::string title(const Schedule& schedule, size_t channel) {
  const CollSpec& spec = schedule.spec;
  return fmt::format("{} on {} ranks{}, channel {}", name_of(spec.coll), spec.ranks,
                     has_root(spec.coll) ? fmt::format(", root {}", spec.root) : "", channel);
}

/// What is wrong in one of the Schedules of `options`.
Error wrong_in(const ProgramOptions& options, const PlacedSchedule& placed, const std::string& what) {
  return wrong(options.file.empty() ? what : fmt::format("{}:{}: {}", options.file, placed.line, what));
}

/// The Programs of each channel, or an error that says where some are missing.
Result<std::vector<std::span<const Program>>> channels_in(const ProgramOptions& options, const PlacedSchedule& placed) {
  auto channels = channels_of(placed.schedule);
  if (!channels.ok()) return wrong_in(options, placed, channels.error().what);
  return channels;
}

/// Any fault of shape makes indices useless: nothing is shown then.
Result<Verdict> checked(const ProgramOptions& options, const PlacedSchedule& placed, std::span<const Program> world) {
  const Verdict verdict = verify(placed.schedule.spec, world, {.slots = 1 << 20});
  if (!verdict.ok()) return wrong_in(options, placed, "the Programs are wrong: " + verdict.faults.front());
  return verdict;
}

/// Calls `use` with each channel of each Schedule and its title.
template <typename Use>
Result<> each_course(const ProgramOptions& options, const Use& use) {
  RONDE_TRY(const std::vector<PlacedSchedule> list, programs_of(options));
  for (const PlacedSchedule& one : list) {
    RONDE_TRY(const std::vector<std::span<const Program>> channels, channels_in(options, one));
    for (size_t c = 0; c < channels.size(); ++c) {
      RONDE_TRY(const Verdict verdict, checked(options, one, channels[c]));
      const Course course = course_of(channels[c]);
      if (!course.ends) return wrong(fmt::format("{} does not end", title(one.schedule, c)));
      use(title(one.schedule, c), channels[c], course);
    }
  }
  return {};
}

/// One channel's part of the proof; false where it is wrong.
bool prove_channel(const PlacedSchedule& placed, std::span<const Program> world, size_t channel, int slots, std::string* text) {
  *text += title(placed.schedule, channel) + ": ";
  int needed = 0;
  bool canonical = true;
  for (const bool in_place : {false, true}) {
    if (in_place && placed.schedule.spec.coll == Coll::all_to_all) continue;
    const Verdict verdict = verify(placed.schedule.spec, world, {.in_place = in_place, .slots = slots});
    if (!verdict.ok()) {
      *text += fmt::format("wrong{}\n", in_place ? " in place" : "");
      for (const std::string& fault : verdict.faults) *text += "  " + fault + '\n';
      return false;
    }
    needed = std::max(needed, verdict.min_slots);
    canonical = canonical && verdict.canonical;
  }
  *text += fmt::format("right, needs {} slot{}", needed, needed == 1 ? "" : "s");
  if (has_reduction(placed.schedule.spec.coll)) *text += canonical ? ", canonical" : ", not canonical";
  *text += '\n';
  return true;
}

}  // namespace

Result<std::vector<PlacedSchedule>> programs_of(const ProgramOptions& options) {
  if (!options.file.empty()) return from_file(options.file);
  RONDE_TRY(const CollSpec spec, spec_of(options));
  RONDE_TRY(const Algorithm* const algorithm, algorithm_named(options.algorithm));
  if (!algorithm->supports(spec)) return wrong(fmt::format("{} does not exist for {}", algorithm->name, name_of(spec.coll)));
  Channel channel;
  for (int rank = 0; rank < spec.ranks; ++rank) {
    channel.ring.push_back(rank);
    if (options.nodes > 1) channel.node_of.push_back(static_cast<int>(int64_t{rank} * options.nodes / spec.ranks));
  }
  Schedule schedule{spec, {}};
  for (int rank = 0; rank < spec.ranks; ++rank) {
    RONDE_TRY(Program program, algorithm->build(spec, channel, rank));
    schedule.world.push_back(std::move(program));
  }
  std::vector<PlacedSchedule> list;
  list.push_back({std::move(schedule), 1});
  return list;
}

Result<std::string> show_text(const ProgramOptions& options) {
  RONDE_TRY(const std::vector<PlacedSchedule> list, programs_of(options));
  std::string text;
  for (const PlacedSchedule& one : list) text.append(text.empty() ? "" : "\n").append(to_text(one.schedule));
  return text;
}

Result<std::string> show_steps(const ProgramOptions& options) {
  std::string text;
  RONDE_TRY(each_course(options, [&](const std::string& title, std::span<const Program> world, const Course& course) {
    text += fmt::format("{}{}\n{}", text.empty() ? "" : "\n", title, to_text(world, course));
  }));
  return text;
}

Result<std::string> show_svg(const ProgramOptions& options) {
  Drawing drawing(options.file.empty() ? options.nodes : 1);
  RONDE_TRY(each_course(options, [&](const std::string& title, std::span<const Program> world, const Course& course) {
    drawing.add(title, static_cast<int>(world.size()), course);
  }));
  return drawing.finish();
}

Result<Proof> prove(const ProgramOptions& options, int slots) {
  RONDE_TRY(const std::vector<PlacedSchedule> list, programs_of(options));
  Proof proof;
  for (const PlacedSchedule& one : list) {
    RONDE_TRY(const std::vector<std::span<const Program>> channels, channels_in(options, one));
    for (size_t c = 0; c < channels.size(); ++c) {
      proof.right = prove_channel(one, channels[c], c, slots, &proof.text) && proof.right;
    }
  }
  return proof;
}

}  // namespace ronde::plan::tool
