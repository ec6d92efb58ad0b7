// The 12 element types as the kernel computes with them: docs/numerics.md, as kernels/cpu has it.
#pragma once

#include <cstdint>
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
template <class Format>
__device__ inline uint8_t narrow_small(float v, uint8_t nan) {
#if __CUDA_ARCH__ >= 890
  if (v != v) return nan;
  return static_cast<uint8_t>(std::is_same_v<Format, E4m3Format> ? ptx::narrow_e4m3(v, 0) : ptx::narrow_e5m2(v, 0));
#else
  return static_cast<uint8_t>(narrow<Format>(v, nan));
#endif
}
struct E4m3 {
  using Bits = uint8_t;
  using Value = float;
  static constexpr Bits kSign = 0x80, kTop = 0x7e, kNan = kNanE4m3;
  static __device__ Value decode(Bits bits) { return widen<E4m3Format>(bits); }
  static __device__ Bits encode(Value v) { return narrow_small<E4m3Format>(v, kNan); }
};
struct E5m2 {
  using Bits = uint8_t;
  using Value = float;
  static constexpr Bits kSign = 0x80, kTop = 0x7c, kNan = kNanE5m2;
  /// The upper byte of a half.
  static __device__ Value decode(Bits bits) { return ptx::widen_half(static_cast<uint16_t>(bits << 8)); }
  static __device__ Bits encode(Value v) { return narrow_small<E5m2Format>(v, kNan); }
};

/// What a call multiplies by before and divides by after.
struct Scale {
  int pre = -1;  ///< operand that is multiplied by `factor`; -1: none
  uint64_t factor = 0;
  uint32_t divisor = 1;
};

// An operation keeps an Acc for each element, begins it with the first operand, adds the others, and finishes.

template <class E, bool kProd>
struct RealSum {
  using Bits = typename E::Bits;
  using Acc = typename E::Value;
  static __device__ Acc begin(Bits b, const Scale& s, int index) { return operand(b, s, index); }
  static __device__ Acc add(Acc acc, Bits b, const Scale& s, int index) {
    if constexpr (kProd) return acc * E::decode(b);
    return acc + operand(b, s, index);
  }
  static __device__ Bits finish(Acc acc, const Scale& s) {
    if constexpr (!kProd) {
      if (s.divisor != 1) acc /= static_cast<Acc>(s.divisor);
    }
    return E::encode(acc);
  }

 private:
  static __device__ Acc operand(Bits b, const Scale& s, int index) {
    const Acc value = E::decode(b);
    if (kProd || s.pre != index) return value;
    return E::decode(E::encode(value * E::decode(static_cast<Bits>(s.factor))));
  }
};

/// max and min of a floating-point type, by the order of the bits: -0 before +0, and NaN beyond all numbers on the side that wins.
template <class E, bool kMax>
struct RealPick {
  using Bits = typename E::Bits;
  using Acc = Bits;
  static constexpr Bits kMagnitude = static_cast<Bits>(E::kSign - 1);
  static constexpr Bits kWins = kMax ? static_cast<Bits>(~Bits{0}) : Bits{0};
  static __device__ Acc begin(Bits b, const Scale&, int) {
    if ((b & kMagnitude) > E::kTop) return kWins;
    return static_cast<Bits>((b & E::kSign) != 0 ? ~b : b | E::kSign);
  }
  static __device__ Acc add(Acc acc, Bits b, const Scale& s, int index) {
    const Acc other = begin(b, s, index);
    return kMax ? (acc < other ? other : acc) : (other < acc ? other : acc);
  }
  static __device__ Bits finish(Acc acc, const Scale&) {
    if (acc == kWins) return E::kNan;
    return static_cast<Bits>((acc & E::kSign) != 0 ? acc & kMagnitude : ~acc);
  }
};

/// sum and prod of integers; T is unsigned, so that it wraps.
template <class T, bool kProd>
struct IntegerSum {
  using Bits = T;
  using Acc = T;
  static __device__ Acc begin(Bits b, const Scale& s, int index) {
    return static_cast<T>(!kProd && s.pre == index ? b * static_cast<T>(s.factor) : b);
  }
  static __device__ Acc add(Acc acc, Bits b, const Scale& s, int index) {
    return static_cast<T>(kProd ? acc * b : acc + begin(b, s, index));
  }
  static __device__ Bits finish(Acc acc, const Scale&) { return acc; }
};

/// T is signed or not, as the element is.
template <class T, bool kMax>
struct IntegerPick {
  using Bits = std::make_unsigned_t<T>;
  using Acc = T;
  static __device__ Acc begin(Bits b, const Scale&, int) { return static_cast<T>(b); }
  static __device__ Acc add(Acc acc, Bits b, const Scale&, int) {
    const T other = static_cast<T>(b);
    return kMax ? (acc < other ? other : acc) : (other < acc ? other : acc);
  }
  static __device__ Bits finish(Acc acc, const Scale&) { return static_cast<Bits>(acc); }
};

/// An exact sum in Wide, divided at the end, truncating toward zero.
template <class T, class Wide>
struct IntegerAverage {
  using Bits = std::make_unsigned_t<T>;
  using Acc = Wide;
  static __device__ Acc begin(Bits b, const Scale&, int) { return static_cast<T>(b); }
  static __device__ Acc add(Acc acc, Bits b, const Scale&, int) { return acc + static_cast<Wide>(static_cast<T>(b)); }
  static __device__ Bits finish(Acc acc, const Scale& s) { return static_cast<Bits>(acc / static_cast<Wide>(s.divisor)); }
};

/// Bytes that nothing is done to. One operand.
struct Copy {
  using Bits = uint32_t;
  using Acc = uint32_t;
  static __device__ Acc begin(Bits b, const Scale&, int) { return b; }
  static __device__ Acc add(Acc acc, Bits, const Scale&, int) { return acc; }
  static __device__ Bits finish(Acc acc, const Scale&) { return acc; }
};

}  // namespace ronde::gpu
