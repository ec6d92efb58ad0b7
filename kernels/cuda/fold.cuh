// One piece of a Move: n sources folded, the result stored to all its places.
#pragma once

#include "kernels/cuda/elements.cuh"

namespace ronde::gpu {

/// A piece, in shared memory. `place` has the sources in the order of the fold, then the destinations.
struct Piece {
  uint32_t sources;
  uint32_t places;  ///< destinations
  uint64_t bytes;
  Scale scale;
  uint32_t plain;    ///< one source that nothing is done to: copied
  uint32_t aligned;  ///< every place is a multiple of 16
};

namespace detail {

/// The elements of a vector.
template <class Op>
struct Lot {
  static constexpr int kCount = 16 / static_cast<int>(sizeof(typename Op::Bits));
  using Bits = typename Op::Bits;
  union Cells {
    ptx::Vec vec;
    Bits bits[kCount];
    __device__ Cells() {}
  };
  typename Op::Acc acc[kCount];

  __device__ void begin(const ptx::Vec& v, const Scale& scale) {
    Cells cells;
    cells.vec = v;
#pragma unroll
    for (int i = 0; i < kCount; ++i) acc[i] = Op::begin(cells.bits[i], scale, 0);
  }
  __device__ void add(const ptx::Vec& v, const Scale& scale, int index) {
    Cells cells;
    cells.vec = v;
#pragma unroll
    for (int i = 0; i < kCount; ++i) acc[i] = Op::add(acc[i], cells.bits[i], scale, index);
  }
  __device__ ptx::Vec finish(const Scale& scale) const {
    Cells cells;
#pragma unroll
    for (int i = 0; i < kCount; ++i) cells.bits[i] = Op::finish(acc[i], scale);
    return cells.vec;
  }
};

/// Vectors of one thread that are in flight together: as many as registers allow.
template <class Op>
constexpr int deep() {
  constexpr int registers = Lot<Op>::kCount * (sizeof(typename Op::Acc) < 4 ? 1 : static_cast<int>(sizeof(typename Op::Acc) / 4));
  return registers <= 4 ? 4 : registers <= 8 ? 2 : 1;
}

template <class Op, int kDeep>
__device__ inline void fold_vectors(const Piece& piece, const uint64_t* place, uint64_t at, uint64_t step) {
  Lot<Op> lot[kDeep];
#pragma unroll 1
  for (uint32_t s = 0; s < piece.sources; ++s) {
    ptx::Vec v[kDeep];
#pragma unroll
    for (int u = 0; u < kDeep; ++u) v[u] = ptx::load_vec(place[s] + at + u * step);
#pragma unroll
    for (int u = 0; u < kDeep; ++u) {
      if (s == 0) {
        lot[u].begin(v[u], piece.scale);
      } else {
        lot[u].add(v[u], piece.scale, static_cast<int>(s));
      }
    }
  }
  ptx::Vec out[kDeep];
#pragma unroll
  for (int u = 0; u < kDeep; ++u) out[u] = lot[u].finish(piece.scale);
#pragma unroll 1
  for (uint32_t d = 0; d < piece.places; ++d) {
#pragma unroll
    for (int u = 0; u < kDeep; ++u) ptx::store_vec(place[piece.sources + d] + at + u * step, out[u]);
  }
}

/// Elements one by one: ends that fill no vector, and buffers that are not aligned.
template <class Op>
__device__ inline void fold_elements(const Piece& piece, const uint64_t* place, uint64_t from, uint32_t thread, uint32_t threads) {
  using Bits = typename Op::Bits;
#pragma unroll 1
  for (uint64_t at = from + thread * sizeof(Bits); at < piece.bytes; at += threads * sizeof(Bits)) {
    typename Op::Acc acc = Op::begin(*reinterpret_cast<const Bits*>(place[0] + at), piece.scale, 0);
#pragma unroll 1
    for (uint32_t s = 1; s < piece.sources; ++s) {
      acc = Op::add(acc, *reinterpret_cast<const Bits*>(place[s] + at), piece.scale, static_cast<int>(s));
    }
    const Bits out = Op::finish(acc, piece.scale);
#pragma unroll 1
    for (uint32_t d = 0; d < piece.places; ++d) *reinterpret_cast<Bits*>(place[piece.sources + d] + at) = out;
  }
}

/// Vectors as far as they go. Returns where they end.
template <class Op>
__device__ inline uint64_t all_vectors(const Piece& piece, const uint64_t* place, uint32_t thread, uint32_t threads) {
  constexpr int kDeep = deep<Op>();
  const uint64_t row = threads * uint64_t{16};
  const uint64_t end = piece.bytes / 16 * 16;
  uint64_t at = thread * uint64_t{16};
#pragma unroll 1
  for (; at + (kDeep - 1) * row < end; at += kDeep * row) fold_vectors<Op, kDeep>(piece, place, at, row);
#pragma unroll 1
  for (; at < end; at += row) fold_vectors<Op, 1>(piece, place, at, row);
  return end;
}

/// Bytes of any alignment.
struct CopyBytes : Copy {
  using Bits = uint8_t;
  using Acc = uint8_t;
  static __device__ Acc begin(Bits b, const Scale&, int) { return b; }
  static __device__ Acc add(Acc acc, Bits, const Scale&, int) { return acc; }
  static __device__ Bits finish(Acc acc, const Scale&) { return acc; }
};

}  // namespace detail

/// Done by `threads` threads together, of which this one is number `thread`. A place may also be a source.
template <class Op>
__device__ inline void fold(const Piece& piece, const uint64_t* place, uint32_t thread, uint32_t threads) {
  if (piece.plain != 0) {
    const uint64_t from = piece.aligned != 0 ? detail::all_vectors<Copy>(piece, place, thread, threads) : 0;
    detail::fold_elements<detail::CopyBytes>(piece, place, from, thread, threads);
    return;
  }
  const uint64_t from = piece.aligned != 0 ? detail::all_vectors<Op>(piece, place, thread, threads) : 0;
  detail::fold_elements<Op>(piece, place, from, thread, threads);
}

}  // namespace ronde::gpu
