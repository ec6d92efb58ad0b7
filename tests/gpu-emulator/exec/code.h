// Decoded functions: what the interpreter runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gpu-emulator/ptx/module.h"
#include "gpu-emulator/ptx/syntax.h"

namespace emu {

struct Warp;
struct Instruction;

/// Runs an instruction for the lanes in the warp's `mask`, which is not empty.
using Execute = void (*)(Warp&, const Instruction&);

/// Where an operand's lanes lie: bits 31..30 pick the base, the others are an offset in bytes. A register of n bytes is an array
/// of 32 elements of n bytes, one a lane; a predicate is one 32-bit mask.
using Slot = uint32_t;
constexpr Slot kFrameBase = 0;
constexpr Slot kConstantBase = Slot{1} << 30;  ///< immediates, the same in all lanes
constexpr Slot kSymbolBase = Slot{2} << 30;    ///< addresses of variables, bound at launch
constexpr Slot kNoSlot = ~Slot{0};             ///< a result that nobody wants
constexpr unsigned kLanes = 32;

enum class Order : uint8_t { weak, volatile_, relaxed, acquire, release, acquire_release, sequential };
enum class Reach : uint8_t { block, device, system };  ///< the scope of an ordered access

struct Instruction {
  Execute run = nullptr;
  Slot guard = 0;     ///< a predicate
  uint32_t flip = 0;  ///< all ones where the guard is negated
  Slot d = 0, e = 0;  ///< results
  Slot a = 0, b = 0, c = 0;
  uint32_t list = 0;      ///< first of its entries in Code::lists
  int64_t immediate = 0;  ///< an address' offset, or what the instruction says it is
  uint16_t count = 1;     ///< elements of a vector
  uint8_t kind = 0;       ///< what the instruction says it is
  ptx::Space space = ptx::Space::generic;
  Order order = Order::weak;
  Reach reach = Reach::system;
  bool wide = false;    ///< an address of 64 bits
  bool framed = false;  ///< an address within the frame's local memory
  uint32_t place = 0;   ///< in Code::places
};

/// Where an instruction comes from.
struct Place {
  uint32_t line = 0;  ///< of the PTX
  ptx::Location source;
};

/// An address of a variable plus `addend`, as an operand; each takes 32 elements of 8 bytes and then 32 of 4.
struct Symbol {
  bool shared = false;
  uint32_t variable = 0;  ///< of Parts::variables or Parts::shared
  int64_t addend = 0;
};
constexpr uint32_t kSymbolBytes = kLanes * 12;

/// A stretch of a frame's local memory that is passed by a call.
struct Passed {
  uint32_t offset = 0;
  uint32_t bytes = 0;
};

struct Call {
  int target = -1;  ///< of Parts::functions; -1: told by a register
  std::vector<Passed> returns, parameters;
};

struct Code {
  const Function* function = nullptr;
  std::string name;
  std::vector<Instruction> instructions;
  uint32_t register_bytes = 0;
  uint32_t local_bytes = 0;
  std::vector<uint64_t> constants;
  std::vector<Symbol> symbols;
  std::vector<Slot> lists;
  std::vector<Place> places;
  std::vector<Call> calls;
  std::vector<std::vector<uint32_t>> tables;  ///< of indirect branches: indices of instructions
  std::vector<Passed> returns, parameters;    ///< where a call finds and leaves them; of an entry: none
  std::vector<uint32_t> callees;              ///< of Parts::functions
  bool calls_by_address = false;
  std::string missing;              ///< an external function: what to say when it is called
  std::vector<uint32_t> shared_at;  ///< of an entry: where each of Parts::shared lies; ~0: not used
};

/// A variable of the space .shared.
struct SharedVariable {
  uint64_t bytes = 0;
  uint32_t align = 1;
  bool dynamic = false;
};

struct Module::Parts {
  std::string text;
  int version = 0, target = 0;
  std::vector<std::unique_ptr<Function>> functions;
  std::vector<Variable> variables;
  std::vector<SharedVariable> shared;
  std::vector<std::string> files;  ///< by number
};

/// Windows of generic addresses: no memory that a program allocates is there.
constexpr uint64_t kSharedWindow = uint64_t{1} << 56;
constexpr uint64_t kLocalWindow = uint64_t{2} << 56;
constexpr uint64_t kParamWindow = uint64_t{3} << 56;
/// Function i has this address plus 16 * i.
constexpr uint64_t kFunctionWindow = uint64_t{4} << 56;

}  // namespace emu
