#include "tune/choose.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "base/integers.h"
#include "base/log.h"
#include "tune/model.h"
#include "tune/plugin.h"

namespace ronde {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kLeastSlice = 4096;
constexpr std::string_view kProtocol = "Simple";  // the only one of CPU ranks

constexpr bool is_integer(DataType type) { return type <= DataType::uint64; }
constexpr size_t round_up(size_t value) {
  return value > SIZE_MAX - kLine ? SIZE_MAX / kLine * kLine : (value + kLine - 1) / kLine * kLine;
}

/// The alternatives to choose from, and what is known of them all.
struct Field {
  std::vector<Alternative> all;
  size_t count = 0;          ///< of those that may be chosen: outcome `slower`
  bool some_exist = false;   ///< one that NCCL_ALGO admits exists for the collective
  bool some_usable = false;  ///< and has the needed order
};

/// What is made for several nodes exists on one only where NCCL_ALGO names it.
bool exists(const Algorithm& one, const CallShape& call, const TuneRules& rules, const TuneInputs& inputs) {
  const WordList& list = rules.algo(call.spec.coll);
  const bool named = list.given && !list.inverted && list.admits(one.name);
  return one.supports(call.spec) && (!one.several_nodes || inputs.nodes.several() || named);
}

Field collect(const CallShape& call, const TuneRules& rules, const TuneInputs& inputs, bool canonical) {
  Field field;
  for (const Algorithm& one : algorithms()) {
    const bool allowed = rules.admits(call.spec.coll, one.name);
    Alternative& it = field.all.emplace_back(Alternative{.algorithm = &one});
    if (!exists(one, call, rules, inputs)) {
      it.outcome = Outcome::unsupported;
      continue;
    }
    field.some_exist |= allowed;
    it.outcome = canonical && !one.canonical(call.spec) ? Outcome::not_canonical
                 : allowed                              ? Outcome::slower
                                                        : Outcome::not_admitted;
    field.count += it.outcome == Outcome::slower ? 1 : 0;
  }
  field.some_usable = field.count > 0;
  if (field.some_usable) return field;
  for (Alternative& it : field.all) {  // nothing that is admitted would do: everything else that would
    if (it.outcome != Outcome::not_admitted) continue;
    it.outcome = Outcome::slower;
    ++field.count;
  }
  return field;
}

std::string names_of(const Field& field) {
  std::string text;
  for (const Alternative& it : field.all) {
    if (it.outcome == Outcome::slower) text += fmt::format("{}{}", text.empty() ? "" : ", ", it.algorithm->name);
  }
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

/// Bytes of a call that are worth a network device more.
constexpr size_t kDeviceBytes = 256 * 1024;

/// Bytes of a call that are worth a GPU another block of threads: it moves them in less time than a hop takes.
constexpr size_t kChannelBytes = 16 * 1024;

/// `asked`, or where that is 0 as many as carry what the links carry (of CPU ranks one, since a thread runs all channels, or one for each network device),
/// within the rules.
int channels_of(size_t bytes, const TuneRules& rules, const TuneInputs& inputs, int asked) {
  const size_t lines = round_up(bytes) / kLine;
  const int devices = static_cast<int>(std::min<size_t>(bytes / kDeviceBytes, static_cast<size_t>(inputs.links.devices)));
  const size_t blocks = inputs.links.inside > 0 ? std::max<size_t>(1, bytes / kChannelBytes) : SIZE_MAX;
  const int linked = static_cast<int>(std::min(blocks, static_cast<size_t>(inputs.links.channels)));
  const int wanted = std::clamp(asked > 0 ? asked : std::max(linked, devices), rules.min_channels(), rules.max_channels());
  return std::max(1, static_cast<int>(std::min<size_t>(lines, static_cast<size_t>(wanted))));
}

bool may_merge(const Footprint& shape, const CallShape& call, const Execution& run, size_t capacity) {
  if (shape.widest < 2 || (counts_per_rank(call.spec.coll) && run.channels > 1)) return false;  // else a channel's blocks are not adjacent
  return run.block <= run.slice && run.block <= capacity / shape.widest;
}

/// Finds the cheapest slice: as large as a slot, or for a pipeline maybe a fraction.
void plan(const CallShape& call, int channels, const TuneRules& rules, const TuneInputs& inputs, Alternative* out) {
  const Footprint shape = footprint(out->algorithm->name, call.spec, inputs.nodes);
  const size_t capacity = std::max(kLine, inputs.slot_capacity / kLine * kLine);
  const size_t largest = rules.slice() > 0 ? std::clamp(round_up(rules.slice()), kLine, capacity) : capacity;
  Execution run{
      .block = largest_block(call.spec.coll, bytes_of(call), channels, shape.blocks), .slice = largest, .channels = channels};
  run.merged = may_merge(shape, call, run, capacity);
  out->channels = channels;
  out->slice = run.slice;
  out->merged = run.merged;
  out->nanos = nanos_of(shape, call.spec.ranks, run, inputs);
  if (rules.slice() > 0 || !shape.pipelined) return;
  const size_t part = std::min(run.block, largest);
  for (size_t parts = 2; parts <= 16 && part / parts >= kLeastSlice; parts *= 2) {
    run.slice = round_up((part + parts - 1) / parts);
    const uint64_t nanos = nanos_of(shape, call.spec.ranks, run, inputs);
    if (nanos >= out->nanos) continue;
    out->slice = run.slice;
    out->nanos = nanos;
  }
}

std::string microseconds(uint64_t nanos) {
  return nanos == UINT64_MAX ? "no estimate" : fmt::format("{}.{} us", nanos / 1000, nanos % 1000 / 100);
}

/// The cheapest of `all` that may be chosen, and the next.
struct Ranking {
  Alternative* best = nullptr;
  const Alternative* next = nullptr;
};
Ranking cheapest(std::vector<Alternative>& all) {
  Ranking found;
  for (Alternative& it : all) {
    if (it.outcome != Outcome::slower) continue;
    if (found.best == nullptr || it.nanos < found.best->nanos) {
      found.next = std::exchange(found.best, &it);
    } else if (found.next == nullptr || it.nanos < found.next->nanos) {
      found.next = &it;
    }
  }
  return found;
}

std::string reason_of(const CallShape& call, const TuneRules& rules, const Field& field, const Ranking& found,
                      std::string_view canonical) {
  const WordList& list = rules.algo(call.spec.coll);
  std::string why;
  if (list.given && field.some_usable) {
    why = fmt::format("{}={} admits ", rules.algo_variable(), list.text);
  } else if (list.given && list.named) {
    why = fmt::format("{}={} cannot be had; there are ", rules.algo_variable(), list.text);
  }
  if (!canonical.empty()) why += fmt::format("{}{} needs canonical order: ", why.empty() ? "" : "and ", canonical);
  const Alternative& best = *found.best;
  if (field.count == 1) return fmt::format("{}{} alone, estimate {}", why, best.algorithm->name, microseconds(best.nanos));
  return fmt::format("{}{} algorithms, {} is cheapest with {}, next {} with {}", why, field.count, best.algorithm->name,
                     microseconds(best.nanos), found.next->algorithm->name, microseconds(found.next->nanos));
}

/// What the model takes, and why.
Alternative* by_model(const CallShape& call, const TuneRules& rules, Field& field, std::string_view canonical, std::string* reason) {
  const Ranking found = cheapest(field.all);
  *reason = reason_of(call, rules, field, found, canonical);
  return found.best;
}

/// The cheapest of the tuner plugin's table, if the plugin itself wrote its cost: then it beats also what the table has no row for.
Alternative* by_tuner(Field& field) {
  Alternative* best = nullptr;
  for (Alternative& it : field.all) {
    if (it.outcome != Outcome::slower || tuner_row(it.algorithm->name) < 0) continue;
    if (best == nullptr || tuner_cost(it) < tuner_cost(*best)) best = &it;
  }
  return best != nullptr && best->written.has_value() ? best : nullptr;
}

/// Takes what the plugin rules out from what may be chosen, unless nothing would be left.
void rule_out(const CallShape& call, const Tuner& tuner, Field* field) {
  const auto out = [](const Alternative& it) { return it.outcome == Outcome::slower && it.written.has_value() && *it.written < 0; };
  const auto n = static_cast<size_t>(std::count_if(field->all.begin(), field->all.end(), out));
  if (n == field->count) {
    log_once(fmt::format("the tuner plugin {} rules out everything that {} can use: ignored", tuner.identity(), name_of(call.spec.coll)));
    for (Alternative& it : field->all) it.written.reset();
    return;
  }
  field->count -= n;
  for (Alternative& it : field->all) it.outcome = out(it) ? Outcome::ruled_out : it.outcome;
}

/// Asks the plugin. What it prefers, with the reason, or nullptr where the model decides.
Alternative* ask(const CallShape& call, const Tuner& tuner, Field* field, int* channels, std::string* reason) {
  *channels = tuner.advise(call, field->all);
  rule_out(call, tuner, field);
  Alternative* const best = by_tuner(*field);
  if (best != nullptr) {
    *reason = fmt::format("the tuner plugin {} gives {} {} us, the least of its table", tuner.identity(), best->algorithm->name, *best->written);
  }
  return best;
}

}  // namespace

size_t bytes_of(const CallShape& call) { return times(call.count, size_of(call.type)); }

std::string_view canonical_reason(const CallShape& call, const TuneRules& rules) {
  if (!has_reduction(call.spec.coll)) return "";
  if (call.op == ReduceOp::avg && is_integer(call.type)) return "an average of integers";
  return rules.deterministic() ? "RONDE_DETERMINISTIC=1" : "";
}

Result<Evaluation> evaluate(const CallShape& call, const TuneRules& rules, const TuneInputs& inputs, const Tuner* tuner) {
  const std::string_view canonical = canonical_reason(call, rules);
  Field field = collect(call, rules, inputs, !canonical.empty());
  RONDE_TRY(check_algorithms(call, rules, field, canonical));
  RONDE_TRY(check_protocol(rules, call.spec.coll));

  const int channels = channels_of(bytes_of(call), rules, inputs, 0);
  for (Alternative& it : field.all) {
    if (it.outcome != Outcome::unsupported) plan(call, channels, rules, inputs, &it);
  }
  Evaluation made;
  Alternative* taken = nullptr;
  if (tuner != nullptr) {
    int asked = 0;
    taken = ask(call, *tuner, &field, &asked, &made.choice.reason);
    const int wanted = channels_of(bytes_of(call), rules, inputs, asked);
    if (wanted != channels) {
      for (Alternative& it : field.all) {
        if (it.outcome != Outcome::unsupported) plan(call, wanted, rules, inputs, &it);
      }
    }
  }
  Alternative& best = taken != nullptr ? *taken : *by_model(call, rules, field, canonical, &made.choice.reason);
  best.outcome = Outcome::chosen;
  made.choice.algorithm = best.algorithm;
  made.choice.channels = best.channels;
  made.choice.slice = best.slice;
  made.choice.merged = best.merged;
  made.choice.nanos = best.nanos;
  made.choice.protocol = kProtocol;
  made.alternatives = std::move(field.all);
  return made;
}

Result<Choice> choose(const CallShape& call, const TuneRules& rules, const TuneInputs& inputs, const Tuner* tuner) {
  RONDE_TRY(Evaluation made, evaluate(call, rules, inputs, tuner));
  return std::move(made.choice);
}

}  // namespace ronde
