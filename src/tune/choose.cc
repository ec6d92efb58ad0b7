#include "tune/choose.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "base/log.h"
#include "tune/model.h"

namespace ronde {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kLeastSlice = 4096;
constexpr std::string_view kProtocol = "Simple";  // the only one of CPU ranks

constexpr bool is_integer(DataType type) { return type <= DataType::uint64; }
constexpr size_t round_up(size_t value) {
  return value > SIZE_MAX - kLine ? SIZE_MAX / kLine * kLine : (value + kLine - 1) / kLine * kLine;
}

size_t bytes_of(const CallShape& call) {
  size_t bytes = 0;
  return __builtin_mul_overflow(call.count, size_of(call.type), &bytes) ? SIZE_MAX / kLine * kLine : bytes;
}

/// What makes a canonical order necessary, as the subject of a sentence; "" where nothing does.
std::string_view canonical_reason(const CallShape& call, const TuneRules& rules) {
  if (!has_reduction(call.spec.coll)) return "";
  if (call.op == ReduceOp::avg && is_integer(call.type)) return "an average of integers";
  return rules.deterministic() ? "RONDE_DETERMINISTIC=1" : "";
}

/// The algorithms of the registry that exist for the call, fit NCCL_ALGO and have the needed order; `usable` are those to choose
/// from.
struct Field {
  static constexpr size_t kMost = 32;
  std::array<const Algorithm*, kMost> usable{};
  size_t count = 0;
  bool some_exist = false;   ///< one that NCCL_ALGO admits exists for the collective
  bool some_usable = false;  ///< and has the needed order
  void add(const Algorithm& one) {
    if (count < kMost) usable[count++] = &one;
  }
};

Field collect(const CallShape& call, const TuneRules& rules, bool canonical) {
  Field admitted, others;
  for (const Algorithm& one : algorithms()) {
    if (!one.supports(call.spec)) continue;
    const bool fits = !canonical || one.canonical(call.spec);
    const bool allowed = rules.admits(call.spec.coll, one.name);
    admitted.some_exist |= allowed;
    if (fits) (allowed ? admitted : others).add(one);
  }
  admitted.some_usable = admitted.count > 0;
  if (admitted.some_usable) return admitted;
  others.some_exist = admitted.some_exist;
  return others;
}

std::string names_of(const Field& field) {
  std::string text;
  for (size_t i = 0; i < field.count; ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", field.usable[i]->name);
  return text;
}

/// Reports that `asked` cannot be had: an error when strict, otherwise one warning for each text. What is used must not depend on
/// the size of the call, or there would be a warning for each.
Result<> refuse(const TuneRules& rules, const std::string& asked, std::string_view used) {
  if (rules.strict()) {
    return fail(Code::invalid_usage, fmt::format("{}; available: {}. RONDE_STRICT=1 makes this an error", asked, used));
  }
  log_once(fmt::format("{}; used instead: {}", asked, used));
  return {};
}

Result<> check_algorithms(const CallShape& call, const TuneRules& rules, const Field& field, std::string_view canonical) {
  const Coll coll = call.spec.coll;
  if (field.count == 0) {
    if (canonical.empty())
      return fail(Code::invalid_usage, fmt::format("choosing an algorithm for {}: none exists", name_of(coll)));
    return fail(Code::invalid_usage,
                fmt::format("choosing an algorithm for {}: {} needs canonical order, which none has", name_of(coll), canonical));
  }
  const WordList& list = rules.algo(coll);
  if (field.some_usable || !list.given) return {};
  const std::string names = names_of(field);
  const std::string used = field.count == 1 ? names : fmt::format("the cheapest of {}", names);
  if (field.some_exist) {
    return refuse(rules,
                  fmt::format("{}={} for {}: {} needs canonical order (one left fold over the ranks), which this does not give",
                              rules.algo_variable(), list.text, name_of(coll), canonical),
                  used);
  }
  // An entry without a name is not meant for collectives that NCCL's variable does not govern.
  if (!list.named) return {};
  return refuse(
      rules,
      fmt::format("{}={} for {}: no such algorithm exists for this collective", rules.algo_variable(), list.text, name_of(coll)),
      used);
}

Result<> check_protocol(const TuneRules& rules, Coll coll) {
  const WordList& list = rules.proto(coll);
  if (!list.given || !list.named || list.admits(kProtocol)) return {};
  return refuse(rules,
                fmt::format("{}={} for {}: CPU ranks have no such protocol", rules.proto_variable(), list.text, name_of(coll)),
                kProtocol);
}

/// One where nothing asks for more: the CPU executor runs all channels of a rank in one thread.
int channels_of(size_t bytes, const TuneRules& rules) {
  const size_t lines = round_up(bytes) / kLine;
  return std::max(1, static_cast<int>(std::min<size_t>(lines, static_cast<size_t>(rules.min_channels()))));
}

/// One algorithm with the best way to run it.
struct Candidate {
  const Algorithm* algorithm = nullptr;
  Execution run;
  uint64_t nanos = UINT64_MAX;
};

bool may_merge(const Footprint& shape, const CallShape& call, const Execution& run, size_t capacity) {
  const Coll coll = call.spec.coll;
  const bool whole = coll == Coll::all_reduce || coll == Coll::broadcast || coll == Coll::reduce;
  if (shape.widest < 2 || (!whole && run.channels > 1)) return false;  // else a channel's blocks are not adjacent
  return run.block <= run.slice && run.block <= capacity / shape.widest;
}

/// The cheapest slice for `algorithm`: as large as a slot, or for a pipeline maybe a fraction.
Candidate plan(const Algorithm& algorithm, const CallShape& call, size_t bytes, int channels, const TuneRules& rules,
               const TuneInputs& inputs) {
  const Footprint shape = footprint(algorithm.name, call.spec);
  const size_t capacity = std::max(kLine, inputs.slot_capacity / kLine * kLine);
  const size_t largest = rules.slice() > 0 ? std::clamp(round_up(rules.slice()), kLine, capacity) : capacity;
  Candidate best{.algorithm = &algorithm};
  best.run = {.block = largest_block(call.spec.coll, bytes, channels, shape.blocks), .slice = largest, .channels = channels};
  best.run.merged = may_merge(shape, call, best.run, capacity);
  best.nanos = nanos_of(shape, call.spec.ranks, best.run, inputs);
  if (rules.slice() > 0 || !shape.pipelined) return best;
  const size_t part = std::min(best.run.block, largest);
  for (size_t parts = 2; parts <= 16 && part / parts >= kLeastSlice; parts *= 2) {
    Execution run = best.run;
    run.slice = round_up((part + parts - 1) / parts);
    const uint64_t nanos = nanos_of(shape, call.spec.ranks, run, inputs);
    if (nanos >= best.nanos) continue;
    best.run = run;
    best.nanos = nanos;
  }
  return best;
}

std::string microseconds(uint64_t nanos) {
  return nanos == UINT64_MAX ? "no estimate" : fmt::format("{}.{} us", nanos / 1000, nanos % 1000 / 100);
}

std::string reason_of(const CallShape& call, const TuneRules& rules, const Field& field, const Candidate& best,
                      const Candidate& next, std::string_view canonical) {
  const WordList& list = rules.algo(call.spec.coll);
  std::string why;
  if (list.given && field.some_usable) {
    why = fmt::format("{}={} admits ", rules.algo_variable(), list.text);
  } else if (list.given && list.named) {
    why = fmt::format("{}={} cannot be had; there are ", rules.algo_variable(), list.text);
  }
  if (!canonical.empty()) why += fmt::format("{}{} needs canonical order: ", why.empty() ? "" : "and ", canonical);
  if (field.count == 1) return fmt::format("{}{} alone, estimate {}", why, best.algorithm->name, microseconds(best.nanos));
  return fmt::format("{}{} algorithms, {} is cheapest with {}, next {} with {}", why, field.count, best.algorithm->name,
                     microseconds(best.nanos), next.algorithm->name, microseconds(next.nanos));
}

}  // namespace

Result<Choice> choose(const CallShape& call, const TuneRules& rules, const TuneInputs& inputs) {
  const std::string_view canonical = canonical_reason(call, rules);
  const Field field = collect(call, rules, !canonical.empty());
  RONDE_TRY(check_algorithms(call, rules, field, canonical));
  RONDE_TRY(check_protocol(rules, call.spec.coll));

  const size_t bytes = bytes_of(call);
  const int channels = channels_of(bytes, rules);
  Candidate best, next;
  for (size_t i = 0; i < field.count; ++i) {
    const Candidate one = plan(*field.usable[i], call, bytes, channels, rules, inputs);
    if (best.algorithm == nullptr || one.nanos < best.nanos) {
      next = std::exchange(best, one);
    } else if (next.algorithm == nullptr || one.nanos < next.nanos) {
      next = one;
    }
  }
  Choice choice;
  choice.algorithm = best.algorithm;
  choice.channels = channels;
  choice.slice = best.run.slice;
  choice.merged = best.run.merged;
  choice.nanos = best.nanos;
  choice.protocol = kProtocol;
  choice.reason = reason_of(call, rules, field, best, next, canonical);
  return choice;
}

}  // namespace ronde
