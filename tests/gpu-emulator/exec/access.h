// What loads, stores and atomics say alike: space, order, scope, vector.
#pragma once

#include "gpu-emulator/exec/instructions.h"

namespace emu {

enum class Update : uint8_t { exchange, compare, add, increment, decrement, minimum, maximum, and_, or_, xor_ };

/// The new value of an element of `type` that was `old`; `c` is what compare puts where old == b.
uint64_t updated(Update how, ptx::Type type, uint64_t old, uint64_t b, uint64_t c);

/// Fills in order, reach and count from the modifiers, and returns the space; a modifier that is none of a memory access is
/// wrong.
ptx::Space decode_access(Decoder& decoder, Instruction& in);
/// The update that a modifier names; false: none does.
bool decode_update(Decoder& decoder, Update* how);
/// multimem.*
bool decode_multimem(Decoder& decoder, Instruction& in);

/// The bytes at a host address, as the host's hardware orders accesses.
template <class T>
T load_ordered(uint64_t host) {
  return __atomic_load_n(reinterpret_cast<const T*>(host), __ATOMIC_ACQUIRE);
}

/// Adds a lane's value to a hash whose terms may come in any order.
inline uint64_t hashed(uint64_t value, unsigned lane) {
  return (value ^ (lane + 1) * 0x9e3779b97f4a7c15ull) * 0xd6e8feb86659fd93ull;
}

}  // namespace emu
