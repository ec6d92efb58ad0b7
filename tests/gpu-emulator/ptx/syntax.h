// What a PTX text says, before it is decoded: declarations, and functions as lists of statements.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "gpu-emulator/ptx/token.h"

namespace emu::ptx {

enum class Space : uint8_t { generic, global, shared, local, constant, param };

/// A type of PTX: the letters before its bits, and the bits.
struct Type {
  enum class Kind : uint8_t { none, pred, bits, unsigned_, signed_, real, brain };
  Kind kind = Kind::none;
  uint16_t width = 0;  ///< bits of one element
  uint8_t packed = 1;  ///< elements in a register: 2 for f16x2
  uint32_t bytes() const { return width * packed / 8; }
  bool operator==(const Type&) const = default;
};

/// The type that a modifier ("u32", without its dot) names; kind none where it names none.
Type type_named(std::string_view name);

/// Where a statement stands in the source that nvcc compiled; file 0: unknown.
struct Location {
  uint32_t file = 0;
  uint32_t line = 0;
};

struct Initial {
  std::vector<std::byte> bytes;
  struct Address {
    size_t offset = 0;
    std::string_view name;
    int64_t addend = 0;
  };
  std::vector<Address> addresses;
};

/// A variable in memory.
struct Declaration {
  std::string_view name;
  Space space = Space::generic;
  uint32_t align = 1;
  uint64_t bytes = 0;
  bool external = false;
  bool unsized = false;  ///< name[]: dynamic shared memory
  Initial initial;
  uint32_t line = 0;
};

struct Operand {
  enum class Kind : uint8_t { name, integer, float32, float64, address, vector, pair, list };
  Kind kind = Kind::name;
  bool negated = false;        ///< !name, or -name
  std::string_view name;       ///< name; address: its base, empty for none
  uint64_t bits = 0;           ///< of a number
  int64_t offset = 0;          ///< address
  std::vector<Operand> parts;  ///< vector {a, b}; pair a|b; list (a, b)
};

struct Statement {
  std::string_view opcode;  ///< its first part, "ld"; empty: a label
  std::vector<std::string_view> modifiers;
  std::string_view guard;  ///< the predicate's name, empty: none
  bool guard_negated = false;
  std::vector<Operand> operands;
  std::string_view label;  ///< of a label statement
  uint32_t line = 0;
  uint32_t scope = 0;
  Location location;

  bool has(std::string_view modifier) const;
};

/// What a name stands for within a function.
struct Binding {
  enum class Kind : uint8_t { none, register_, variable, label, targets };
  Kind kind = Kind::none;
  uint32_t index = 0;
  uint32_t count = 1;  ///< of a parametrised register, %r<count>
};

struct Scope {
  int parent = -1;
  std::unordered_map<std::string_view, Binding> names;
};

struct FunctionText {
  std::string_view name;
  bool entry = false;
  bool has_body = false;
  std::vector<Declaration> returns, parameters;
  uint32_t max_threads = 1024;
  uint32_t max_registers = 0;
  uint32_t line = 0;

  std::vector<Scope> scopes;
  std::vector<Type> registers;
  std::vector<Declaration> variables;                  ///< .local, .shared and .param of its own
  std::vector<std::vector<std::string_view>> targets;  ///< of .branchtargets
  std::vector<Statement> statements;
  uint32_t labels = 0;

  /// Seen from `scope`; kind none: not of this function.
  Binding find(std::string_view name, uint32_t scope) const;
};

struct ModuleText {
  int version = 0, target = 0;
  std::vector<Declaration> variables;  ///< .global, .const and .shared
  std::deque<FunctionText> functions;  ///< a declaration and its definition are one
  std::unordered_map<uint32_t, std::string_view> files;
};

/// The `text` must outlive what is returned.
ronde::Result<ModuleText> parse(std::string_view text);

}  // namespace emu::ptx
