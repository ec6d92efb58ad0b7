// How the vectors of one instruction set read, compute with and write each type. Part of reduce-inl.h, which says how to include
// it.
#pragma once

#define HWY_COMPILE_ONLY_STATIC
#define HWY_DISABLE_PCLMUL_AES
#define HWY_IS_DEBUG_BUILD 0  // Highway's assertions would call into libhwy.so
#include <hwy/highway.h>

#include "kernels/cpu/float_mode.h"
#include "kernels/cpu/floats.h"
#include "kernels/cpu/reduce.h"

HWY_BEFORE_NAMESPACE();
namespace ronde {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
using Vec = hn::Vec<D>;
template <class T, class D>
using Rebind = hn::Rebind<T, D>;

// Memory is read and written as bytes: no address has to be aligned to its elements.
template <class D>
HWY_INLINE Vec<D> load_bytes(D d, const uint8_t* from) {
  return hn::BitCast(d, hn::LoadU(hn::Repartition<uint8_t, D>(), from));
}
template <class D>
HWY_INLINE void store_bytes(D, Vec<D> v, uint8_t* to) {
  const hn::Repartition<uint8_t, D> bytes;
  hn::StoreU(hn::BitCast(bytes, v), bytes, to);
}

struct NoMode {};

// A codec says what a type is in memory (Memory, a tag of unsigned lanes), what it is combined as (Lanes, a tag of as many
// lanes), how to get from one to the other, and in which mode of the processor (Mode).

/// Combined as it is stored.
template <class T, class U>
struct Integer {
  using Mode = NoMode;
  using Lanes = hn::ScalableTag<T>;
  using Memory = Rebind<U, Lanes>;
  explicit Integer(const Scale&) {}
  HWY_INLINE Vec<Lanes> decode(Vec<Memory> v) const { return hn::BitCast(Lanes(), v); }
  HWY_INLINE Vec<Memory> encode(Vec<Lanes> v) const { return hn::BitCast(Memory(), v); }
};

/// float and double: any NaN is written as the one of the type.
template <class T, class U, U kNan>
struct Real {
  using Mode = FloatMode;
  using Lanes = hn::ScalableTag<T>;
  using Memory = Rebind<U, Lanes>;
  explicit Real(const Scale&) {}
  HWY_INLINE Vec<Lanes> decode(Vec<Memory> v) const { return hn::BitCast(Lanes(), v); }
  HWY_INLINE Vec<Memory> encode(Vec<Lanes> v) const {
    const Vec<Lanes> nan = hn::BitCast(Lanes(), hn::Set(Memory(), kNan));
    return hn::BitCast(Memory(), hn::IfThenElse(hn::IsNaN(v), nan, v));
  }
};
using Float = Real<float, uint32_t, kNanFloat>;
using Double = Real<double, uint64_t, kNanDouble>;

using Words = hn::ScalableTag<uint32_t>;
using Floats = hn::ScalableTag<float>;

/// `v` rounded to a narrow format, in the low bits of each lane; as narrow() of floats.h.
template <class Format>
HWY_INLINE Vec<Words> round_to(Vec<Floats> v, uint32_t nan) {
  constexpr int kDropped = 23 - Format::mantissa_bits;
  constexpr uint32_t kRebias = static_cast<uint32_t>(127 - Format::bias) << Format::mantissa_bits;
  constexpr uint32_t kSmallestNormal = static_cast<uint32_t>(128 - Format::bias) << 23;
  // Adding it to a subnormal rounds that to the format's steps: they are the units in the last place of the sum.
  constexpr uint32_t kStepper = static_cast<uint32_t>(128 - Format::bias + kDropped) << 23;
  // What is larger rounds as this does: to the largest number, or, as the power of two above it, to infinity.
  constexpr uint32_t kLimit = ((Format::saturate ? Format::largest : Format::top) + kRebias) << kDropped;
  const Words d;
  const Floats f;
  const Vec<Words> bits = hn::BitCast(d, v);
  const Vec<Words> unsigned_bits = hn::And(bits, hn::Set(d, 0x7fffffffu));
  const Vec<Words> sign = hn::ShiftRight<31 - Format::exponent_bits - Format::mantissa_bits>(hn::Xor(bits, unsigned_bits));
  const Vec<Words> magnitude = hn::Min(unsigned_bits, hn::Set(d, kLimit));
  const Vec<Words> odd = hn::And(hn::ShiftRight<kDropped>(magnitude), hn::Set(d, 1u));
  const Vec<Words> bias = hn::Set(d, (1u << (kDropped - 1)) - 1 - (kRebias << kDropped));
  const Vec<Words> normal = hn::ShiftRight<kDropped>(hn::Add(magnitude, hn::Add(bias, odd)));
  const Vec<Words> stepper = hn::Set(d, kStepper);
  const Vec<Words> subnormal = hn::Sub(hn::BitCast(d, hn::Add(hn::BitCast(f, magnitude), hn::BitCast(f, stepper))), stepper);
  const auto is_subnormal = hn::Lt(hn::BitCast(f, magnitude), hn::BitCast(f, hn::Set(d, kSmallestNormal)));
  const Vec<Words> rounded = hn::Or(hn::IfThenElse(hn::RebindMask(d, is_subnormal), subnormal, normal), sign);
  return hn::IfThenElse(hn::RebindMask(d, hn::IsNaN(v)), hn::Set(d, nan), rounded);
}

/// Narrow floats, one in each lane of `v`, as floats; as widen() of floats.h but for what a NaN's payload is.
HWY_INLINE Vec<Floats> widen_half(Vec<Rebind<uint16_t, Floats>> v) {
#if HWY_TARGET == HWY_SSE4  // no instruction for it
  const Words d;
  const Floats f;
  const Vec<Words> wide = hn::PromoteTo(d, v);
  const Vec<Words> magnitude = hn::And(wide, hn::Set(d, 0x7fffu));
  const Vec<Words> sign = hn::ShiftLeft<16>(hn::Xor(wide, magnitude));
  const Vec<Words> shifted = hn::ShiftLeft<13>(magnitude);
  const Vec<Words> normal = hn::Add(shifted, hn::Set(d, 112u << 23));
  // A subnormal read as if it had the smallest exponent and a leading one; then that one is taken away.
  const Vec<Words> one = hn::Set(d, 113u << 23);
  const Vec<Words> subnormal = hn::BitCast(d, hn::Sub(hn::BitCast(f, hn::Add(shifted, one)), hn::BitCast(f, one)));
  const Vec<Words> special = hn::Or(shifted, hn::Set(d, 0x7f800000u));
  const Vec<Words> finite = hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 0x400u)), subnormal, normal);
  return hn::BitCast(f, hn::Or(hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 0x7c00u)), finite, special), sign));
#else
  return hn::PromoteTo(Floats(), hn::BitCast(Rebind<hwy::float16_t, Floats>(), v));
#endif
}

struct Half {
  using Mode = FloatMode;
  using Lanes = Floats;
  using Memory = Rebind<uint16_t, Floats>;
  explicit Half(const Scale&) {}
  HWY_INLINE Vec<Lanes> decode(Vec<Memory> v) const { return widen_half(v); }
  HWY_INLINE Vec<Memory> encode(Vec<Lanes> v) const {
#if HWY_TARGET == HWY_SSE4
    return hn::DemoteTo(Memory(), hn::BitCast(Rebind<int32_t, Lanes>(), round_to<HalfFormat>(v, kNanHalf)));
#else
    const Vec<Lanes> nan = hn::BitCast(Lanes(), hn::Set(Words(), kNanFloat));
    return hn::BitCast(Memory(), hn::DemoteTo(Rebind<hwy::float16_t, Lanes>(), hn::IfThenElse(hn::IsNaN(v), nan, v)));
#endif
  }
};

struct Bfloat {
  using Mode = FloatMode;
  using Lanes = Floats;
  using Memory = Rebind<uint16_t, Floats>;
  explicit Bfloat(const Scale&) {}
  HWY_INLINE Vec<Lanes> decode(Vec<Memory> v) const {
    return hn::BitCast(Floats(), hn::ShiftLeft<16>(hn::PromoteTo(Words(), v)));
  }
  HWY_INLINE Vec<Memory> encode(Vec<Lanes> v) const {
    const Words d;
    const Vec<Words> nan = hn::Set(d, kNanFloat);  // rounds to kNanBfloat
    const Vec<Words> bits = hn::IfThenElse(hn::RebindMask(d, hn::IsNaN(v)), nan, hn::BitCast(d, v));
    const Vec<Words> odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1u));
    const Vec<Words> rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7fffu))));
    return hn::DemoteTo(Memory(), hn::BitCast(Rebind<int32_t, Floats>(), rounded));
  }
};

/// The 8-bit floats come in through half, which holds all their values.
template <class Format, uint32_t kNan>
struct Eighth {
  using Mode = FloatMode;
  using Lanes = Floats;
  using Memory = Rebind<uint8_t, Floats>;
  using Halves = Rebind<uint16_t, Floats>;
  explicit Eighth(const Scale&) {}
  HWY_INLINE Vec<Lanes> decode(Vec<Memory> v) const {
    const Halves h;
    const Vec<Halves> wide = hn::PromoteTo(h, v);
    if constexpr (Format::exponent_bits == 5) return widen_half(hn::ShiftLeft<8>(wide));
    const Vec<Halves> magnitude = hn::And(wide, hn::Set(h, uint16_t{0x7f}));
    const Vec<Halves> sign = hn::ShiftLeft<8>(hn::Xor(wide, magnitude));
    const auto is_nan = hn::Eq(magnitude, hn::Set(h, uint16_t{0x7f}));
    const Vec<Halves> half = hn::IfThenElse(is_nan, hn::Set(h, kNanHalf), hn::ShiftLeft<7>(magnitude));
    // Half's exponent is biased by 8 more.
    return hn::Mul(widen_half(hn::Or(half, sign)), hn::Set(Floats(), 256.0f));
  }
  HWY_INLINE Vec<Memory> encode(Vec<Lanes> v) const {
    return hn::DemoteTo(Memory(), hn::BitCast(Rebind<int32_t, Floats>(), round_to<Format>(v, kNan)));
  }
};
using E4m3 = Eighth<E4m3Format, kNanE4m3>;
using E5m2 = Eighth<E5m2Format, kNanE5m2>;

/// A floating-point type for max and min: as integers of the same order, -0 before +0, every NaN the one that wins.
/// S and U are the integers of its size, kTop its largest pattern that is no NaN.
template <class S, class U, U kTop, U kNan, bool kMax>
struct Ordered {
  using Mode = NoMode;
  using Lanes = hn::ScalableTag<S>;
  using Memory = Rebind<U, Lanes>;
  static constexpr S kHighest = static_cast<S>(static_cast<U>(~U{0}) >> 1);
  static constexpr S kWinner = kMax ? kHighest : static_cast<S>(-kHighest - 1);  // no number's key
  explicit Ordered(const Scale&) {}
  /// Turns the order of negative numbers around; its own inverse.
  static HWY_INLINE Vec<Lanes> flip(Vec<Lanes> v) {
    return hn::Xor(v, hn::And(hn::BroadcastSignBit(v), hn::Set(Lanes(), kHighest)));
  }
  HWY_INLINE Vec<Lanes> decode(Vec<Memory> bits) const {
    const Lanes d;
    const Vec<Lanes> v = hn::BitCast(d, bits);
    const auto is_nan = hn::Gt(hn::And(v, hn::Set(d, kHighest)), hn::Set(d, static_cast<S>(kTop)));
    return hn::IfThenElse(is_nan, hn::Set(d, kWinner), flip(v));
  }
  HWY_INLINE Vec<Memory> encode(Vec<Lanes> key) const {
    const Lanes d;
    const auto is_nan = hn::Eq(key, hn::Set(d, kWinner));
    return hn::BitCast(Memory(), hn::IfThenElse(is_nan, hn::Set(d, static_cast<S>(kNan)), flip(key)));
  }
};

/// `Base` with its result divided.
template <class Base>
struct Averaged : Base {
  explicit Averaged(const Scale& scale) : Base(scale), divisor(hn::Set(D(), static_cast<hn::TFromD<D>>(scale.divisor))) {}
  using D = typename Base::Lanes;
  HWY_INLINE Vec<typename Base::Memory> encode(Vec<D> v) const { return Base::encode(hn::Div(v, divisor)); }
  Vec<D> divisor;
};

/// avg of 8-bit integers: sums below 2^24 are exact floats, and a quotient of such that is no whole number lies further from one
/// than half a unit in its last place, so that rounding cannot reach it.
template <class T, class U>
struct AveragedByte {
  using Mode = FloatMode;
  using Lanes = hn::ScalableTag<int32_t>;
  using Memory = Rebind<U, Lanes>;
  explicit AveragedByte(const Scale& scale) : divisor(hn::Set(Floats(), static_cast<float>(scale.divisor))) {}
  HWY_INLINE Vec<Lanes> decode(Vec<Memory> v) const { return hn::PromoteTo(Lanes(), hn::BitCast(Rebind<T, Lanes>(), v)); }
  HWY_INLINE Vec<Memory> encode(Vec<Lanes> sum) const {
    const Vec<Lanes> quotient = hn::ConvertTo(Lanes(), hn::Div(hn::ConvertTo(Floats(), sum), divisor));
    return hn::BitCast(Memory(), hn::DemoteTo(Rebind<T, Lanes>(), quotient));
  }
  Vec<Floats> divisor;
};

/// avg of 32-bit integers: the same with doubles and sums below 2^51.
template <class T>
struct AveragedWord {
  using Mode = FloatMode;
  using Lanes = hn::ScalableTag<hwy::MakeWide<T>>;
  using Doubles = Rebind<double, Lanes>;
  using Longs = Rebind<uint64_t, Lanes>;
  using Memory = Rebind<uint32_t, Lanes>;
  explicit AveragedWord(const Scale& scale) : divisor(hn::Set(Doubles(), static_cast<double>(scale.divisor))) {}
  HWY_INLINE Vec<Lanes> decode(Vec<Memory> v) const { return hn::PromoteTo(Lanes(), hn::BitCast(Rebind<T, Lanes>(), v)); }
  HWY_INLINE Vec<Memory> encode(Vec<Lanes> sum) const {
    // In doubles from 2^52 to 2^53 the last bit counts ones: adding the number in their middle converts to and from integers.
    const Doubles f;
    const Longs d;
    const Vec<Doubles> middle = hn::Set(f, 6755399441055744.0);
    const Vec<Doubles> exact = hn::Sub(hn::BitCast(f, hn::Add(hn::BitCast(d, sum), hn::BitCast(d, middle))), middle);
    const Vec<Doubles> quotient = hn::Trunc(hn::Div(exact, divisor));
    return hn::TruncateTo(Memory(), hn::BitCast(d, hn::Add(quotient, middle)));
  }
  Vec<Doubles> divisor;
};

}  // namespace
}  // namespace ronde
HWY_AFTER_NAMESPACE();
