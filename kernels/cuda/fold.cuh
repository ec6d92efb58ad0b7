// One piece of a Move: n sources folded, the result stored to all its places.
#pragma once

#include "kernels/cuda/elements.cuh"

namespace ronde::gpu {

/// A piece, in shared memory. `place` has the sources in the order of the fold, then the destinations.
struct Piece {
  uint32_t sources;
  uint32_t places;  ///< destinations
  uint32_t bytes;   ///< at most a slot's
  uint32_t width;   ///< the widest power of two that all places are multiples of, 16 at most
  uint64_t factor;
  uint32_t multiplied;  ///< the source that is multiplied by `factor`; kNoSource: none
  uint32_t divisor;     ///< of the result; 1: none
  uint32_t plain;       ///< one source that nothing is done to: copied
};
inline constexpr uint32_t kNoSource = 0xffffffffu;

namespace detail {

/// The elements of a unit of memory: a vector, a word or one element.
template <class Op, class Unit>
struct Lot {
  using Bits = typename Op::Bits;
  static constexpr int kCount = static_cast<int>(sizeof(Unit) / sizeof(Bits));
  union Cells {
    Unit unit;
    Bits bits[kCount];
    __device__ Cells() {}
    __device__ explicit Cells(const Unit& of) : unit(of) {}
  };
  typename Op::Acc acc[kCount];

  __device__ Lot() {
#pragma unroll
    for (int i = 0; i < kCount; ++i) acc[i] = Op::kNone;
  }
  __device__ void add(const Unit& unit) {
    const Cells cells(unit);
#pragma unroll
    for (int i = 0; i < kCount; ++i) acc[i] = Op::add(acc[i], cells.bits[i]);
  }
  __device__ void divide(uint32_t divisor) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) acc[i] = Op::divide(acc[i], divisor);
  }
  __device__ Unit finish() const {
    Cells cells;
#pragma unroll
    for (int i = 0; i < kCount; ++i) cells.bits[i] = Op::finish(acc[i]);
    return cells.unit;
  }
  static __device__ void multiply(Unit* unit, Bits factor) {
    Cells cells(*unit);
#pragma unroll
    for (int i = 0; i < kCount; ++i) cells.bits[i] = Op::multiply(cells.bits[i], factor);
    *unit = cells.unit;
  }
};

/// Units of one thread that are in flight together, of each of two sources: as many as registers allow.
template <class Op, class Unit>
constexpr int deep() {
  constexpr int registers = Lot<Op, Unit>::kCount * static_cast<int>((sizeof(typename Op::Acc) + 3) / 4);
  return registers <= 4 ? 4 : 2;
}

/// Where a thread stands: its units lie at at, at + row, ... below `end`.
struct Rows {
  uint32_t at, row, end;
  __device__ bool has(int u) const { return u == 0 || at + u * row < end; }
};

template <class Unit, int kDeep>
__device__ inline void load_rows(Unit (&units)[kDeep], uint64_t from, const Rows& rows) {
#pragma unroll
  for (int u = 0; u < kDeep; ++u) {
    units[u] = Unit{};  // a value on every path: else the registers would be taken all over the kernel
    if (rows.has(u)) ptx::load(from + (rows.at + u * rows.row), &units[u]);
  }
}
template <class Unit, int kDeep>
__device__ inline void store_rows(const Unit (&units)[kDeep], const Piece& piece, const uint64_t* place, const Rows& rows) {
#pragma unroll 1
  for (uint32_t d = 0; d < piece.places; ++d) {
    const uint64_t to = place[piece.sources + d];
#pragma unroll
    for (int u = 0; u < kDeep; ++u) {
      if (rows.has(u)) ptx::store(to + (rows.at + u * rows.row), units[u]);
    }
  }
}

/// Bytes [from, end) of the piece, in units. The next source's are on their way while one source's are folded.
template <class Op, class Unit>
__device__ inline void fold_units(const Piece& piece, const uint64_t* place, uint32_t from, uint32_t end, uint32_t thread, uint32_t threads) {
  constexpr int kDeep = deep<Op, Unit>();
  constexpr uint32_t kSize = sizeof(Unit);
#pragma unroll 1
  for (Rows rows{from + thread * kSize, threads * kSize, end}; rows.at < end; rows.at += kDeep * rows.row) {
    Lot<Op, Unit> lot[kDeep];
    Unit next[kDeep];
    load_rows(next, place[0], rows);
#pragma unroll 1
    for (uint32_t s = 0; s < piece.sources; ++s) {
      Unit units[kDeep];
#pragma unroll
      for (int u = 0; u < kDeep; ++u) units[u] = next[u];
      if (s + 1 < piece.sources) load_rows(next, place[s + 1], rows);
      if (Op::kScaled && s == piece.multiplied) {
#pragma unroll
        for (int u = 0; u < kDeep; ++u) Lot<Op, Unit>::multiply(&units[u], static_cast<typename Op::Bits>(piece.factor));
      }
#pragma unroll
      for (int u = 0; u < kDeep; ++u) lot[u].add(units[u]);
    }
    if (Op::kDivided && piece.divisor != 1) {
#pragma unroll
      for (int u = 0; u < kDeep; ++u) lot[u].divide(piece.divisor);
    }
    Unit out[kDeep];
#pragma unroll
    for (int u = 0; u < kDeep; ++u) out[u] = lot[u].finish();
    store_rows(out, piece, place, rows);
  }
}

template <class Unit>
__device__ inline void copy_units(const Piece& piece, const uint64_t* place, uint32_t from, uint32_t end, uint32_t thread, uint32_t threads) {
  constexpr uint32_t kDeep = 4, kSize = sizeof(Unit);
#pragma unroll 1
  for (Rows rows{from + thread * kSize, threads * kSize, end}; rows.at < end; rows.at += kDeep * rows.row) {
    Unit units[kDeep];
    load_rows(units, place[0], rows);
    store_rows(units, piece, place, rows);
  }
}

}  // namespace detail

/// Done by `threads` threads together, of which this one is number `thread`. A place may also be a source.
template <class Op>
__device__ inline void fold(const Piece& piece, const uint64_t* place, uint32_t thread, uint32_t threads) {
  using Bits = typename Op::Bits;
  using Middle = std::conditional_t<(sizeof(Bits) < 4), uint32_t, Bits>;  // for places that only words are aligned to
  uint32_t done = 0;
  if (piece.width == 16) detail::fold_units<Op, ptx::Vec>(piece, place, 0, done = piece.bytes / 16 * 16, thread, threads);
  if (sizeof(Middle) > sizeof(Bits) && piece.width >= sizeof(Middle)) {
    const uint32_t words = piece.bytes / sizeof(Middle) * sizeof(Middle);
    detail::fold_units<Op, Middle>(piece, place, done, words, thread, threads);
    done = words;
  }
  detail::fold_units<Op, Bits>(piece, place, done, piece.bytes, thread, threads);
}

/// The same for a plain piece.
__device__ inline void copy(const Piece& piece, const uint64_t* place, uint32_t thread, uint32_t threads) {
  using detail::copy_units;
  const uint32_t whole = piece.bytes / piece.width * piece.width;
  switch (piece.width) {
    case 16: copy_units<ptx::Vec>(piece, place, 0, whole, thread, threads); break;
    case 8: copy_units<uint64_t>(piece, place, 0, whole, thread, threads); break;
    case 4: copy_units<uint32_t>(piece, place, 0, whole, thread, threads); break;
    case 2: copy_units<uint16_t>(piece, place, 0, whole, thread, threads); break;
    default: return copy_units<uint8_t>(piece, place, 0, whole, thread, threads);
  }
  copy_units<uint8_t>(piece, place, whole, piece.bytes, thread, threads);
}

}  // namespace ronde::gpu
