// A Move: the one kind of step that all collectives are made of. Shared with device code: plain data.
#pragma once

#include <cstdint>

namespace ronde {

/// The local buffer that an operand of a Move names.
enum class Buf : uint8_t { none = 0, input = 1, output = 2, scratch = 3 };

/// Move::flags.
inline constexpr uint8_t kMoveNoLend = 1;  ///< send by copying into the slot: the block may be overwritten before the reader is done
inline constexpr uint8_t kMoveFinal = 2;   ///< acc is the collective's result for these blocks: an average is divided here, once

/// acc = combine(arrivals from peers[in_first .. +in_count], local src);  dst = acc;  send acc to peers[out_first .. +out_count].
/// Each operand may be absent (count 0, Buf::none). The operands are combined as a left fold in the order of the
/// arrivals with src inserted before arrival number `src_at` (src_at == in_count: last). With one operand, acc is a copy.
/// A Move covers the blocks src_block.. and dst_block.. +n_blocks: one slot a block on each connection, or a single slot for all
/// of them where the call says that they are adjacent and fit (`merged`, see plan/blocks.h).
struct Move {
  uint32_t in_first = 0;
  uint32_t out_first = 0;
  uint32_t src_block = 0;
  uint32_t dst_block = 0;
  uint32_t n_blocks = 1;
  uint16_t in_count = 0;
  uint16_t out_count = 0;
  uint16_t src_at = 0;
  Buf src = Buf::none;
  Buf dst = Buf::none;
  uint8_t flags = 0;
  uint8_t reserved[3] = {0, 0, 0};
  bool operator==(const Move&) const = default;
};
static_assert(sizeof(Move) == 32, "Moves are shared with device code: the layout is pinned");

}  // namespace ronde
