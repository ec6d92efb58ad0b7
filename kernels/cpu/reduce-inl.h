// The reductions of one instruction set, written once over Highway's vectors. Each file that includes this is compiled for one
// instruction set and defines, before it does,
//   HWY_BASELINE_TARGETS  Highway's target of it, and no other
//   RONDE_ISA             its name here: RONDE_ISA_table is what the file exports
// Everything else has internal linkage: code for a wide instruction set must never be what the linker keeps for the rest of the
// library. For the same reason nothing of std is instantiated here.
#pragma once

#include "kernels/cpu/codecs-inl.h"
#include "kernels/cpu/tables.h"

static_assert(HWY_TARGET == HWY_BASELINE_TARGETS, "compiled for another instruction set than its table says");

#define RONDE_PASTE2(a, b) a##b
#define RONDE_PASTE(a, b) RONDE_PASTE2(a, b)
#define RONDE_QUOTE2(a) #a
#define RONDE_QUOTE(a) RONDE_QUOTE2(a)

HWY_BEFORE_NAMESPACE();
namespace ronde {
namespace {

// Operations on two vectors.

struct Sum {
  template <class D>
  HWY_INLINE Vec<D> operator()(D, Vec<D> a, Vec<D> b) const {
    return hn::Add(a, b);
  }
};
struct Max {
  template <class D>
  HWY_INLINE Vec<D> operator()(D, Vec<D> a, Vec<D> b) const {
    return hn::Max(a, b);
  }
};
struct Min {
  template <class D>
  HWY_INLINE Vec<D> operator()(D, Vec<D> a, Vec<D> b) const {
    return hn::Min(a, b);
  }
};
struct Prod {
  template <class D>
  HWY_INLINE Vec<D> operator()(D d, Vec<D> a, Vec<D> b) const {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>() || sizeof(hn::TFromD<D>) == 4) {
      return hn::Mul(a, b);
    } else if constexpr (sizeof(hn::TFromD<D>) == 1) {
      const hn::Repartition<uint16_t, D> pairs;
      const auto high = hn::Set(pairs, uint16_t{0xff00});
      const auto even = hn::Mul(hn::BitCast(pairs, a), hn::BitCast(pairs, b));
      const auto odd = hn::Mul(hn::ShiftRight<8>(hn::BitCast(pairs, a)), hn::And(hn::BitCast(pairs, b), high));
      return hn::BitCast(d, hn::Or(hn::AndNot(high, even), odd));
    } else {
      const hn::Repartition<uint32_t, D> parts;
      const auto swapped = hn::Shuffle2301(hn::BitCast(parts, b));
      const auto cross = hn::BitCast(d, hn::Mul(hn::BitCast(parts, a), swapped));  // {low a * high b, high a * low b}
      const auto low = hn::MulEven(hn::BitCast(parts, a), hn::BitCast(parts, b));
      const auto upper = hn::Add(hn::ShiftLeft<32>(cross), hn::AndNot(hn::Set(d, uint64_t{0xffffffff}), cross));
      return hn::Add(low, upper);
    }
  }
};

/// The left fold over all sources. kSources is their number where it is known, else 0. With kPre one of them is multiplied first.
template <class Codec, class Op, int kSources, bool kPre>
class Fold {
  using D = typename Codec::Lanes;
  using M = typename Codec::Memory;
  using V = Vec<D>;

 public:
  HWY_INLINE Fold(const Scale& scale, const void* const* src, int n)
      : codec_(scale),
        src_(src),
        n_(kSources > 0 ? kSources : n),
        pre_(scale.pre_index),
        factor_(codec_.decode(hn::Set(M(), static_cast<hn::TFromD<M>>(scale.factor)))) {}

  HWY_INLINE void run(uint8_t* dst, size_t bytes) const {
    size_t at = 0;
    for (; bytes - at >= 4 * kStep; at += 4 * kStep) four(dst, at);
    for (; bytes - at >= kStep; at += kStep) store(one(at), dst + at);
    if (at < bytes) rest(dst, at, bytes - at);
  }

 private:
  static constexpr size_t kStep = hn::MaxLanes(M()) * sizeof(hn::TFromD<M>);

  HWY_INLINE const uint8_t* source(int s, size_t at) const { return static_cast<const uint8_t*>(src_[s]) + at; }

  HWY_INLINE V load(int s, const uint8_t* from) const {
    V v = codec_.decode(load_bytes(M(), from));
    if constexpr (kPre) {
      if (s == pre_) v = codec_.decode(codec_.encode(Prod()(D(), v, factor_)));
    }
    return v;
  }
  HWY_INLINE void store(V v, uint8_t* to) const { store_bytes(M(), codec_.encode(v), to); }

  HWY_INLINE V one(size_t at) const {
    V v = load(0, source(0, at));
    for (int s = 1; s < n_; ++s) v = Op()(D(), v, load(s, source(s, at)));
    return v;
  }

  /// Four vectors side by side hide the latency of the operation. All sources are read before dst, which may be one of them, is
  /// written.
  HWY_INLINE void four(uint8_t* dst, size_t at) const {
    const uint8_t* from = source(0, at);
    V a = load(0, from), b = load(0, from + kStep), c = load(0, from + 2 * kStep), d = load(0, from + 3 * kStep);
    for (int s = 1; s < n_; ++s) {
      from = source(s, at);
      a = Op()(D(), a, load(s, from));
      b = Op()(D(), b, load(s, from + kStep));
      c = Op()(D(), c, load(s, from + 2 * kStep));
      d = Op()(D(), d, load(s, from + 3 * kStep));
    }
    store(a, dst + at);
    store(b, dst + at + kStep);
    store(c, dst + at + 2 * kStep);
    store(d, dst + at + 3 * kStep);
  }

  /// The last elements, fewer than a vector holds, by way of a buffer.
  HWY_INLINE void rest(uint8_t* dst, size_t at, size_t bytes) const {
    alignas(64) uint8_t buffer[kStep] = {};
    __builtin_memcpy(buffer, source(0, at), bytes);
    V v = load(0, buffer);
    for (int s = 1; s < n_; ++s) {
      __builtin_memcpy(buffer, source(s, at), bytes);
      v = Op()(D(), v, load(s, buffer));
    }
    store(v, buffer);
    __builtin_memcpy(dst + at, buffer, bytes);
  }

  Codec codec_;
  const void* const* src_;
  int n_;
  int pre_;
  V factor_;
};

template <class Codec>
constexpr size_t kSize = sizeof(hn::TFromD<typename Codec::Memory>);

template <class Codec, class Op>
void reduce(void* dst, const void* const* src, int n, size_t count, Scale scale) {
  [[maybe_unused]] const typename Codec::Mode mode{};
  uint8_t* to = static_cast<uint8_t*>(dst);
  if (n == 2) {
    Fold<Codec, Op, 2, false>(scale, src, n).run(to, count * kSize<Codec>);
  } else {
    Fold<Codec, Op, 0, false>(scale, src, n).run(to, count * kSize<Codec>);
  }
}

/// One operand that nothing is done to keeps its bits.
HWY_INLINE void copy(void* dst, const void* src, size_t bytes) {
  if (bytes > 0 && dst != src) __builtin_memcpy(dst, src, bytes);
}

/// prod, max, min.
template <class Codec, class Op>
void combine(void* dst, const void* const* src, int n, size_t count, Scale scale) {
  if (n == 1) return copy(dst, src[0], count * kSize<Codec>);
  reduce<Codec, Op>(dst, src, n, count, scale);
}

template <class Codec>
void sum(void* dst, const void* const* src, int n, size_t count, Scale scale) {
  if (scale.pre_index < 0 || scale.pre_index >= n) return combine<Codec, Sum>(dst, src, n, count, scale);
  [[maybe_unused]] const typename Codec::Mode mode{};
  Fold<Codec, Sum, 0, true>(scale, src, n).run(static_cast<uint8_t*>(dst), count * kSize<Codec>);
}

template <class Codec>
void average_real(void* dst, const void* const* src, int n, size_t count, Scale scale) {
  if (scale.divisor == 1) return combine<Codec, Sum>(dst, src, n, count, scale);
  reduce<Averaged<Codec>, Sum>(dst, src, n, count, scale);
}

/// With fewer ranks in the divisor than operands the quotient may not fit, and has to wrap: the scalar table does that.
template <class Codec, DataType kType>
void average_integer(void* dst, const void* const* src, int n, size_t count, Scale scale) {
  if (scale.divisor < n || n > (1 << 16)) {
    scalar_table.fn[static_cast<int>(kType)][static_cast<int>(ReduceOp::avg)](dst, src, n, count, scale);
  } else {
    reduce<Codec, Sum>(dst, src, n, count, scale);
  }
}

/// Needs 128 bits for the sum, which vectors do not have.
template <DataType kType>
void average_long(void* dst, const void* const* src, int n, size_t count, Scale scale) {
  scalar_table.fn[static_cast<int>(kType)][static_cast<int>(ReduceOp::avg)](dst, src, n, count, scale);
}

struct Row {
  ReduceFn sum, prod, max, min, avg;
};

template <class S, class U>
constexpr Row signed_row(ReduceFn avg) {
  return {sum<Integer<U, U>>, combine<Integer<U, U>, Prod>, combine<Integer<S, U>, Max>, combine<Integer<S, U>, Min>, avg};
}
template <class U>
constexpr Row unsigned_row(ReduceFn avg) {
  return signed_row<U, U>(avg);
}
template <class Codec, class S, class U, U kTop, U kNan>
constexpr Row real_row() {
  return {sum<Codec>, combine<Codec, Prod>, combine<Ordered<S, U, kTop, kNan, true>, Max>,
          combine<Ordered<S, U, kTop, kNan, false>, Min>, average_real<Codec>};
}

constexpr void set_row(ReduceTable& table, DataType type, Row row) {
  ReduceFn(&fn)[kReduceOps] = table.fn[static_cast<int>(type)];
  fn[static_cast<int>(ReduceOp::sum)] = row.sum;
  fn[static_cast<int>(ReduceOp::prod)] = row.prod;
  fn[static_cast<int>(ReduceOp::max)] = row.max;
  fn[static_cast<int>(ReduceOp::min)] = row.min;
  fn[static_cast<int>(ReduceOp::avg)] = row.avg;
  fn[static_cast<int>(ReduceOp::premul_sum)] = row.sum;
}

constexpr ReduceTable make_table(std::string_view isa, bool (*supported)()) {
  ReduceTable t{isa, supported, {}};
  set_row(t, DataType::int8, signed_row<int8_t, uint8_t>(average_integer<AveragedByte<int8_t, uint8_t>, DataType::int8>));
  set_row(t, DataType::uint8, unsigned_row<uint8_t>(average_integer<AveragedByte<uint8_t, uint8_t>, DataType::uint8>));
  set_row(t, DataType::int32, signed_row<int32_t, uint32_t>(average_integer<AveragedWord<int32_t>, DataType::int32>));
  set_row(t, DataType::uint32, unsigned_row<uint32_t>(average_integer<AveragedWord<uint32_t>, DataType::uint32>));
  set_row(t, DataType::int64, signed_row<int64_t, uint64_t>(average_long<DataType::int64>));
  set_row(t, DataType::uint64, unsigned_row<uint64_t>(average_long<DataType::uint64>));
  set_row(t, DataType::float16, real_row<Half, int16_t, uint16_t, HalfFormat::top, kNanHalf>());
  set_row(t, DataType::float32, real_row<Float, int32_t, uint32_t, 0x7f800000, kNanFloat>());
  set_row(t, DataType::float64, real_row<Double, int64_t, uint64_t, 0x7ff0000000000000, kNanDouble>());
  set_row(t, DataType::bfloat16, real_row<Bfloat, int16_t, uint16_t, 0x7f80, kNanBfloat>());
  set_row(t, DataType::float8e4m3, real_row<E4m3, int8_t, uint8_t, E4m3Format::top, kNanE4m3>());
  set_row(t, DataType::float8e5m2, real_row<E5m2, int8_t, uint8_t, E5m2Format::top, kNanE5m2>());
  return t;
}

}  // namespace

constinit const ReduceTable RONDE_PASTE(RONDE_ISA, _table) = make_table(RONDE_QUOTE(RONDE_ISA),
                                                                        RONDE_PASTE(RONDE_ISA, _supported));

}  // namespace ronde
HWY_AFTER_NAMESPACE();
