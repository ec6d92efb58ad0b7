// The parser's two halves: what stands in a module, and what stands in a body.
#pragma once

#include <optional>
#include <string>

#include "gpu-emulator/ptx/syntax.h"

namespace emu::ptx {

/// A cursor over tokens, with the small pieces of grammar that both halves use.
class Reader {
 public:
  explicit Reader(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

 protected:
  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  const Token& take() { return tokens_[at_ < tokens_.size() - 1 ? at_++ : at_]; }
  bool at_mark(char mark) const { return peek().kind == Lexeme::mark && peek().mark == mark; }
  bool at_word(std::string_view word) const { return peek().kind == Lexeme::word && peek().text == word; }
  bool take_mark(char mark);
  ronde::Result<> need_mark(char mark);
  ronde::Result<std::string_view> need_word();
  /// An integer with its sign, or a sum of such.
  ronde::Result<int64_t> need_integer();
  /// Drops tokens up to and with the ';'.
  void skip_statement();
  /// Drops a '{' and all up to its '}'.
  ronde::Result<> skip_braces();
  ronde::Error wrong(const std::string& what) const;

  /// The rest of a declaration, after .global, .shared, .local, .const or .param, without its ';'.
  ronde::Result<Declaration> declaration(Space space, bool external);

 private:
  ronde::Result<> initialiser(Declaration& to, Type element);
  ronde::Result<> initial_value(Declaration& to, Type element, size_t& at);

  std::vector<Token> tokens_;
  size_t at_ = 0;
};

/// Bodies: statements, nested scopes, registers and variables of their own.
class BodyReader : public Reader {
 public:
  using Reader::Reader;

 protected:
  /// From '{' to its '}'.
  ronde::Result<> body(FunctionText& to);

 private:
  ronde::Result<> block_item();
  ronde::Result<> directive();
  ronde::Result<> registers();
  ronde::Result<> location();
  ronde::Result<> label();
  ronde::Result<> statement();
  ronde::Result<Operand> operand();
  ronde::Result<Operand> simple_operand();
  ronde::Result<Operand> address();
  ronde::Result<std::vector<Operand>> operands_until(char close);
  ronde::Result<> bind(std::string_view name, Binding binding);

  FunctionText* function_ = nullptr;
  uint32_t scope_ = 0;
  Location location_;
};

class Parser : public BodyReader {
 public:
  using BodyReader::BodyReader;
  ronde::Result<ModuleText> module();

 private:
  ronde::Result<> item();
  ronde::Result<> variable(std::string_view space, bool external);
  ronde::Result<> function(bool entry);
  ronde::Result<std::vector<Declaration>> parameters();
  ronde::Result<> function_limits(FunctionText& to);
  FunctionText& named_function(std::string_view name);

  ModuleText module_;
};

}  // namespace emu::ptx
