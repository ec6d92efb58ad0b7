#include "gpu-emulator/ptx/token.h"

#include <bit>
#include <cctype>
#include <charconv>
#include <string>

#include <fmt/core.h>

namespace emu::ptx {
namespace {

using ronde::Code;
using ronde::fail;
using ronde::Result;

bool begins_word(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%' || c == '.'; }
bool in_word(char c) { return begins_word(c) || std::isdigit(static_cast<unsigned char>(c)); }

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  Result<std::vector<Token>> all() {
    std::vector<Token> tokens;
    tokens.reserve(text_.size() / 6 + 1);
    for (;;) {
      skip_blanks();
      RONDE_TRY(const Token token, next());
      tokens.push_back(token);
      if (token.kind == Lexeme::end) return tokens;
    }
  }

 private:
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  void skip_blanks() {
    for (; at_ < text_.size(); at_++) {
      const char c = text_[at_];
      if (c == '\n') line_++;
      if (c == '/' && peek(1) == '/') {
        at_ = std::min(text_.find('\n', at_), text_.size()) - 1;
      } else if (c == '/' && peek(1) == '*') {
        const size_t close = std::min(text_.find("*/", at_ + 2), text_.size() - 1);
        for (; at_ < close; at_++) line_ += text_[at_] == '\n';
        at_ = close + 1;
      } else if (!std::isspace(static_cast<unsigned char>(c))) {
        return;
      }
    }
  }

  Result<Token> next() {
    Token token;
    token.line = line_;
    if (at_ >= text_.size()) return token;
    const size_t begin = at_;
    const char c = peek();
    if (std::isdigit(static_cast<unsigned char>(c))) return number(token);
    if (begins_word(c)) {
      token.kind = Lexeme::word;
      while (in_word(peek()) || (peek() == ':' && peek(1) == ':')) at_ += peek() == ':' ? 2 : 1;
    } else if (c == '"') {
      const size_t close = text_.find('"', at_ + 1);
      if (close == std::string_view::npos)
        return fail(Code::invalid_argument, fmt::format("PTX line {}: a text has no end", line_));
      token.kind = Lexeme::text;
      token.text = text_.substr(at_ + 1, close - at_ - 1);
      at_ = close + 1;
      return token;
    } else {
      token.kind = Lexeme::mark;
      token.mark = c;
      at_++;
    }
    token.text = text_.substr(begin, at_ - begin);
    return token;
  }

  Result<Token> number(Token token) {
    const size_t begin = at_;
    while (std::isalnum(static_cast<unsigned char>(peek()))) at_++;
    bool real = false;
    if (peek() == '.' && std::isdigit(static_cast<unsigned char>(peek(1)))) {
      real = true;
      at_++;
      while (std::isalnum(static_cast<unsigned char>(peek()))) at_++;
    }
    std::string_view digits = token.text = text_.substr(begin, at_ - begin);
    token.kind = Lexeme::integer;
    if (real) {
      token.kind = Lexeme::float64;
      token.bits = std::bit_cast<uint64_t>(std::stod(std::string(digits)));
      return token;
    }
    int base = 10;
    if (digits.size() > 2 && digits[0] == '0' && !std::isdigit(static_cast<unsigned char>(digits[1]))) {
      const char prefix = static_cast<char>(std::tolower(static_cast<unsigned char>(digits[1])));
      base = prefix == 'b' ? 2 : 16;
      if (prefix == 'f') token.kind = Lexeme::float32;
      if (prefix == 'd') token.kind = Lexeme::float64;
      digits.remove_prefix(2);
    } else if (digits.size() > 1 && digits[0] == '0') {
      base = 8;
    }
    if (digits.back() == 'U') digits.remove_suffix(1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), token.bits, base);
    if (error != std::errc() || end != digits.data() + digits.size())
      return fail(Code::invalid_argument, fmt::format("PTX line {}: '{}' is no number", line_, token.text));
    return token;
  }

  std::string_view text_;
  size_t at_ = 0;
  uint32_t line_ = 1;
};

}  // namespace

Result<std::vector<Token>> tokens_of(std::string_view text) { return Scanner(text).all(); }

}  // namespace emu::ptx
