// Bodies of functions: statements, nested scopes, registers and variables of their own.
#include <fmt/core.h>

#include "gpu-emulator/ptx/parser.h"

namespace emu::ptx {

using ronde::Result;

Result<> BodyReader::body(FunctionText& to) {
  function_ = &to;
  RONDE_TRY(need_mark('{'));
  location_ = {};
  scope_ = 1;  // 0 holds the parameters
  to.scopes.push_back({0, {}});
  for (;;) {
    if (peek().kind == Lexeme::end) return wrong("the body has no end");
    if (take_mark('{')) {
      to.scopes.push_back({static_cast<int>(scope_), {}});
      scope_ = static_cast<uint32_t>(to.scopes.size() - 1);
    } else if (take_mark('}')) {
      if (scope_ == 1) return {};
      scope_ = static_cast<uint32_t>(to.scopes[scope_].parent);
    } else {
      RONDE_TRY(block_item());
    }
  }
}

Result<> BodyReader::block_item() {
  if (take_mark(';')) return {};
  if (peek().kind == Lexeme::word && peek().text[0] == '.') return directive();
  if (peek().kind == Lexeme::word && peek(1).kind == Lexeme::mark && peek(1).mark == ':') return label();
  return statement();
}

Result<> BodyReader::bind(std::string_view name, Binding binding) {
  if (!function_->scopes[scope_].names.emplace(name, binding).second) return wrong(fmt::format("'{}' is declared twice", name));
  return {};
}

Result<> BodyReader::directive() {
  const std::string_view word = take().text;
  if (word == ".reg") return registers();
  if (word == ".loc") return location();
  if (word == ".pragma") {
    skip_statement();
    return {};
  }
  Space space;
  if (word == ".local") {
    space = Space::local;
  } else if (word == ".shared") {
    space = Space::shared;
  } else if (word == ".param") {
    space = Space::param;
  } else {
    return wrong(fmt::format("the directive '{}' is not known", word));
  }
  RONDE_TRY(Declaration made, declaration(space, false));
  RONDE_TRY(bind(made.name, {Binding::Kind::variable, static_cast<uint32_t>(function_->variables.size()), 1}));
  function_->variables.push_back(std::move(made));
  return need_mark(';');
}

Result<> BodyReader::registers() {
  RONDE_TRY(const std::string_view name, need_word());
  const Type type = type_named(name.substr(1));
  if (type.kind == Type::Kind::none) return wrong(fmt::format("'{}' is no type of a register", name));
  do {
    RONDE_TRY(const std::string_view stem, need_word());
    Binding binding{Binding::Kind::register_, static_cast<uint32_t>(function_->registers.size()), 1};
    if (take_mark('<')) {
      RONDE_TRY(const int64_t count, need_integer());
      RONDE_TRY(need_mark('>'));
      binding.count = static_cast<uint32_t>(std::max<int64_t>(count, 2));  // a range keeps its numbers even with one member
    }
    RONDE_TRY(bind(stem, binding));
    function_->registers.insert(function_->registers.end(), binding.count, type);
  } while (take_mark(','));
  return need_mark(';');
}

Result<> BodyReader::location() {
  RONDE_TRY(const int64_t file, need_integer());
  RONDE_TRY(const int64_t line, need_integer());
  RONDE_TRY(need_integer());
  location_ = {static_cast<uint32_t>(file), static_cast<uint32_t>(line)};
  if (!take_mark(',')) return {};
  // ", function_name LABEL[+N], inlined_at FILE LINE COLUMN": the inner place is the one to name.
  RONDE_TRY(need_word());
  RONDE_TRY(need_word());
  if (at_mark('+')) RONDE_TRY(need_integer());
  RONDE_TRY(need_mark(','));
  RONDE_TRY(need_word());
  for (int i = 0; i < 3; i++) RONDE_TRY(need_integer());
  return {};
}

Result<> BodyReader::label() {
  const std::string_view name = take().text;
  RONDE_TRY(need_mark(':'));
  if (at_word(".branchtargets")) {
    take();
    std::vector<std::string_view> targets;
    do {
      RONDE_TRY(const std::string_view target, need_word());
      targets.push_back(target);
    } while (take_mark(','));
    RONDE_TRY(bind(name, {Binding::Kind::targets, static_cast<uint32_t>(function_->targets.size()), 1}));
    function_->targets.push_back(std::move(targets));
    return need_mark(';');
  }
  if (at_word(".callprototype") || at_word(".calltargets")) {
    skip_statement();
    return {};
  }
  RONDE_TRY(bind(name, {Binding::Kind::label, function_->labels++, 1}));
  Statement made;
  made.label = name;
  made.line = peek().line;
  made.scope = scope_;
  made.location = location_;
  function_->statements.push_back(std::move(made));
  return {};
}

Result<> BodyReader::statement() {
  Statement made;
  made.line = peek().line;
  made.scope = scope_;
  made.location = location_;
  if (take_mark('@')) {
    made.guard_negated = take_mark('!');
    RONDE_TRY(made.guard, need_word());
  }
  RONDE_TRY(std::string_view word, need_word());
  size_t dot = std::min(word.find('.'), word.size());
  made.opcode = word.substr(0, dot);
  while (dot < word.size()) {
    word.remove_prefix(dot + 1);
    dot = std::min(word.find('.'), word.size());
    made.modifiers.push_back(word.substr(0, dot));
  }
  RONDE_TRY(made.operands, operands_until(';'));
  function_->statements.push_back(std::move(made));
  return {};
}

Result<std::vector<Operand>> BodyReader::operands_until(char close) {
  std::vector<Operand> operands;
  if (take_mark(close)) return operands;
  do {
    RONDE_TRY(Operand made, operand());
    operands.push_back(std::move(made));
  } while (take_mark(','));
  RONDE_TRY(need_mark(close));
  return operands;
}

Result<Operand> BodyReader::operand() {
  Operand made;
  if (take_mark('{')) {
    made.kind = Operand::Kind::vector;
    RONDE_TRY(made.parts, operands_until('}'));
    return made;
  }
  if (take_mark('(')) {
    made.kind = Operand::Kind::list;
    RONDE_TRY(made.parts, operands_until(')'));
    return made;
  }
  if (take_mark('[')) return address();
  RONDE_TRY(made, simple_operand());
  if (!take_mark('|')) return made;
  Operand pair;
  pair.kind = Operand::Kind::pair;
  pair.parts.push_back(std::move(made));
  RONDE_TRY(Operand second, simple_operand());
  pair.parts.push_back(std::move(second));
  return pair;
}

Result<Operand> BodyReader::simple_operand() {
  Operand made;
  bool minus = false, inverted = false;
  while (at_mark('-') || at_mark('!') || at_mark('~') || at_mark('+')) {
    const char mark = take().mark;
    minus ^= mark == '-';
    made.negated |= mark == '!';
    inverted |= mark == '~';
  }
  const Token token = take();
  switch (token.kind) {
    case Lexeme::word:
      made.name = token.text;
      made.negated |= minus;
      if (at_mark('+')) {
        made.kind = Operand::Kind::name;
        RONDE_TRY(made.offset, need_integer());
      }
      return made;
    case Lexeme::integer:
      made.kind = Operand::Kind::integer;
      made.bits = minus ? -token.bits : inverted ? ~token.bits : token.bits;
      return made;
    case Lexeme::float32:
      made.kind = Operand::Kind::float32;
      made.bits = minus ? token.bits ^ 0x80000000u : token.bits;
      return made;
    case Lexeme::float64:
      made.kind = Operand::Kind::float64;
      made.bits = minus ? token.bits ^ uint64_t { 1 } << 63 : token.bits;
      return made;
    default:
      return wrong("an operand is missing");
  }
}

Result<Operand> BodyReader::address() {
  Operand made;
  made.kind = Operand::Kind::address;
  if (peek().kind == Lexeme::word) made.name = take().text;
  if (!at_mark(']')) {
    RONDE_TRY(made.offset, need_integer());
  }
  RONDE_TRY(need_mark(']'));
  return made;
}

}  // namespace emu::ptx
