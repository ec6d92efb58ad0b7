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
inline Half from_float<Half>(float f) {  // without branches: compilers make vectors of it
  const uint32_t bits = std::bit_cast<uint32_t>(f), magnitude = bits & 0x7fffffffu;
  const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1)) >> 13;
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;  // the addition rounds
  uint32_t r = magnitude < 0x38800000u ? subnormal : normal;
  r = magnitude >= 0x477ff000u ? 0x7c00u : r;
  r |= bits >> 16 & 0x8000u;
  return {static_cast<uint16_t>(magnitude > 0x7f800000u ? 0x7fffu : r)};
}
template <>
inline Brain from_float<Brain>(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {0x7fff};
  return {static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16)};
}

/// An 8-bit format's bits, rounded to nearest. Beyond its numbers: the largest one where `finite`, else infinity or NaN.
template <int Exponent, int Mantissa>
uint8_t to_byte(float f, bool finite) {
  constexpr uint32_t kLowest = 2 - (1 << (Exponent - 1)) + 127;           // the least normal number's exponent in fp32
  constexpr uint32_t kMagic = (kLowest + 23 - Mantissa) << 23;            // the number whose last place is that of subnormals
  constexpr uint32_t kBeyond = Mantissa == 3 ? 0x7f : 0x7c, kNan = 0x7f;  // e4m3 has no infinity
  const uint32_t bits = std::bit_cast<uint32_t>(f), magnitude = bits & 0x7fffffffu;
  const uint32_t half = (1u << (22 - Mantissa)) - 1;
  const uint32_t normal = (magnitude - ((kLowest - 1) << 23) + half + (magnitude >> (23 - Mantissa) & 1)) >> (23 - Mantissa);
  const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(kMagic)) - kMagic;
  uint32_t r = magnitude < kLowest << 23 ? subnormal : normal;
  r = r >= kBeyond ? (finite ? kBeyond - 1 : kBeyond) : r;
  return static_cast<uint8_t>(magnitude > 0x7f800000u ? kNan : r | (bits >> 24 & 0x80));
}

/// In fp32, rounded to odd: a rounding to 16 bits after it is right.
inline float odd_float(double d) {
  const auto f = static_cast<float>(d);
  const auto bits = std::bit_cast<uint32_t>(f);
  const double back = f;
  if (back == d || d != d) return f;
  const uint32_t below = std::fabs(back) > std::fabs(d) ? bits - 1 : bits;
  return std::bit_cast<float>(below | 1);
}

/// a * b + c rounded once to a 16-bit format: in double, rounded to odd, the second rounding is harmless.
template <class T>
T fused(T a, T b, T c);
inline double fused_to_odd(double a, double b, double c) {
  const double product = a * b;  // exact: both have at most 11 bits
  const double sum = product + c;
  if (!std::isfinite(sum)) return sum;
  const double virtual_c = sum - product;
  const double lost = (product - (sum - virtual_c)) + (c - virtual_c);
  auto bits = std::bit_cast<uint64_t>(sum);
  if (lost != 0 && (bits & 1) == 0) bits += (lost > 0) == (sum > 0) ? 1 : uint64_t(-1);
  return std::bit_cast<double>(bits);
}
template <>
inline Half fused(Half a, Half b, Half c) {
  return from_float<Half>(odd_float(fused_to_odd(to_float(a), to_float(b), to_float(c))));
}
template <>
inline Brain fused(Brain a, Brain b, Brain c) {
  return from_float<Brain>(odd_float(fused_to_odd(to_float(a), to_float(b), to_float(c))));
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
