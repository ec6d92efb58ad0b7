// A module: variables, functions, and what an entry and all that it may call take of shared memory.
#include <algorithm>
#include <cstring>
#include <mutex>

#include <fmt/core.h>

#include "gpu-emulator/ptx/build.h"

namespace emu {

using ptx::Space;
using ronde::Result;

const Function* Module::function(std::string_view name) const {
  for (const auto& function : parts_->functions)
    if (function->name == name) return function.get();
  return nullptr;
}

std::vector<const Function*> Module::functions() const {
  std::vector<const Function*> all;
  for (const auto& function : parts_->functions) all.push_back(function.get());
  return all;
}

const std::vector<Variable>& Module::variables() const { return parts_->variables; }
int Module::target() const { return parts_->target; }
int Module::version() const { return parts_->version; }

namespace {

class Loader {
 public:
  explicit Loader(Module::Parts& parts) : parts_(parts) {}

  Result<> load() {
    RONDE_TRY(text_, ptx::parse(parts_.text));
    parts_.version = text_.version;
    parts_.target = text_.target;
    for (const auto& [number, name] : text_.files) {
      parts_.files.resize(std::max<size_t>(parts_.files.size(), number + 1));
      const size_t slash = name.rfind('/');
      parts_.files[number] = slash == std::string_view::npos ? name : name.substr(slash + 1);
    }
    for (const ptx::FunctionText& function : text_.functions) {
      names_.functions.emplace(function.name, static_cast<uint32_t>(parts_.functions.size()));
      parts_.functions.push_back(std::make_unique<Function>());
    }
    for (const ptx::Declaration& variable : text_.variables) RONDE_TRY(add(variable));
    for (size_t f = 0; f < text_.functions.size(); f++) RONDE_TRY(decode(text_.functions[f], *parts_.functions[f]));
    for (auto& function : parts_.functions)
      if (function->entry) lay_out_shared(*function);
    return {};
  }

 private:
  Result<> add(const ptx::Declaration& from) {
    if (from.space == Space::shared) {
      names_.variables[from.name] = {Space::shared, static_cast<uint32_t>(parts_.shared.size())};
      parts_.shared.push_back({from.bytes, from.align, from.unsized || from.external});
      return {};
    }
    if (from.external)
      return ronde::fail(ronde::Code::invalid_argument,
                         fmt::format("PTX line {}: the variable '{}' is of another module", from.line, from.name));
    names_.variables[from.name] = {from.space, static_cast<uint32_t>(parts_.variables.size())};
    Variable made;
    made.name = from.name;
    made.bytes = from.bytes;
    made.align = from.align;
    made.constant = from.space == Space::constant;
    made.initial = from.initial.bytes;
    for (const ptx::Initial::Address& address : from.initial.addresses) {
      const auto function = names_.functions.find(address.name);
      if (function == names_.functions.end()) {
        made.relocations.push_back({address.offset, std::string(address.name), static_cast<uint64_t>(address.addend)});
      } else {
        const uint64_t value = kFunctionWindow + 16 * uint64_t{function->second};
        std::memcpy(made.initial.data() + address.offset, &value, 8);
      }
    }
    parts_.variables.push_back(std::move(made));
    return {};
  }

  Result<> decode(const ptx::FunctionText& text, Function& to) {
    auto code = std::make_shared<Code>();
    code->function = &to;
    to.name = code->name = text.name;
    to.entry = text.entry;
    to.max_threads = text.max_threads;
    to.registers = text.max_registers != 0 ? text.max_registers : 64;
    if (text.has_body) {
      Builder builder{text, names_, parts_, *code, {}, {}, {}, {}, {}, {}};
      RONDE_TRY(builder.run());
      if (text.entry) describe_parameters(text, builder, to);
    } else {
      code->missing = fmt::format("a call of {}, which the module only declares", text.name);
    }
    to.local_bytes = code->local_bytes;
    to.code = std::move(code);
    return {};
  }

  static void describe_parameters(const ptx::FunctionText& text, const Builder& builder, Function& to) {
    for (size_t p = 0; p < text.parameters.size(); p++) {
      const ptx::Declaration& from = text.parameters[p];
      const auto bytes = static_cast<uint32_t>(from.bytes);
      to.parameters.push_back({std::string(from.name), builder.variables[p].offset, bytes, from.align});
      to.parameter_bytes = builder.variables[p].offset + bytes;
    }
  }

  /// Static variables first, then the dynamic ones, which all begin at one place.
  void lay_out_shared(Function& entry) {
    std::vector<bool> seen(parts_.functions.size()), used(parts_.shared.size());
    std::vector<const Code*> todo{entry.code.get()};
    while (!todo.empty()) {
      const Code& code = *todo.back();
      todo.pop_back();
      for (const Symbol& symbol : code.symbols)
        if (symbol.shared) used[symbol.variable] = true;
      const auto visit = [&](uint32_t callee) {
        if (!seen[callee]) todo.push_back(parts_.functions[callee]->code.get());
        seen[callee] = true;
      };
      for (const uint32_t callee : code.callees) visit(callee);
      for (uint32_t f = 0; code.calls_by_address && f < parts_.functions.size(); f++)
        if (!parts_.functions[f]->entry) visit(f);
    }
    auto code = std::make_shared<Code>(*entry.code);
    code->shared_at.assign(parts_.shared.size(), ~uint32_t{0});
    uint64_t at = 0;
    for (const bool dynamic : {false, true}) {
      for (size_t v = 0; v < parts_.shared.size(); v++) {
        const SharedVariable& variable = parts_.shared[v];
        if (!used[v] || variable.dynamic != dynamic) continue;
        at = (at + variable.align - 1) / variable.align * variable.align;
        code->shared_at[v] = static_cast<uint32_t>(at);
        if (!dynamic) at += variable.bytes;
      }
    }
    entry.shared_bytes = static_cast<uint32_t>(at);
    entry.code = std::move(code);
  }

  Module::Parts& parts_;
  ptx::ModuleText text_;
  ModuleNames names_;
};

}  // namespace

namespace {

/// What is loaded, by the hash of its text: each device of a process loads the same.
struct Loaded {
  std::mutex mutex;
  std::unordered_map<size_t, std::weak_ptr<Module::Parts>> parts;
};
Loaded& loaded() {
  static Loaded* const one = new Loaded;
  return *one;
}

}  // namespace

Result<std::unique_ptr<Module>> load_module(std::string_view text) {
  while (!text.empty() && text.back() == '\0') text.remove_suffix(1);
  const std::lock_guard lock(loaded().mutex);
  std::weak_ptr<Module::Parts>& place = loaded().parts[std::hash<std::string_view>()(text)];
  if (auto known = place.lock(); known && known->text == text) return std::make_unique<Module>(std::move(known));
  auto parts = std::make_shared<Module::Parts>();
  parts->text = text;
  RONDE_TRY(Loader(*parts).load());
  place = parts;
  return std::make_unique<Module>(std::move(parts));
}

}  // namespace emu
