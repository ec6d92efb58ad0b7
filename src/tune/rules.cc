// The syntax of NCCL_ALGO and NCCL_PROTO:  [collective:]list[;collective:list]...   list: [^]word[,word]...
#include <algorithm>
#include <optional>
#include <span>

#include <fmt/core.h>

#include "base/words.h"
#include "tune/choose.h"

namespace ronde {
namespace {

template <class Words>
std::string joined(const Words& words, std::string_view between) {
  std::string text;
  for (const auto& word : words) text.append(text.empty() ? "" : between).append(word);
  return text;
}

using Lists = std::array<WordList, kColls>;

constexpr std::string_view kNcclAlgorithms[] = {"ring", "tree", "collnetdirect", "collnetchain", "nvls", "nvlstree", "pat"};
constexpr std::string_view kProtocolWords[] = {"ll", "ll128", "simple"};
constexpr Coll kFunctions[] = {Coll::all_reduce,     Coll::broadcast,  Coll::reduce, Coll::all_gather,
                               Coll::reduce_scatter, Coll::all_to_all, Coll::gather, Coll::scatter};

// NCCL's variables govern these; an entry without a name is not meant for the others, which NCCL builds from messages.
constexpr bool is_nccl_function(Coll coll) { return coll <= Coll::reduce_scatter; }

std::string lower(std::string_view text) {
  std::string small(text);
  for (char& c : small) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return small;
}

std::vector<std::string_view> known_algorithms() {
  std::vector<std::string_view> words(std::begin(kNcclAlgorithms), std::end(kNcclAlgorithms));
  for (const Algorithm& algorithm : algorithms()) {
    if (std::find(words.begin(), words.end(), algorithm.name) == words.end()) words.push_back(algorithm.name);
  }
  return words;
}

std::optional<Coll> find_function(std::string_view name) {
  for (const Coll coll : kFunctions) {
    if (same_word(name, name_of(coll))) return coll;
  }
  return std::nullopt;
}

/// Reads one variable's value; errors say where in it they are.
class ListParser {
 public:
  ListParser(std::string variable, std::string_view value, std::span<const std::string_view> known, std::string_view kind)
      : variable_(std::move(variable)), value_(value), known_(known), kind_(kind) {}

  Result<Lists> parse() const {
    Lists lists;
    size_t at = 0;
    for (int number = 1; at < value_.size(); ++number) {
      const size_t end = std::min(value_.find(';', at), value_.size());
      RONDE_TRY(parse_entry(at, end, number, &lists));
      at = end + 1;  // a closing ';' ends the last entry and begins none
    }
    return lists;
  }

 private:
  Result<> parse_entry(size_t at, size_t end, int number, Lists* lists) const {
    const std::string_view entry = value_.substr(at, end - at);
    const size_t colon = entry.find(':');
    if (colon == std::string_view::npos) {
      if (number > 1) {
        return error(at, fmt::format("entry {} (\"{}\") names no collective, which only the first entry may leave out; write {}",
                                     number, entry, functions()));
      }
      RONDE_TRY(WordList list, parse_list(at, end));
      for (const Coll coll : kFunctions) {
        (*lists)[static_cast<size_t>(coll)] = list;
        (*lists)[static_cast<size_t>(coll)].named = is_nccl_function(coll);
      }
      return {};
    }
    const std::optional<Coll> coll = find_function(entry.substr(0, colon));
    if (!coll) return error(at, fmt::format("\"{}\" is no collective; known are {}", entry.substr(0, colon), functions()));
    RONDE_TRY(WordList list, parse_list(at + colon + 1, end));
    list.named = true;
    (*lists)[static_cast<size_t>(*coll)] = std::move(list);
    return {};
  }

  Result<WordList> parse_list(size_t at, size_t end) const {
    WordList list;
    list.given = true;
    list.text = value_.substr(at, end - at);
    list.inverted = at < end && value_[at] == '^';
    if (list.inverted) ++at;
    while (true) {
      const size_t comma = std::min(value_.find(',', at), end);
      const std::string_view word = value_.substr(at, comma - at);
      const auto known = std::find_if(known_.begin(), known_.end(), [&](std::string_view k) { return same_word(k, word); });
      if (known == known_.end()) return unknown(at, word);
      list.words.push_back(lower(word));
      if (comma == end) return list;
      at = comma + 1;
    }
  }

  Error unknown(size_t at, std::string_view word) const {
    std::string hint;
    if (word.find_first_of(" \t") != std::string_view::npos) hint = " (blanks count as part of a word)";
    if (word.find('^') != std::string_view::npos) hint = " (^ stands once, in front of a whole list)";
    const std::string what =
        word.empty() ? fmt::format("an empty word names no {}", kind_) : fmt::format("\"{}\" is no {}", word, kind_);
    return error(at, fmt::format("{}{}; known are {}, separated by commas", what, hint, joined(known_, ", ")));
  }

  Error error(size_t at, const std::string& what) const {
    return fail(Code::invalid_usage, fmt::format("reading {}={}: at character {}, {}", variable_, value_, at + 1, what),
                Scope::communicator);
  }

  static std::string functions() {
    std::string text;
    for (const Coll coll : kFunctions) text += fmt::format("{}{}", text.empty() ? "" : ", ", name_of(coll));
    return text;
  }

  std::string variable_;
  std::string_view value_;
  std::span<const std::string_view> known_;
  std::string_view kind_;
};

std::string text_of(std::string_view title, const Lists& lists) {
  std::string text(title);
  for (const Coll coll : kFunctions) {
    const WordList& list = lists[static_cast<size_t>(coll)];
    if (!list.given) continue;
    std::vector<std::string> words = list.words;
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    text += fmt::format(" {}{}:{}{}", name_of(coll), list.named ? "" : "?", list.inverted ? "^" : "", joined(words, ","));
  }
  return text;
}

/// One end of the range of channels: of the variables that are set the narrower, else what the program asked for, else the default.
int channels_end(const Config& config, Setting channels, Setting ctas, int asked, bool upper) {
  const auto variable = static_cast<int>(config.integer(channels));
  const auto cta = static_cast<int>(config.integer(ctas));
  if (cta == 0) return config.is_set(channels) || asked == 0 ? variable : asked;
  if (!config.is_set(channels)) return cta;
  return upper ? std::min(variable, cta) : std::max(variable, cta);
}

}  // namespace

bool WordList::admits(std::string_view word) const {
  if (!given) return true;
  const bool listed = std::any_of(words.begin(), words.end(), [&](const std::string& w) { return same_word(w, word); });
  return listed != inverted;
}

Result<TuneRules> TuneRules::parse(const Config& config, AskedChannels asked) {
  TuneRules rules;
  // A default has no variable; the name is then never shown.
  rules.algo_variable_ = config.source(Setting::algo);
  rules.proto_variable_ = config.source(Setting::proto);
  const std::vector<std::string_view> known = known_algorithms();
  RONDE_TRY(rules.algo_, ListParser(rules.algo_variable_, config.text(Setting::algo), known, "algorithm").parse());
  RONDE_TRY(rules.proto_, ListParser(rules.proto_variable_, config.text(Setting::proto), kProtocolWords, "protocol").parse());
  rules.strict_ = config.flag(Setting::strict);
  rules.deterministic_ = config.flag(Setting::deterministic);
  rules.max_channels_ = std::min(kMostChannels, channels_end(config, Setting::max_channels, Setting::max_ctas, asked.most, true));
  rules.min_channels_ = std::min(rules.max_channels_, channels_end(config, Setting::min_channels, Setting::min_ctas, asked.least, false));
  rules.slice_ = config.bytes(Setting::slice);
  return rules;
}

std::string TuneRules::text() const {
  return fmt::format("{}; {}; strict {}; deterministic {}; channels {}-{}; slice {}", text_of("algo", algo_),
                     text_of("proto", proto_), strict_ ? 1 : 0, deterministic_ ? 1 : 0, min_channels_, max_channels_, slice_);
}

}  // namespace ronde
