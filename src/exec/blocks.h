// The block table of one call on one channel: where blocks lie and how they are cut into slices.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "plan/program.h"

namespace ronde {

/// Block b of buffer B starts at base[B] + b * stride (b * block in scratch) and has length(b) bytes. All in bytes; base already includes the channel's share.
/// Integers, not pointers: the base of a buffer that holds block r only lies r strides before it.
struct BlockTable {
  std::array<uintptr_t, 4> base{};
  size_t stride = 0;  ///< from one block to the next
  size_t block = 0;   ///< of each block, where `total` does not end it
  size_t total = 0;   ///< of all blocks together

  size_t length(uint64_t b, uint64_t blocks = 1) const {
    const size_t at = b * block;
    return at >= total ? 0 : std::min(blocks * block, total - at);
  }
  std::byte* at(Buf buffer, uint64_t b) const {
    // Scratch is the call's own and dense, whatever lies between the user's blocks.
    return reinterpret_cast<std::byte*>(base[static_cast<size_t>(buffer)] + b * (buffer == Buf::scratch ? block : stride));
  }
};

/// How blocks become slots.
struct Slicing {
  size_t slice = 0;     ///< bytes of a slot's data at most; > 0
  uint32_t slices = 1;  ///< passes over a lane's Moves
  bool merged = false;  ///< a Move's adjacent blocks are one piece (then slices == 1)
};

inline Slicing slicing_of(const BlockTable& table, size_t slice, bool merged) {
  if (merged) return {SIZE_MAX, 1, true};
  const size_t longest = std::min(table.block, table.total);
  return {slice, static_cast<uint32_t>(std::max<size_t>(1, (longest + slice - 1) / slice)), false};
}

}  // namespace ronde
