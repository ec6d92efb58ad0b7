#include <fmt/core.h>
#include <charconv>

#include "topo/text_words.h"

namespace ronde::topo {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 20;
constexpr int kMaxDepth = 64;  // as deep as files in XML: what is read from those can be written as text
constexpr int kMaxCount = 4096;

class Splitter {
 public:
  Splitter(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Result<std::vector<TextItem>> run() {
    std::vector<TextItem> top;
    std::vector<std::vector<TextItem>*> open = {&top};
    for (;;) {
      RONDE_TRY(const std::vector<std::string> words, next_words());
      if (!words.empty()) {
        RONDE_TRY(TextItem item, make_item(words));
        open.back()->push_back(std::move(item));
      }
      if (at_ == text_.size()) break;
      const char mark = text_[at_++];
      if (mark == '\n') ++line_;
      if (mark == '{') {
        if (words.empty()) return error("'{' without an item that it belongs to");
        if (open.size() == kMaxDepth) return error(fmt::format("more than {} braces inside each other", kMaxDepth));
        open.push_back(&open.back()->back().children);
      }
      if (mark == '}') {
        if (open.size() == 1) return error("'}' without '{'");
        open.pop_back();
      }
    }
    if (open.size() > 1) return error("'{' is not closed");
    return top;
  }

 private:
  Error error(const std::string& what) const {
    return fail(Code::invalid_argument, fmt::format("{}:{}: {}", file_, line_, what));
  }

  static bool ends_item(char c) { return c == '\n' || c == ';' || c == '{' || c == '}'; }

  /// The words up to what ends an item, which is left to be read. Quotes keep blanks and marks; a comment reaches to the end of
  /// its line.
  Result<std::vector<std::string>> next_words() {
    std::vector<std::string> words;
    bool in_word = false;
    for (; at_ < text_.size() && !ends_item(text_[at_]); ++at_) {
      const char c = text_[at_];
      if (c == '#') {
        while (at_ + 1 < text_.size() && text_[at_ + 1] != '\n') ++at_;
        in_word = false;
      } else if (c == ' ' || c == '\t' || c == '\r') {
        in_word = false;
      } else {
        if (!in_word) words.emplace_back();
        in_word = true;
        if (c == '"')
          RONDE_TRY(quoted(words.back()));
        else
          words.back() += c;
      }
    }
    return words;
  }

  /// Appends what stands between quotes; a backslash makes the next character an ordinary one, and of n a line's end. at_ is left
  /// at the closing quote.
  Result<> quoted(std::string& word) {
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\n') return error("a quote is not closed in its line");
      const bool escaped = text_[at_] == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] != '\n';
      if (escaped) ++at_;
      word += escaped && text_[at_] == 'n' ? '\n' : text_[at_];
    }
    if (at_ == text_.size()) return error("a quote is not closed");
    return Done{};
  }

  Result<TextItem> make_item(const std::vector<std::string>& words) const {
    TextItem item;
    item.line = line_;
    size_t first = 0;
    if (words[0][0] >= '0' && words[0][0] <= '9') {
      const auto [end, code] = std::from_chars(words[0].data(), words[0].data() + words[0].size(), item.count);
      if (code != std::errc() || end != words[0].data() + words[0].size() || item.count < 1 || item.count > kMaxCount) {
        return error(fmt::format("an item may stand 1 to {} times", kMaxCount));
      }
      first = 1;
    }
    if (first == words.size()) return error("a number of items, but not of which");
    item.kind = words[first];
    item.words.assign(words.begin() + static_cast<std::ptrdiff_t>(first) + 1, words.end());
    return item;
  }

  std::string_view text_;
  const std::string& file_;
  size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

Result<std::vector<TextItem>> split_text(std::string_view text, const std::string& file) {
  if (text.size() > kMaxBytes) {
    return fail(Code::invalid_argument,
                fmt::format("{}: a machine of {} bytes; at most {} are read", file, text.size(), kMaxBytes));
  }
  return Splitter(text, file).run();
}

}  // namespace ronde::topo
