#include "comm/algo_file.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/files.h"
#include "base/hash.h"
#include "base/log.h"
#include "plan/verify.h"
#include "tune/model.h"

namespace ronde {
namespace {

constexpr size_t kMaxBytes = size_t{64} << 20;
constexpr size_t kNamedFaults = 3;
constexpr size_t kLine = 64;
constexpr size_t kLeastSlice = 4096;

Error refused(Code code, const std::string& what) {
  return fail(code, fmt::format("RONDE_ALGO_FILE: {}", what), Scope::communicator);
}

std::string describe(const CollSpec& spec) {
  return fmt::format("{} on {} ranks{}", name_of(spec.coll), spec.ranks,
                     has_root(spec.coll) ? fmt::format(", root {}", spec.root) : "");
}

/// The faults of one form, as one sentence.
std::string sentence(const std::vector<std::string>& faults) {
  std::string text;
  for (size_t i = 0; i < std::min(faults.size(), kNamedFaults); ++i) text += (i == 0 ? "" : "; ") + faults[i];
  if (faults.size() > kNamedFaults) text += fmt::format("; and {} more", faults.size() - kNamedFaults);
  return text;
}

/// Fills in what is found; a fault, or nothing.
std::string prove_one(UserPlan* plan, uint32_t slots, int most_channels) {
  const Schedule& schedule = plan->placed.schedule;
  const auto channels = channels_of(schedule);
  if (!channels.ok()) return channels.error().what;
  plan->channels = static_cast<int>(channels->size());
  if (plan->channels > most_channels) {
    return fmt::format("{} channels, but RONDE_MAX_NCHANNELS and the like allow {}", plan->channels, most_channels);
  }
  plan->canonical = true;
  for (size_t c = 0; c < channels->size(); ++c) {
    for (const bool in_place : {false, true}) {
      if (in_place && schedule.spec.coll == Coll::all_to_all) continue;
      const Verdict verdict = verify(schedule.spec, (*channels)[c], {.in_place = in_place, .slots = static_cast<int>(slots)});
      if (!verdict.ok()) return fmt::format("channel {}{}: {}", c, in_place ? ", in place" : "", sentence(verdict.faults));
      plan->canonical = plan->canonical && verdict.canonical;
    }
  }
  for (const Program& program : schedule.world) {
    for (const auto& lane : program.lanes) {
      for (const Move& move : lane) plan->widest = std::max(plan->widest, move.n_blocks);
    }
  }
  return "";
}

}  // namespace

constinit const Algorithm kFromFile{"file", [](const CollSpec&) { return false; }, [](const CollSpec&) { return false; },
                                    nullptr};

Result<AlgoFile> AlgoFile::read(const Config& config) {
  AlgoFile file;
  file.path_ = config.text(Setting::algo_file);
  if (file.path_.empty()) return file;
  const Result<std::string> text = read_file(file.path_, kMaxBytes);
  if (!text.ok()) return refused(Code::invalid_usage, text.error().what);
  file.fingerprint_ = fmt::format("{:016x}", fnv1a(*text));
  Result<std::vector<PlacedSchedule>> read = schedules_from_text(*text, file.path_);
  if (!read.ok()) return refused(Code::invalid_usage, read.error().what);
  for (PlacedSchedule& one : read.value()) {
    const CollSpec& spec = one.schedule.spec;
    for (const UserPlan& other : file.plans_) {
      if (other.placed.schedule.spec == spec) {
        return refused(Code::invalid_usage, fmt::format("{}:{}: {} stands in line {} already", file.path_, one.line,
                                                        describe(spec), other.placed.line));
      }
    }
    file.plans_.push_back(UserPlan{.placed = std::move(one)});
  }
  return file;
}

Result<> AlgoFile::prove(int ranks, uint32_t slots, int most_channels) {
  std::erase_if(plans_, [&](const UserPlan& plan) { return plan.placed.schedule.spec.ranks != ranks; });
  for (UserPlan& plan : plans_) {
    const std::string fault = prove_one(&plan, slots, most_channels);
    const std::string what = fmt::format("{}:{}: {}", path_, plan.placed.line, describe(plan.placed.schedule.spec));
    if (!fault.empty()) return refused(Code::invalid_usage, fmt::format("{}: {}", what, fault));
    RONDE_INFO(tuning, "{} is proven: {} channels, {}canonical", what, plan.channels, plan.canonical ? "" : "not ");
  }
  return {};
}

const UserPlan* AlgoFile::find(const CollSpec& spec) const {
  for (const UserPlan& plan : plans_) {
    const CollSpec& own = plan.placed.schedule.spec;
    if (own.coll == spec.coll && own.ranks == spec.ranks && (!has_root(spec.coll) || own.root == spec.root)) return &plan;
  }
  return nullptr;
}

Choice AlgoFile::choice_of(const UserPlan& plan, const CallShape& call, const TuneRules& rules, const TuneInputs& inputs) const {
  const bool adjacent = !counts_per_rank(call.spec.coll) || plan.channels == 1;  // else a channel's blocks are apart
  const auto lines = [](size_t bytes) { return std::max(kLine, bytes / kLine * kLine); };
  const size_t capacity = lines(inputs.slot_capacity);
  const uint32_t blocks = plan.program(0, 0).blocks;
  const size_t block = largest_block(call.spec.coll, bytes_of(call), plan.channels, blocks);
  Choice choice;
  choice.algorithm = &kFromFile;
  choice.channels = plan.channels;
  choice.slice = rules.slice() > 0 ? std::min(lines(rules.slice()), capacity) : capacity;
  choice.merged = plan.widest > 1 && adjacent && block <= choice.slice && block <= capacity / plan.widest;
  if (rules.slice() == 0 && !choice.merged)
    choice.slice = std::clamp(lines(block / 4), std::min(kLeastSlice, capacity), capacity);
  choice.nanos = UINT64_MAX;
  choice.reason = fmt::format("{}:{} has Programs for it", path_, plan.placed.line);
  return choice;
}

}  // namespace ronde
