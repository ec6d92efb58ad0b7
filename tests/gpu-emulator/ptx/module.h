// A PTX module as the emulator runs it: text in, decoded functions and variables out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace emu {

struct Code;  // exec/code.h: the decoded instructions

/// One parameter of an entry: where it lies in the block of parameters that a launch brings.
struct Parameter {
  std::string name;
  uint32_t offset = 0;
  uint32_t bytes = 0;
  uint32_t align = 1;
};

/// A place in a variable's initial bytes that holds the address of another variable plus `addend`.
struct Relocation {
  size_t offset = 0;
  std::string target;
  uint64_t addend = 0;
};

/// A variable of the spaces .global and .const. Whoever loads the module allocates it once per context, copies `initial` (zeros
/// where it is shorter than `bytes`), and writes the addresses that `relocations` asks for, 8 bytes each.
struct Variable {
  std::string name;
  size_t bytes = 0;
  size_t align = 1;
  std::vector<std::byte> initial;
  std::vector<Relocation> relocations;
  bool constant = false;
};

/// A function of a module. The numbers are those that a driver tells of an entry.
struct Function {
  std::string name;
  bool entry = false;
  std::vector<Parameter> parameters;
  uint32_t parameter_bytes = 0;
  uint32_t shared_bytes = 0;  ///< static shared memory, that of the functions it may call included
  uint32_t local_bytes = 0;   ///< per thread, its own frame
  uint32_t max_threads = 1024;
  uint32_t registers = 0;  ///< what a PTX function declares for itself (.maxnreg), else a guess that suits most
  std::shared_ptr<const Code> code;
};

/// A loaded module; constant from then on, so any number of launches may run it at once. Must outlive them.
class Module {
 public:
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// nullptr where the module has no such function.
  const Function* function(std::string_view name) const;
  std::vector<const Function*> functions() const;
  const std::vector<Variable>& variables() const;
  /// The .target's number, 80 for sm_80.
  int target() const;
  /// The .version, 10 * major + minor.
  int version() const;

  struct Parts;
  explicit Module(std::shared_ptr<Parts> parts) : parts_(std::move(parts)) {}
  const Parts& parts() const { return *parts_; }

 private:
  std::shared_ptr<Parts> parts_;
};

/// Parses and decodes PTX `text` (a zero byte at its end is ignored). An instruction or directive that is not known is an error
/// that names its line in the PTX and, where .loc tells it, in the source.
ronde::Result<std::unique_ptr<Module>> load_module(std::string_view text);

}  // namespace emu
