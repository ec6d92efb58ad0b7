// The families of instructions. Each finds the function that runs an instruction and fills in what that function reads; the
// decoder has filled in what all instructions have.
#pragma once

#include <string_view>
#include <vector>

#include "gpu-emulator/exec/code.h"
#include "gpu-emulator/exec/warp.h"
#include "gpu-emulator/ptx/syntax.h"

namespace emu {

/// What a family sees of the instruction that it decodes: the statement, and ways to turn operands into slots. After the first
/// error `ok()` is false, slots are meaningless, and nothing need be checked.
class Decoder {
 public:
  const ptx::Statement& statement() const { return *statement_; }
  size_t operands() const { return statement_->operands.size(); }
  const ptx::Operand& operand(size_t i);
  bool has(std::string_view modifier) const { return statement_->has(modifier); }
  /// The i-th modifier that is a type; kind none where there is none.
  ptx::Type type(size_t i = 0) const;

  /// The register, immediate or variable's address, read as `type`.
  Slot source(const ptx::Operand& operand, ptx::Type type);
  Slot source(size_t i, ptx::Type type) { return source(operand(i), type); }
  /// A register that is written; "_" gives kNoSlot.
  Slot result(const ptx::Operand& operand);
  Slot result(size_t i) { return result(operand(i)); }
  /// Bits of the register that an operand names; 0 where it is none.
  unsigned width(const ptx::Operand& operand);
  bool is_register(const ptx::Operand& operand);
  Slot constant(uint64_t value, unsigned bits);
  Slot true_predicate() { return constant(~uint64_t{0}, 1); }
  /// A new register of so many bits.
  Slot temporary(unsigned bits);
  /// Emits an instruction ahead of the one that is decoded.
  void ahead(const Instruction& instruction);
  /// Appends to Code::lists; where the first of them went.
  uint32_t list(const std::vector<Slot>& slots);
  /// Fills in.a, in.immediate, in.wide, in.framed and in.space from an address operand; `space` is that which the opcode names.
  void address(const ptx::Operand& operand, ptx::Space space, Instruction& in);
  /// The index of an instruction that a label stands for, patched into `immediate` when the function is whole.
  void branch(std::string_view label, Instruction& in);
  uint32_t table(std::string_view name);
  void call(Instruction& in);
  void wrong(std::string what);
  bool ok() const { return error_.empty(); }

 protected:
  Slot symbol(const ptx::Operand& operand, unsigned bits);

  struct Builder* builder_ = nullptr;
  const ptx::Statement* statement_ = nullptr;
  std::string error_;
};

/// Decodes into `in`; false: the family does not know this opcode at all.
bool decode_integer(Decoder& decoder, Instruction& in);
bool decode_bits(Decoder& decoder, Instruction& in);
bool decode_float(Decoder& decoder, Instruction& in);
bool decode_compare(Decoder& decoder, Instruction& in);
bool decode_convert(Decoder& decoder, Instruction& in);
bool decode_move(Decoder& decoder, Instruction& in);
bool decode_memory(Decoder& decoder, Instruction& in);
bool decode_atomic(Decoder& decoder, Instruction& in);
bool decode_control(Decoder& decoder, Instruction& in);
bool decode_sync(Decoder& decoder, Instruction& in);

/// A label: where diverged lanes may meet again.
void run_label(Warp& warp, const Instruction& in);

/// The value that lane `lane` has in a slot of so many bits.
inline uint64_t value_of(Warp& warp, Slot slot, unsigned bits, unsigned lane) {
  switch (bits) {
    case 1:
      return *warp.at<uint32_t>(slot) >> lane & 1;
    case 8:
      return warp.at<uint8_t>(slot)[lane];
    case 16:
      return warp.at<uint16_t>(slot)[lane];
    case 32:
      return warp.at<uint32_t>(slot)[lane];
    default:
      return warp.at<uint64_t>(slot)[lane];
  }
}
inline void set_value(Warp& warp, Slot slot, unsigned bits, unsigned lane, uint64_t value) {
  switch (bits) {
    case 8:
      warp.at<uint8_t>(slot)[lane] = static_cast<uint8_t>(value);
      break;
    case 16:
      warp.at<uint16_t>(slot)[lane] = static_cast<uint16_t>(value);
      break;
    case 32:
      warp.at<uint32_t>(slot)[lane] = static_cast<uint32_t>(value);
      break;
    default:
      warp.at<uint64_t>(slot)[lane] = value;
      break;
  }
}
/// Sets a predicate's bits of the lanes in `mask`.
inline void set_predicate(Warp& warp, Slot slot, uint32_t mask, uint32_t value) {
  if (slot == kNoSlot) return;
  uint32_t& predicate = *warp.at<uint32_t>(slot);
  predicate = (predicate & ~mask) | (value & mask);
}

}  // namespace emu
