#include "tools/plan/programs.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <tuple>

#include <fmt/core.h>

#include "base/words.h"
#include "plan/algorithm.h"
#include "plan/verify.h"

namespace ronde::plan::tool {
namespace {

Error wrong(const std::string& what) { return fail(Code::invalid_argument, what); }

Result<std::vector<PlacedSchedule>> from_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (in) text << in.rdbuf();
  if (!in || !text) return wrong(fmt::format("{} cannot be read", path));
  return schedules_from_text(text.str(), path);
}

Result<CollSpec> spec_of(const ProgramOptions& options) {
  CollSpec spec{Coll::send, options.ranks, 0};
  for (int c = 0; c < static_cast<int>(Coll::send); ++c) {
    if (same_word(options.call, name_of(static_cast<Coll>(c)))) spec.coll = static_cast<Coll>(c);
  }
  if (spec.coll == Coll::send) return wrong(fmt::format("\"{}\" is no collective", options.call));
  if (options.ranks < 1) return wrong(fmt::format("{} ranks; at least one is needed", options.ranks));
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

/// The Programs of each channel, or an error where some are missing.
Result<std::vector<std::span<const Program>>> channels_of(const PlacedSchedule& placed) {
  const std::vector<Program>& world = placed.schedule.world;
  const int ranks = placed.schedule.spec.ranks;
  if (ranks < 1 || world.empty() || world.size() % static_cast<size_t>(ranks) != 0) {
    return wrong(
        fmt::format("line {}: {} Programs; each channel needs one for each of {} ranks", placed.line, world.size(), ranks));
  }
  std::vector<std::span<const Program>> list;
  for (size_t first = 0; first < world.size(); first += static_cast<size_t>(ranks)) {
    list.push_back(std::span(world).subspan(first, static_cast<size_t>(ranks)));
  }
  return list;
}

/// Steps of lanes that are all equally fast.
class Steps {
 public:
  explicit Steps(std::span<const Program> world) {
    for (const Program& program : world) {
      for (size_t lane = 0; lane < program.lanes.size(); ++lane) lanes_.push_back({&program, lane});
    }
  }

  /// False where they do not end.
  bool run() {
    for (bool moved = true; moved;) {
      moved = step();
      if (moved) ++steps_;
    }
    return std::all_of(lanes_.begin(), lanes_.end(), [](const Lane& it) { return it.next == it.moves().size(); });
  }

  std::string text() const {
    std::vector<size_t> widths(steps_, 1);
    for (const Lane& lane : lanes_) {
      for (const auto& [step, words] : lane.done) widths[step] = std::max(widths[step], words.size());
    }
    std::string text;
    for (const Lane& lane : lanes_) {
      std::string line = fmt::format("rank {:<3} lane {:<2}", lane.program->rank, lane.index);
      for (size_t step = 0; step < steps_; ++step) {
        const auto at = lane.done.find(step);
        line += fmt::format("  {:<{}}", at == lane.done.end() ? "." : at->second, widths[step]);
      }
      text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
    }
    return text;
  }

 private:
  using Key = std::tuple<int, int, uint32_t>;  // from, to, link
  struct Lane {
    const Program* program;
    size_t index;
    size_t next = 0;
    std::map<size_t, std::string> done = {};  ///< by step
    const std::vector<Move>& moves() const { return program->lanes[index]; }
    const Peer& peer(uint32_t i) const { return program->peers[i]; }
  };

  bool step() {
    std::map<Key, int> sent;
    bool moved = false;
    for (Lane& lane : lanes_) {
      if (lane.next == lane.moves().size()) continue;
      const Move& move = lane.moves()[lane.next];
      const int rank = lane.program->rank;
      bool ready = true;
      for (uint32_t i = move.in_first; i < move.in_first + move.in_count; ++i) {
        ready = ready && waiting_[{lane.peer(i).rank, rank, lane.peer(i).link}] > 0;
      }
      if (!ready) continue;
      for (uint32_t i = move.in_first; i < move.in_first + move.in_count; ++i)
        --waiting_[{lane.peer(i).rank, rank, lane.peer(i).link}];
      for (uint32_t i = move.out_first; i < move.out_first + move.out_count; ++i)
        ++sent[{rank, lane.peer(i).rank, lane.peer(i).link}];
      lane.done[steps_] = words(lane, move);
      ++lane.next;
      moved = true;
    }
    for (const auto& [key, count] : sent) waiting_[key] += count;
    return moved;
  }

  static std::string words(const Lane& lane, const Move& move) {
    const auto list = [&](char mark, uint32_t first, uint32_t count) {
      std::string text;
      for (uint32_t i = first; i < first + count; ++i) text += fmt::format("{}{}", text.empty() ? "" : ",", lane.peer(i).rank);
      return text.empty() ? "" : mark + text;
    };
    return list('<', move.in_first, move.in_count) + (move.src != Buf::none && move.in_count > 0 ? "+" : "") +
           (move.dst != Buf::none ? "=" : "") + ((move.flags & kMoveFinal) != 0 ? "!" : "") +
           list('>', move.out_first, move.out_count);
  }

  std::vector<Lane> lanes_;
  std::map<Key, int> waiting_;
  size_t steps_ = 0;
};

/// Any fault of shape makes indices useless: nothing is shown then.
Result<Verdict> checked(const PlacedSchedule& placed, std::span<const Program> world) {
  const Verdict verdict = verify(placed.schedule.spec, world, {.slots = 1 << 20});
  if (!verdict.ok()) return wrong(fmt::format("line {}: the Programs are wrong: {}", placed.line, verdict.faults.front()));
  return verdict;
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
  const Algorithm* algorithm = find_algorithm(options.algorithm);
  if (algorithm == nullptr) return wrong(fmt::format("\"{}\" is no algorithm", options.algorithm));
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
  for (const PlacedSchedule& one : list) text += (text.empty() ? "" : "\n") + to_text(one.schedule);
  return text;
}

Result<std::string> show_steps(const ProgramOptions& options) {
  RONDE_TRY(const std::vector<PlacedSchedule> list, programs_of(options));
  std::string text;
  for (const PlacedSchedule& one : list) {
    RONDE_TRY(const std::vector<std::span<const Program>> channels, channels_of(one));
    for (size_t c = 0; c < channels.size(); ++c) {
      RONDE_TRY(const Verdict verdict, checked(one, channels[c]));
      Steps steps(channels[c]);
      if (!steps.run()) return wrong(fmt::format("{} does not end", title(one.schedule, c)));
      text += fmt::format("{}{}\n{}", text.empty() ? "" : "\n", title(one.schedule, c), steps.text());
    }
  }
  return text;
}

Result<Proof> prove(const ProgramOptions& options, int slots) {
  RONDE_TRY(const std::vector<PlacedSchedule> list, programs_of(options));
  Proof proof;
  for (const PlacedSchedule& one : list) {
    RONDE_TRY(const std::vector<std::span<const Program>> channels, channels_of(one));
    for (size_t c = 0; c < channels.size(); ++c) {
      proof.right = prove_channel(one, channels[c], c, slots, &proof.text) && proof.right;
    }
  }
  return proof;
}

}  // namespace ronde::plan::tool
