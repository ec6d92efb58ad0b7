// What loads, stores and atomics say alike: space, order, scope, vector.
#pragma once

#include <cstring>

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

/// A copy in the pieces that the host's hardware keeps whole: 16 bytes where there are as many.
inline void copy_pieces(std::byte* to, const std::byte* from, unsigned bytes) {
  using Piece = long long __attribute__((vector_size(16), aligned(1), may_alias));
  switch (bytes) {
    case 1:
      *to = *from;
      break;
    case 2:
      std::memcpy(to, from, 2);
      break;
    case 4:
      std::memcpy(to, from, 4);
      break;
    case 8:
      std::memcpy(to, from, 8);
      break;
    default:
      for (unsigned i = 0; i < bytes; i += 16) *reinterpret_cast<Piece*>(to + i) = *reinterpret_cast<const Piece*>(from + i);
  }
}

/// Calls f(lane) from the last lane down. Loads go so and stores the other way: on a host that keeps stores in order and loads in
/// order, who sees a flag of a later lane sees the data of the earlier ones of the same instruction, which is what hardware gives
/// within 128 bytes.
template <class F>
inline void lanes_down(uint32_t mask, F f) {
  if (mask == ~uint32_t{0}) {
    for (unsigned i = kLanes; i-- > 0;) f(i);
    return;
  }
  while (mask != 0) {
    const auto lane = static_cast<unsigned>(std::bit_width(mask) - 1);
    mask &= ~(uint32_t{1} << lane);
    f(lane);
  }
}

/// Adds a lane's value to a hash whose terms may come in any order.
inline uint64_t hashed(uint64_t value, unsigned lane) {
  return (value ^ (lane + 1) * 0x9e3779b97f4a7c15ull) * 0xd6e8feb86659fd93ull;
}

}  // namespace emu
