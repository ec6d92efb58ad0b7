#include "tune/explain.h"

#include <fmt/core.h>

namespace ronde {
namespace {

std::string_view word_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::chosen:
      return "chosen";
    case Outcome::slower:
      return "slower";
    case Outcome::unsupported:
      return "unsupported";
    case Outcome::not_admitted:
      return "not admitted";
    case Outcome::not_canonical:
      return "not canonical";
    case Outcome::ruled_out:
      return "ruled out";
  }
  return "";
}

std::string microseconds(uint64_t nanos) { return fmt::format("{}.{:03}", nanos / 1000, nanos % 1000); }

/// A JSON string; what is no printable ASCII is escaped byte by byte, so that any text gives valid JSON.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte > 0x7e) {
      out += fmt::format("\\u{:04x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string bytes_text(const CallShape& call, const char* too_many) {
  const size_t bytes = bytes_of(call);
  return bytes == SIZE_MAX ? too_many : fmt::format("{}", bytes);
}

std::string why_slower(const Alternative& one, const Evaluation& made) {
  if (one.written.has_value()) return fmt::format("the tuner plugin gives it {} us", *one.written);
  if (one.nanos == UINT64_MAX) return "the model has no estimate for it";
  const uint64_t best = made.choice.nanos;
  if (best == UINT64_MAX) return "Programs of the user's own come before it";
  if (one.nanos < best) return "the tuner plugin prefers the chosen one";
  if (one.nanos == best) return "as fast, but later in the order of preference";
  return fmt::format("takes {} us longer", microseconds(one.nanos - best));
}

std::string json_of(const Alternative& one, const CallShape& call, const TuneRules& rules, const Evaluation& made) {
  const bool estimated = one.nanos != UINT64_MAX;
  const bool planned = one.outcome != Outcome::unsupported;
  return fmt::format(
      R"({{"algorithm":{},"outcome":{},"microseconds":{},"plugin_microseconds":{},"channels":{},"slice_bytes":{},"merged":{},"why":{}}})",
      quoted(one.algorithm->name), quoted(word_of(one.outcome)), estimated ? microseconds(one.nanos) : "null",
      one.written.has_value() ? fmt::format("{}", *one.written) : "null", planned ? fmt::format("{}", one.channels) : "null",
      planned ? fmt::format("{}", one.slice) : "null", planned ? (one.merged ? "true" : "false") : "null",
      quoted(why(one, call, rules, made)));
}

}  // namespace

std::string why(const Alternative& one, const CallShape& call, const TuneRules& rules, const Evaluation& made) {
  switch (one.outcome) {
    case Outcome::chosen:
      return made.choice.reason;
    case Outcome::slower:
      return why_slower(one, made);
    case Outcome::unsupported:
      if (one.algorithm->supports(call.spec)) return "is made for ranks on several nodes";
      return fmt::format("does not exist for {}", name_of(call.spec.coll));
    case Outcome::not_admitted:
      return fmt::format("{}={} does not admit it", rules.algo_variable(), rules.algo(call.spec.coll).text);
    case Outcome::not_canonical:
      return fmt::format("{} needs canonical order, which it does not give", canonical_reason(call, rules));
    case Outcome::ruled_out:
      return "the tuner plugin rules it out";
  }
  return "";
}

std::string explain_text(const CallShape& call, const TuneRules& rules, const Evaluation& made, std::string_view transport) {
  const Choice& choice = made.choice;
  std::string text = fmt::format("{} of {} {} ({} bytes) on {} ranks: {}, {}, {} channel{}, slices of {} bytes{}{}{}\n",
                                 name_of(call.spec.coll), call.count, name_of(call.type), bytes_text(call, "too many"), call.spec.ranks,
                                 choice.algorithm->name, choice.protocol, choice.channels, choice.channels == 1 ? "" : "s",
                                 choice.slice, choice.merged ? ", adjacent blocks merged" : "", transport.empty() ? "" : ", by ",
                                 transport);
  text += fmt::format("  why: {}\n", choice.reason);
  for (const Alternative& one : made.alternatives) {
    const std::string cost = one.nanos == UINT64_MAX ? "-" : microseconds(one.nanos) + " us";
    const bool chosen = one.outcome == Outcome::chosen;
    text += fmt::format("  {:<8} {:>18}  {}{}{}\n", one.algorithm->name, cost, word_of(one.outcome), chosen ? "" : ": ",
                        chosen ? "" : why(one, call, rules, made));
  }
  return text;
}

std::string explain_json(const CallShape& call, const TuneRules& rules, const Evaluation& made, std::string_view transport) {
  const Choice& choice = made.choice;
  const Coll coll = call.spec.coll;
  std::string json = fmt::format(R"({{"call":{},"ranks":{},"count":{},"type":{},"op":{},"root":{},"bytes":{},)",
                                 quoted(name_of(coll)), call.spec.ranks, call.count, quoted(name_of(call.type)),
                                 has_reduction(coll) ? quoted(name_of(call.op)) : "null",
                                 has_root(coll) ? fmt::format("{}", call.spec.root) : "null", bytes_text(call, "null"));
  json += fmt::format(
      R"("choice":{{"algorithm":{},"protocol":{},"channels":{},"slice_bytes":{},"merged":{},"transport":{},"microseconds":{},"reason":{}}},"alternatives":[)",
      quoted(choice.algorithm->name), quoted(choice.protocol), choice.channels, choice.slice, choice.merged ? "true" : "false",
      transport.empty() ? "null" : quoted(transport), choice.nanos == UINT64_MAX ? "null" : microseconds(choice.nanos), quoted(choice.reason));
  for (const Alternative& one : made.alternatives) {
    if (&one != &made.alternatives.front()) json += ',';
    json += json_of(one, call, rules, made);
  }
  return json + "]}";
}

}  // namespace ronde
