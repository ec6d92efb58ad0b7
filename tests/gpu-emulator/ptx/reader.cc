// The parser's common pieces: cursor, numbers, declarations with their initial values.
#include <bit>
#include <cstring>

#include <fmt/core.h>

#include "gpu-emulator/ptx/parser.h"

namespace emu::ptx {

using ronde::Code;
using ronde::Result;

Type type_named(std::string_view name) {
  using Kind = Type::Kind;
  static const std::unordered_map<std::string_view, Type> types = {
      {"pred", {Kind::pred, 1, 1}},        {"b8", {Kind::bits, 8, 1}},        {"b16", {Kind::bits, 16, 1}},
      {"b32", {Kind::bits, 32, 1}},        {"b64", {Kind::bits, 64, 1}},      {"b128", {Kind::bits, 128, 1}},
      {"u8", {Kind::unsigned_, 8, 1}},     {"u16", {Kind::unsigned_, 16, 1}}, {"u32", {Kind::unsigned_, 32, 1}},
      {"u64", {Kind::unsigned_, 64, 1}},   {"s8", {Kind::signed_, 8, 1}},     {"s16", {Kind::signed_, 16, 1}},
      {"s32", {Kind::signed_, 32, 1}},     {"s64", {Kind::signed_, 64, 1}},   {"f16", {Kind::real, 16, 1}},
      {"f32", {Kind::real, 32, 1}},        {"f64", {Kind::real, 64, 1}},      {"f16x2", {Kind::real, 16, 2}},
      {"f32x2", {Kind::real, 32, 2}},      {"bf16", {Kind::brain, 16, 1}},    {"bf16x2", {Kind::brain, 16, 2}},
      {"u16x2", {Kind::unsigned_, 16, 2}}, {"s16x2", {Kind::signed_, 16, 2}},
  };
  const auto found = types.find(name);
  return found == types.end() ? Type{} : found->second;
}

bool Statement::has(std::string_view modifier) const {
  for (const std::string_view m : modifiers)
    if (m == modifier) return true;
  return false;
}

Binding FunctionText::find(std::string_view name, uint32_t scope) const {
  std::string_view stem = name;
  while (!stem.empty() && stem.back() >= '0' && stem.back() <= '9') stem.remove_suffix(1);
  uint64_t number = 0;
  for (const char c : name.substr(stem.size())) number = number * 10 + static_cast<uint64_t>(c - '0');
  for (int s = static_cast<int>(scope); s >= 0; s = scopes[static_cast<size_t>(s)].parent) {
    const auto& names = scopes[static_cast<size_t>(s)].names;
    if (const auto found = names.find(name); found != names.end()) return found->second;
    if (stem.size() == name.size()) continue;
    // "%r<8>" is bound as "%r<", so that a plain "%r" beside it stays another one.
    const auto range = names.find(std::string_view(stem));
    if (range != names.end() && range->second.kind == Binding::Kind::register_ && range->second.count > 1 &&
        number < range->second.count)
      return {Binding::Kind::register_, range->second.index + static_cast<uint32_t>(number), 1};
  }
  return {};
}

ronde::Error Reader::wrong(const std::string& what) const {
  const Token& token = peek();
  return ronde::fail(Code::invalid_argument, fmt::format("PTX line {}: {} (at '{}')", token.line, what, token.text));
}

bool Reader::take_mark(char mark) {
  const bool here = at_mark(mark);
  if (here) take();
  return here;
}

Result<> Reader::need_mark(char mark) {
  if (!take_mark(mark)) return wrong(fmt::format("'{}' is missing", mark));
  return {};
}

Result<std::string_view> Reader::need_word() {
  if (peek().kind != Lexeme::word) return wrong("a name is missing");
  return take().text;
}

Result<int64_t> Reader::need_integer() {
  int64_t sum = 0;
  for (bool more = true; more; more = at_mark('+') || at_mark('-')) {
    bool minus = false;
    while (at_mark('+') || at_mark('-')) minus ^= take().mark == '-';
    if (peek().kind != Lexeme::integer) return wrong("an integer is missing");
    const auto value = static_cast<int64_t>(take().bits);
    sum += minus ? -value : value;
  }
  return sum;
}

void Reader::skip_statement() {
  while (peek().kind != Lexeme::end && !take_mark(';')) take();
}

Result<> Reader::skip_braces() {
  RONDE_TRY(need_mark('{'));
  for (int depth = 1; depth > 0;) {
    if (peek().kind == Lexeme::end) return wrong("a '{' has no '}'");
    const Token& token = take();
    if (token.kind == Lexeme::mark) depth += token.mark == '{' ? 1 : token.mark == '}' ? -1 : 0;
  }
  return {};
}

Result<Declaration> Reader::declaration(Space space, bool external) {
  Declaration made;
  made.space = space;
  made.external = external;
  made.line = peek().line;
  Type type;
  uint32_t elements = 1;
  bool pointer = false;  // after .ptr, space and alignment are those of what it points to
  while (peek().kind == Lexeme::word && peek().text[0] == '.') {
    const std::string_view word = take().text.substr(1);
    if (word == "align") {
      RONDE_TRY(const int64_t align, need_integer());
      if (!pointer) made.align = static_cast<uint32_t>(align);
    } else if (word == "v2" || word == "v4") {
      elements = word == "v2" ? 2 : 4;
    } else if (word == "ptr") {
      pointer = true;
    } else if (const Type named = type_named(word); named.kind != Type::Kind::none) {
      type = named;
    } else if (word != "global" && word != "shared" && word != "local" && word != "const" && word != "attribute") {
      return wrong(fmt::format("'.{}' is not known in a declaration", word));
    }
    if (word == "attribute") {
      while (peek().kind != Lexeme::end && !take_mark(')')) take();
    }
  }
  RONDE_TRY(made.name, need_word());
  if (type.kind == Type::Kind::none) return wrong(fmt::format("'{}' has no type", made.name));
  const uint32_t unit = type.bytes() * elements;
  made.align = std::max(made.align, unit);
  made.bytes = unit;
  while (take_mark('[')) {
    if (take_mark(']')) {
      made.unsized = true;
      continue;
    }
    RONDE_TRY(const int64_t count, need_integer());
    made.bytes *= static_cast<uint64_t>(count);
    RONDE_TRY(need_mark(']'));
  }
  if (take_mark('=')) RONDE_TRY(initialiser(made, type));
  if (made.unsized) made.bytes = made.initial.bytes.size();
  return made;
}

Result<> Reader::initialiser(Declaration& to, Type element) {
  size_t at = 0;
  if (!at_mark('{')) return initial_value(to, element, at);
  int depth = 0;
  do {
    if (take_mark('{')) {
      depth++;
    } else if (take_mark('}')) {
      depth--;
    } else if (!take_mark(',')) {
      RONDE_TRY(initial_value(to, element, at));
    }
  } while (depth > 0);
  return {};
}

Result<> Reader::initial_value(Declaration& to, Type element, size_t& at) {
  const size_t bytes = element.bytes();
  uint64_t value = 0;
  if (peek().kind == Lexeme::word) {
    const bool generic = at_word("generic");
    if (generic) {
      take();
      RONDE_TRY(need_mark('('));
    }
    Initial::Address address{at, "", 0};
    RONDE_TRY(address.name, need_word());
    if (at_mark('+') || at_mark('-')) {
      RONDE_TRY(address.addend, need_integer());
    }
    if (generic) RONDE_TRY(need_mark(')'));
    if (at_mark('+') || at_mark('-')) {
      RONDE_TRY(const int64_t more, need_integer());
      address.addend += more;
    }
    if (bytes != 8) return wrong("an address is 8 bytes, its variable's elements are not");
    to.initial.addresses.push_back(address);
  } else if (peek().kind == Lexeme::float32 || peek().kind == Lexeme::float64) {
    const Token token = take();
    const bool single = token.kind == Lexeme::float32;
    value = token.bits;
    if (single && bytes == 8) value = std::bit_cast<uint64_t>(double{std::bit_cast<float>(static_cast<uint32_t>(token.bits))});
    if (!single && bytes == 4) value = std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(token.bits)));
  } else {
    RONDE_TRY(const int64_t integer, need_integer());
    value = static_cast<uint64_t>(integer);
  }
  to.initial.bytes.resize(at + bytes);
  std::memcpy(to.initial.bytes.data() + at, &value, std::min<size_t>(bytes, 8));
  at += bytes;
  return {};
}

}  // namespace emu::ptx
