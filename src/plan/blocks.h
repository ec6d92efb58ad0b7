// The block table of one call on one channel: where blocks lie and how they are cut into slices. Shared with device code: constexpr, no pointers.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/types.h"
#include "plan/move.h"

namespace ronde {

/// Block b of buffer B starts at base[B] + b * stride (b * block in scratch) and has length(b) bytes. All in bytes; base already includes the channel's share.
/// Integers, not pointers: the base of a buffer that holds block r only lies r strides before it.
struct BlockTable {
  std::array<uintptr_t, 4> base{};
  size_t stride = 0;  ///< from one block to the next
  size_t block = 0;   ///< of each block, where `total` does not end it
  size_t total = 0;   ///< of all blocks together

  constexpr size_t length(uint64_t b, uint64_t blocks = 1) const {
    const size_t at = b * block;
    return at >= total ? 0 : std::min(blocks * block, total - at);
  }
  constexpr uintptr_t address(Buf buffer, uint64_t b) const {
    // Scratch is the call's own and dense, whatever lies between the user's blocks.
    return base[static_cast<size_t>(buffer)] + b * (buffer == Buf::scratch ? block : stride);
  }
  std::byte* at(Buf buffer, uint64_t b) const { return reinterpret_cast<std::byte*>(address(buffer, b)); }
};

/// A call's buffers, as far as the tables of its channels follow from them.
struct CallBuffers {
  uintptr_t send = 0;
  uintptr_t recv = 0;
  size_t bytes = 0;  ///< of the call's count: all data, or one rank's where counts_per_rank(coll)
  int32_t rank = 0;
  Coll coll = Coll::all_reduce;
};

/// Blocks and channels begin at cache lines, so that no two ranks write one.
inline constexpr size_t kBlockGranule = 64;
constexpr size_t to_granule(size_t bytes) { return (bytes + kBlockGranule - 1) / kBlockGranule * kBlockGranule; }

/// The share of channel `c` in the call's blocks. base[scratch] is left 0.
constexpr BlockTable channel_table(const CallBuffers& call, uint32_t c, uint32_t channels, uint32_t blocks) {
  const auto share = [](size_t bytes, size_t parts) { return to_granule((bytes + parts - 1) / parts); };
  const size_t part = share(call.bytes, channels);
  const size_t low = std::min(call.bytes, c * part);
  const size_t high = std::min(call.bytes, low + part);
  BlockTable table;
  table.base[static_cast<size_t>(Buf::input)] = call.send + low;
  table.base[static_cast<size_t>(Buf::output)] = call.recv + low;
  if (!counts_per_rank(call.coll)) {
    table.block = blocks <= 1 ? high - low : share(high - low, blocks);
    table.stride = table.block;
    table.total = high - low;
    return table;
  }
  const size_t before = static_cast<size_t>(call.rank) * call.bytes;  // what a buffer with block r only is short of
  table.stride = call.bytes;
  table.block = high - low;
  table.total = table.block * blocks;
  if (call.coll == Coll::all_gather || call.coll == Coll::gather) table.base[static_cast<size_t>(Buf::input)] -= before;
  if (call.coll == Coll::reduce_scatter || call.coll == Coll::scatter) table.base[static_cast<size_t>(Buf::output)] -= before;
  return table;
}

/// How blocks become slots.
struct Slicing {
  size_t slice = 0;     ///< bytes of a slot's data at most; > 0
  uint32_t slices = 1;  ///< passes over a lane's Moves
  bool merged = false;  ///< a Move's adjacent blocks are one piece (then slices == 1)
};

constexpr Slicing slicing_of(const BlockTable& table, size_t slice, bool merged) {
  if (merged) return {SIZE_MAX, 1, true};
  const size_t longest = std::min(table.block, table.total);
  return {slice, static_cast<uint32_t>(std::max<size_t>(1, (longest + slice - 1) / slice)), false};
}

/// What a call allows of slicing. Exactly the same on every rank, as sizes and the plan's shape are.
struct SlicingRule {
  size_t slice = 0;     ///< bytes, a multiple of the element's size, at most a slot's capacity
  size_t capacity = 0;  ///< of a slot
  uint32_t most_blocks = 1;  ///< largest Move::n_blocks of the plan
  bool merge = false;   ///< adjacent blocks that fit into one slot together are one piece
};

constexpr Slicing slicing_of(const BlockTable& table, const SlicingRule& rule) {
  return slicing_of(table, rule.slice, rule.merge && table.stride == table.block && rule.most_blocks * table.block <= rule.capacity);
}

}  // namespace ronde
