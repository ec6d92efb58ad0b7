// Decoding one function.
#pragma once

#include <map>
#include <unordered_map>

#include "gpu-emulator/exec/instructions.h"

namespace emu {

/// What functions of a module refer to by name.
struct ModuleNames {
  std::unordered_map<std::string_view, uint32_t> functions;
  struct Found {
    ptx::Space space = ptx::Space::generic;
    uint32_t index = 0;  ///< of Parts::variables or Parts::shared
  };
  std::unordered_map<std::string_view, Found> variables;
};

/// The state of one function's decoding.
struct Builder {
  const ptx::FunctionText& text;
  ModuleNames& names;
  Module::Parts& parts;
  Code& code;

  std::vector<Slot> registers;  ///< of text.registers
  struct Place {
    ptx::Space space = ptx::Space::generic;
    uint32_t offset = 0;  ///< in the frame, in an entry's parameters; shared: of Parts::shared
  };
  std::vector<Place> variables;  ///< of text.variables
  std::vector<uint32_t> labels;  ///< instructions of text's labels
  struct Fix {
    uint32_t instruction, label;
  };
  std::vector<Fix> fixes;
  std::map<std::pair<uint64_t, unsigned>, Slot> constants;
  std::map<std::tuple<bool, uint32_t, int64_t>, uint32_t> symbols;

  /// Decodes all; the result is in `code`.
  ronde::Result<> run();
  Slot add_register(unsigned bits);
  Slot constant(uint64_t value, unsigned bits);
  void add_label(uint32_t place);
  void place_variables();
  ronde::Result<> fix_branches();
};

}  // namespace emu
