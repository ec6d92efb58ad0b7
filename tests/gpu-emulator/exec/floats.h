// Floats as hardware has them: 16-bit and 8-bit formats, roundings, NaNs.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace emu {

struct Half {
  uint16_t bits;
};
struct Brain {
  uint16_t bits;
};

inline float to_float(Half h) {
  const uint32_t sign = uint32_t{h.bits & 0x8000u} << 16, magnitude = h.bits & 0x7fffu;
  // Subnormals too: the exponent is moved by a multiplication.
  const float moved = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  const uint32_t bits = magnitude >= 0x7c00u ? 0x7f800000u | (magnitude & 0x3ffu) << 13 : std::bit_cast<uint32_t>(moved);
  return std::bit_cast<float>(bits | sign);
}
inline float to_float(Brain b) { return std::bit_cast<float>(uint32_t{b.bits} << 16); }
inline float to_float(float f) { return f; }
inline double to_float(double d) { return d; }

enum class Rounding : uint8_t { nearest, zero, down, up, away };

/// A binary format of `exponent` and `mantissa` bits.
struct Format {
  int exponent, mantissa;
  bool infinity = true;  ///< false: the highest exponent is of numbers, all ones is NaN (e4m3)
};
constexpr Format kHalf{5, 10}, kBrain{8, 7}, kSingle{8, 23}, kE4m3{4, 3, false}, kE5m2{5, 2}, kTensor{8, 10};

/// The bits of `value` in a format, rounded once. Overflow gives infinity (or NaN where there is none), or the largest number
/// where the rounding says so or `finite` is set. NaN becomes the format's canonical one.
uint32_t encode(double value, Format format, Rounding rounding, bool finite = false);
double decode(uint32_t bits, Format format);

template <class T>
T from_float(float f);
template <>
inline float from_float<float>(float f) {
  return f;
}
template <>
inline Half from_float<Half>(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f), magnitude = bits & 0x7fffffffu;
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  if (magnitude > 0x7f800000u) return {0x7fff};
  if (magnitude >= 0x477ff000u) return {static_cast<uint16_t>(sign | 0x7c00u)};
  if (magnitude < 0x38800000u)  // subnormal: the addition rounds
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u))};
  return {static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1)) >> 13))};
}
template <>
inline Brain from_float<Brain>(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {0x7fff};
  return {static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16)};
}

/// a * b + c rounded once to a 16-bit format: in double, rounded to odd, the second rounding is harmless.
template <class T>
T fused(T a, T b, T c);
double fused_to_odd(double a, double b, double c);
template <>
inline Half fused(Half a, Half b, Half c) {
  return {static_cast<uint16_t>(encode(fused_to_odd(to_float(a), to_float(b), to_float(c)), kHalf, Rounding::nearest))};
}
template <>
inline Brain fused(Brain a, Brain b, Brain c) {
  return {static_cast<uint16_t>(encode(fused_to_odd(to_float(a), to_float(b), to_float(c)), kBrain, Rounding::nearest))};
}
template <>
inline float fused(float a, float b, float c) {
  return std::fma(a, b, c);
}
template <>
inline double fused(double a, double b, double c) {
  return std::fma(a, b, c);
}

/// Hardware's NaN instead of the host's.
inline float canonical(float f) { return f == f ? f : std::bit_cast<float>(0x7fffffffu); }
inline double canonical(double d) { return d == d ? d : std::bit_cast<double>(0x7ff8000000000000ull); }

}  // namespace emu
