// The 12 element types as the kernel computes with them: docs/numerics.md, as kernels/cpu has it.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/cpu/floats.h"
#include "kernels/cuda/ptx.cuh"

namespace ronde::gpu {

/// A floating-point type in memory (Bits) and in arithmetic (Value).
struct Half {
  using Bits = uint16_t;
  using Value = float;
  static constexpr Bits kSign = 0x8000, kTop = 0x7c00, kNan = kNanHalf;  ///< kTop: the largest pattern that is no NaN
  static __device__ Value decode(Bits bits) { return ptx::widen_half(bits); }
  static __device__ Bits encode(Value v) { return v != v ? kNan : ptx::narrow_half(v); }
};
struct Bfloat {
  using Bits = uint16_t;
  using Value = float;
  static constexpr Bits kSign = 0x8000, kTop = 0x7f80, kNan = kNanBfloat;
  static __device__ Value decode(Bits bits) { return __uint_as_float(static_cast<uint32_t>(bits) << 16); }
  static __device__ Bits encode(Value v) {
    const uint32_t bits = __float_as_uint(v);
    return v != v ? kNan : static_cast<Bits>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);  // to nearest, ties to even
  }
};
struct Float {
  using Bits = uint32_t;
  using Value = float;
  static constexpr Bits kSign = 0x80000000, kTop = 0x7f800000, kNan = kNanFloat;
  static __device__ Value decode(Bits bits) { return __uint_as_float(bits); }
  static __device__ Bits encode(Value v) { return v != v ? kNan : __float_as_uint(v); }
};
struct Double {
  using Bits = uint64_t;
  using Value = double;
  static constexpr Bits kSign = uint64_t{1} << 63, kTop = 0x7ff0000000000000, kNan = kNanDouble;
  static __device__ Value decode(Bits bits) { return __longlong_as_double(static_cast<long long>(bits)); }
  static __device__ Bits encode(Value v) { return v != v ? kNan : static_cast<Bits>(__double_as_longlong(v)); }
};

/// As narrow() of kernels/cpu/floats.h, for numbers only, without a branch: the kernel does it for many elements at once.
template <class Format>
__device__ inline uint32_t narrow_number(float v) {
  constexpr int kDropped = 23 - Format::mantissa_bits;
  constexpr uint32_t kLeast = static_cast<uint32_t>(128 - Format::bias) << 23;                               // the least normal number, as a float
  constexpr uint32_t kSteps = static_cast<uint32_t>(127 + 24 - Format::bias - Format::mantissa_bits) << 23;  // a float whose last bit is the format's step
  const uint32_t bits = __float_as_uint(v);
  const uint32_t magnitude = bits & 0x7fffffff;
  const uint32_t steps = __float_as_uint(__uint_as_float(magnitude) + __uint_as_float(kSteps)) - kSteps;  // of a subnormal number
  const uint32_t normal = ((magnitude + (1u << (kDropped - 1)) - 1 + (magnitude >> kDropped & 1)) >> kDropped) - ((127 - Format::bias) << Format::mantissa_bits);
  return (bits >> 24 & 0x80) | (magnitude < kLeast ? steps : normal < Format::largest ? normal : Format::largest);
}
struct E4m3 {
  using Bits = uint8_t;
  using Value = float;
  static constexpr Bits kSign = 0x80, kTop = 0x7e, kNan = kNanE4m3;
  /// As a half of the same bits, whose exponent's bias is larger by 8.
  static __device__ Value decode(Bits bits) {
    const float scaled = ptx::widen_half(static_cast<uint16_t>((bits & 0x80) << 8 | (bits & 0x7f) << 7));
    return (bits & 0x7f) > kTop ? __uint_as_float(kNanFloat) : scaled * 256.0f;
  }
  static __device__ Bits encode(Value v) {
#if __CUDA_ARCH__ >= 890
    return v != v ? kNan : static_cast<Bits>(ptx::narrow_e4m3(v, 0));
#else
    return v != v ? kNan : static_cast<Bits>(narrow_number<E4m3Format>(v));
#endif
  }
};
struct E5m2 {
  using Bits = uint8_t;
  using Value = float;
  static constexpr Bits kSign = 0x80, kTop = 0x7c, kNan = kNanE5m2;
  /// The upper byte of a half.
  static __device__ Value decode(Bits bits) { return ptx::widen_half(static_cast<uint16_t>(bits << 8)); }
  static __device__ Bits encode(Value v) {
#if __CUDA_ARCH__ >= 890
    return v != v ? kNan : static_cast<Bits>(ptx::narrow_e5m2(v, 0));
#else
    return v != v ? kNan : static_cast<Bits>(narrow_number<E5m2Format>(v));
#endif
  }
};

// An operation keeps an Acc for each element, which is kNone before the first operand, adds the operands, and finishes. kScaled: an operand may be
// multiplied by a factor before. kDivided: an Acc may be divided at the end.

struct Operation {
  static constexpr bool kScaled = false, kDivided = false;
  template <class Bits>
  static __device__ Bits multiply(Bits b, Bits) {
    return b;
  }
  template <class Acc>
  static __device__ Acc divide(Acc acc, uint32_t) {
    return acc;
  }
};

/// Nothing is folded: all pieces are plain.
struct Copy {};

template <class E>
struct RealSum {
  using Bits = typename E::Bits;
  using Acc = typename E::Value;
  static constexpr bool kScaled = true, kDivided = true;
  static __device__ Bits multiply(Bits b, Bits factor) { return E::encode(E::decode(b) * E::decode(factor)); }
  static constexpr Acc kNone = static_cast<Acc>(-0.0);  // not 0: a sum of -0 alone is -0
  static __device__ Acc add(Acc acc, Bits b) { return acc + E::decode(b); }
  static __device__ Acc divide(Acc acc, uint32_t divisor) { return acc / static_cast<Acc>(divisor); }
  static __device__ Bits finish(Acc acc) { return E::encode(acc); }
};

template <class E>
struct RealProd : Operation {
  using Bits = typename E::Bits;
  using Acc = typename E::Value;
  static constexpr Acc kNone = 1;
  static __device__ Acc add(Acc acc, Bits b) { return acc * E::decode(b); }
  static __device__ Bits finish(Acc acc) { return E::encode(acc); }
};

/// max and min of a floating-point type, by the order of the bits: -0 before +0, and NaN beyond all numbers on the side that wins.
template <class E, bool kMax>
struct RealPick : Operation {
  using Bits = typename E::Bits;
  using Acc = Bits;
  static constexpr Bits kMagnitude = static_cast<Bits>(E::kSign - 1);
  static constexpr Bits kWins = kMax ? static_cast<Bits>(~Bits{0}) : Bits{0};
  static constexpr Acc kNone = static_cast<Bits>(~kWins);
  static __device__ Acc order(Bits b) {
    if ((b & kMagnitude) > E::kTop) return kWins;
    return static_cast<Bits>((b & E::kSign) != 0 ? ~b : b | E::kSign);
  }
  static __device__ Acc add(Acc acc, Bits b) {
    const Acc other = order(b);
    return kMax ? (acc < other ? other : acc) : (other < acc ? other : acc);
  }
  static __device__ Bits finish(Acc acc) {
    if (acc == kWins) return E::kNan;
    return static_cast<Bits>((acc & E::kSign) != 0 ? acc & kMagnitude : ~acc);
  }
};

/// sum and prod of integers; T is unsigned, so that it wraps.
template <class T>
struct IntegerSum : Operation {
  using Bits = T;
  using Acc = T;
  static constexpr bool kScaled = true;
  static __device__ Bits multiply(Bits b, Bits factor) { return static_cast<T>(b * factor); }
  static constexpr Acc kNone = 0;
  static __device__ Acc add(Acc acc, Bits b) { return static_cast<T>(acc + b); }
  static __device__ Bits finish(Acc acc) { return acc; }
};
template <class T>
struct IntegerProd : Operation {
  using Bits = T;
  using Acc = T;
  static constexpr Acc kNone = 1;
  static __device__ Acc add(Acc acc, Bits b) { return static_cast<T>(acc * b); }
  static __device__ Bits finish(Acc acc) { return acc; }
};

/// T is signed or not, as the element is.
template <class T, bool kMax>
struct IntegerPick : Operation {
  using Bits = std::make_unsigned_t<T>;
  using Acc = T;
  static constexpr Acc kNone = kMax ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max();
  static __device__ Acc add(Acc acc, Bits b) {
    const T other = static_cast<T>(b);
    return kMax ? (acc < other ? other : acc) : (other < acc ? other : acc);
  }
  static __device__ Bits finish(Acc acc) { return static_cast<Bits>(acc); }
};

/// An exact sum in Wide, divided at the end, truncating toward zero.
template <class T, class Wide>
struct IntegerAverage : Operation {
  using Bits = std::make_unsigned_t<T>;
  using Acc = Wide;
  static constexpr bool kDivided = true;
  static constexpr Acc kNone = 0;
  static __device__ Acc add(Acc acc, Bits b) { return acc + static_cast<Wide>(static_cast<T>(b)); }
  static __device__ Acc divide(Acc acc, uint32_t divisor) { return acc / static_cast<Wide>(divisor); }
  static __device__ Bits finish(Acc acc) { return static_cast<Bits>(acc); }
};

}  // namespace ronde::gpu
