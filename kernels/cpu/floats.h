// Half, bfloat16 and the two 8-bit floats: their bits to and from float, exactly as docs/numerics.md defines them.
#pragma once

#include <bit>
#include <cstdint>

namespace ronde {

/// The one NaN that a reduction writes, whatever NaN came in or arose: positive and quiet.
inline constexpr uint16_t kNanHalf = 0x7e00;
inline constexpr uint16_t kNanBfloat = 0x7fc0;
inline constexpr uint32_t kNanFloat = 0x7fc00000;
inline constexpr uint64_t kNanDouble = 0x7ff8000000000000;
inline constexpr uint8_t kNanE4m3 = 0x7f;
inline constexpr uint8_t kNanE5m2 = 0x7f;

/// A binary format with a narrower exponent than float's: sign, kExponent bits, kMantissa bits.
template <int kExponentBits, int kMantissaBits, bool kInfinities, bool kSaturate>
struct SmallFloat {
  static constexpr int exponent_bits = kExponentBits;
  static constexpr int mantissa_bits = kMantissaBits;
  static constexpr bool infinities = kInfinities;  ///< the top exponent holds infinity and NaNs; otherwise numbers and one NaN
  static constexpr bool saturate = kSaturate;      ///< too large (infinity included) becomes the largest number, else infinity
  static constexpr int bias = (1 << (kExponentBits - 1)) - 1;
  static constexpr uint32_t magnitude = (1u << (kExponentBits + kMantissaBits)) - 1;
  static constexpr uint32_t sign = magnitude + 1;
  /// The largest pattern that is no NaN: infinity where there is one.
  static constexpr uint32_t top = kInfinities ? magnitude - ((1u << kMantissaBits) - 1) : magnitude - 1;
  static constexpr uint32_t largest = kInfinities ? top - 1 : top;
};

using HalfFormat = SmallFloat<5, 10, true, false>;
using E4m3Format = SmallFloat<4, 3, false, true>;
using E5m2Format = SmallFloat<5, 2, true, true>;

/// The value of `bits` as a float: always exact. A NaN stays a NaN; its payload is not kept.
template <class Format>
constexpr float widen(uint32_t bits) {
  const uint32_t sign = (bits & Format::sign) << (31 - Format::exponent_bits - Format::mantissa_bits);
  const uint32_t magnitude = bits & Format::magnitude;
  const int exponent = static_cast<int>(magnitude >> Format::mantissa_bits);
  if (magnitude > Format::top) return std::bit_cast<float>(kNanFloat);
  if (Format::infinities && magnitude == Format::top) return std::bit_cast<float>(sign | 0x7f800000);
  if (exponent == 0) {  // zero or subnormal: a whole number of the format's smallest steps
    const float step = std::bit_cast<float>(static_cast<uint32_t>(127 + 1 - Format::bias - Format::mantissa_bits) << 23);
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(static_cast<float>(magnitude) * step));
  }
  const uint32_t rebias = static_cast<uint32_t>(127 - Format::bias) << 23;
  return std::bit_cast<float>(sign | ((magnitude << (23 - Format::mantissa_bits)) + rebias));
}

/// `value` rounded to nearest, ties to even. What is too large becomes infinity, or the largest number where the format
/// saturates.
template <class Format>
constexpr uint32_t narrow(float value, uint32_t nan) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 31) * Format::sign;
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return nan;
  const int exponent = static_cast<int>(magnitude >> 23) - (127 - Format::bias);  // in the format's bias; below 1: subnormal
  const int dropped = 23 - Format::mantissa_bits + (exponent < 1 ? 1 - exponent : 0);
  if (dropped > 24) return sign;  // less than half of the smallest step
  const uint32_t full = (magnitude & 0x7fffff) | 0x800000;
  const uint32_t kept = full >> dropped;
  const uint32_t rest = full & ((1u << dropped) - 1);
  const uint32_t half = 1u << (dropped - 1);
  const uint32_t rounded = kept + (rest > half || (rest == half && (kept & 1) != 0) ? 1 : 0);
  // `kept` holds the leading one of a normal number, which therefore adds one to the exponent below.
  const int64_t result = exponent < 1 ? rounded : (static_cast<int64_t>(exponent - 1) << Format::mantissa_bits) + rounded;
  if (result > Format::largest) return sign | (Format::saturate ? Format::largest : Format::top);
  return sign | static_cast<uint32_t>(result);
}

constexpr float float_from_half(uint16_t bits) { return widen<HalfFormat>(bits); }
constexpr uint16_t half_from_float(float value) { return static_cast<uint16_t>(narrow<HalfFormat>(value, kNanHalf)); }

constexpr float float_from_e4m3(uint8_t bits) { return widen<E4m3Format>(bits); }
constexpr uint8_t e4m3_from_float(float value) { return static_cast<uint8_t>(narrow<E4m3Format>(value, kNanE4m3)); }

constexpr float float_from_e5m2(uint8_t bits) { return widen<E5m2Format>(bits); }
constexpr uint8_t e5m2_from_float(float value) { return static_cast<uint8_t>(narrow<E5m2Format>(value, kNanE5m2)); }

/// bfloat16 is the upper half of a float, so that only rounding is left to do.
constexpr float float_from_bfloat(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
constexpr uint16_t bfloat_from_float(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return kNanBfloat;
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

}  // namespace ronde
