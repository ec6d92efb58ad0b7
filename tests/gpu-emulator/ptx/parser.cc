// What stands in a module: variables, functions, and directives about the whole.
#include "gpu-emulator/ptx/parser.h"

#include <fmt/core.h>

namespace emu::ptx {

using ronde::Result;

Result<ModuleText> Parser::module() {
  while (peek().kind != Lexeme::end) RONDE_TRY(item());
  if (module_.version == 0) return wrong("the text has no .version: this is no PTX");
  return std::move(module_);
}

Result<> Parser::item() {
  bool external = false;
  while (at_word(".visible") || at_word(".weak") || at_word(".common") || at_word(".extern"))
    external |= take().text == ".extern";
  if (take_mark(';')) return {};
  if (peek().kind != Lexeme::word) return wrong("a directive is missing");
  const std::string_view word = take().text;
  if (word == ".version") {
    if (peek().kind != Lexeme::float64) return wrong("a version such as 9.0 is missing");
    const std::string_view digits = take().text;
    module_.version = std::stoi(std::string(digits)) * 10 + std::stoi(std::string(digits.substr(digits.find('.') + 1)));
  } else if (word == ".target") {
    RONDE_TRY(const std::string_view name, need_word());
    const size_t digit = name.find_first_of("0123456789");
    if (digit == std::string_view::npos) return wrong(fmt::format("'{}' is no target", name));
    module_.target = std::stoi(std::string(name.substr(digit)));
    while (take_mark(',')) RONDE_TRY(need_word());
  } else if (word == ".address_size") {
    RONDE_TRY(const int64_t bits, need_integer());
    if (bits != 64) return wrong("only addresses of 64 bits are known");
  } else if (word == ".file") {
    RONDE_TRY(const int64_t number, need_integer());
    if (peek().kind != Lexeme::text) return wrong("the name of a file is missing");
    module_.files[static_cast<uint32_t>(number)] = take().text;
    while (take_mark(',')) RONDE_TRY(need_integer());
  } else if (word == ".section") {
    RONDE_TRY(need_word());
    return skip_braces();
  } else if (word == ".entry" || word == ".func") {
    return function(word == ".entry");
  } else if (word == ".pragma" || word == ".alias") {
    skip_statement();
  } else {
    return variable(word, external);
  }
  return {};
}

Result<> Parser::variable(std::string_view space, bool external) {
  static const std::unordered_map<std::string_view, Space> spaces = {
      {".global", Space::global}, {".const", Space::constant}, {".shared", Space::shared}};
  const auto found = spaces.find(space);
  if (found == spaces.end()) return wrong(fmt::format("the directive '{}' is not known", space));
  do {
    RONDE_TRY(Declaration made, declaration(found->second, external));
    module_.variables.push_back(std::move(made));
  } while (take_mark(','));
  return need_mark(';');
}

FunctionText& Parser::named_function(std::string_view name) {
  for (FunctionText& function : module_.functions)
    if (function.name == name) return function;
  module_.functions.emplace_back().name = name;
  return module_.functions.back();
}

Result<> Parser::function(bool entry) {
  FunctionText read;
  read.entry = entry;
  read.line = peek().line;
  if (at_mark('(')) {
    RONDE_TRY(read.returns, parameters());
  }
  RONDE_TRY(read.name, need_word());
  if (at_mark('(')) {
    RONDE_TRY(read.parameters, parameters());
  }
  RONDE_TRY(function_limits(read));
  FunctionText& kept = named_function(read.name);
  if (take_mark(';')) {
    if (!kept.has_body) kept = std::move(read);
    return {};
  }
  if (kept.has_body) return wrong(fmt::format("the function '{}' is defined twice", read.name));
  read.has_body = true;
  read.scopes.emplace_back();
  for (std::vector<Declaration>* list : {&read.returns, &read.parameters}) {
    for (const Declaration& parameter : *list) {
      read.scopes[0].names.emplace(parameter.name,
                                   Binding{Binding::Kind::variable, static_cast<uint32_t>(read.variables.size()), 1});
      read.variables.push_back(parameter);
    }
  }
  RONDE_TRY(body(read));
  kept = std::move(read);
  return {};
}

Result<std::vector<Declaration>> Parser::parameters() {
  std::vector<Declaration> made;
  RONDE_TRY(need_mark('('));
  if (take_mark(')')) return made;
  do {
    if (!at_word(".param")) return wrong("only parameters of the space .param are known");
    take();
    RONDE_TRY(Declaration parameter, declaration(Space::param, false));
    made.push_back(std::move(parameter));
  } while (take_mark(','));
  RONDE_TRY(need_mark(')'));
  return made;
}

Result<> Parser::function_limits(FunctionText& to) {
  while (peek().kind == Lexeme::word) {
    const std::string_view word = take().text;
    if (word == ".pragma") {
      skip_statement();
      continue;
    }
    int64_t product = 1;
    while (peek().kind == Lexeme::integer) {
      RONDE_TRY(const int64_t n, need_integer());
      product *= n;
      if (!take_mark(',')) break;
    }
    if (word == ".maxntid" || word == ".reqntid")
      to.max_threads = static_cast<uint32_t>(product);
    else if (word == ".maxnreg")
      to.max_registers = static_cast<uint32_t>(product);
    else if (word != ".minnctapersm" && word != ".maxnctapersm" && word != ".noreturn" && word != ".reqnctapercluster" &&
             word != ".explicitcluster" && word != ".maxclusterrank" && word != ".blocksareclusters" && word != ".abi_preserve" &&
             word != ".abi_preserve_control" && word != ".unique")
      return wrong(fmt::format("the directive '{}' of a function is not known", word));
  }
  return {};
}

Result<ModuleText> parse(std::string_view text) {
  RONDE_TRY(std::vector<Token> tokens, tokens_of(text));
  return Parser(std::move(tokens)).module();
}

}  // namespace emu::ptx
