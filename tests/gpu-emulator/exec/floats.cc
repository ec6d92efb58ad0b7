#include "gpu-emulator/exec/floats.h"

#include <algorithm>

namespace emu {

namespace {

/// `value` / 2^drop, rounded as asked.
uint64_t shifted(uint64_t value, int drop, bool negative, Rounding rounding) {
  if (drop <= 0) return value << -drop;
  if (drop > 63) return value != 0 && (rounding == Rounding::up ? !negative : rounding == Rounding::down && negative);
  const uint64_t kept = value >> drop, rest = value & ((uint64_t{1} << drop) - 1), half = uint64_t{1} << (drop - 1);
  switch (rounding) {
    case Rounding::nearest:
      return kept + (rest > half || (rest == half && (kept & 1)));
    case Rounding::away:
      return kept + (rest >= half);
    case Rounding::up:
      return kept + (rest != 0 && !negative);
    case Rounding::down:
      return kept + (rest != 0 && negative);
    default:
      return kept;
  }
}

}  // namespace

uint32_t encode(double value, Format format, Rounding rounding, bool finite) {
  const auto bits = std::bit_cast<uint64_t>(value);
  const bool negative = bits >> 63;
  const uint32_t sign = static_cast<uint32_t>(negative) << (format.exponent + format.mantissa);
  const uint32_t top = (1u << format.exponent) - 1, ones = (1u << format.mantissa) - 1;
  const uint32_t infinity = format.infinity ? top << format.mantissa : top << format.mantissa | ones;
  const uint32_t largest = infinity - 1;
  if (value != value) return top << format.mantissa | ones;
  if (std::isinf(value)) return sign | (finite ? largest : infinity);
  if (value == 0) return sign;
  int exponent = 0;
  const auto mantissa =
      static_cast<uint64_t>(std::ldexp(std::frexp(std::fabs(value), &exponent), 53));  // value = mantissa * 2^(exponent - 53)
  const int bias = static_cast<int>(top / 2);
  // The exponent of the number 1.x * 2^e; below the least one the number is subnormal and more bits are dropped.
  const int e = std::max(exponent - 1, 1 - bias);
  const int drop = 52 - format.mantissa + (e - (exponent - 1));
  const uint64_t rounded = shifted(mantissa, drop, negative, rounding);
  // The implicit bit carries into the exponent's field by itself.
  const uint64_t code = rounded + (static_cast<uint64_t>(e + bias - 1) << format.mantissa);
  if (code > largest) {
    const bool towards_zero =
        rounding == Rounding::zero || (rounding == Rounding::down && !negative) || (rounding == Rounding::up && negative);
    return sign | (finite || towards_zero ? largest : infinity);
  }
  return sign | static_cast<uint32_t>(code);
}

double decode(uint32_t bits, Format format) {
  const uint32_t top = (1u << format.exponent) - 1, ones = (1u << format.mantissa) - 1;
  const bool negative = bits >> (format.exponent + format.mantissa) & 1;
  const uint32_t exponent = bits >> format.mantissa & top, mantissa = bits & ones;
  double value;
  if (exponent == top && format.infinity) {
    value = mantissa != 0 ? std::bit_cast<double>(0x7ff8000000000000ull) : HUGE_VAL;
  } else if (exponent == top && mantissa == ones) {
    value = std::bit_cast<double>(0x7ff8000000000000ull);
  } else {
    const int bias = static_cast<int>(top / 2);
    value = exponent == 0 ? std::ldexp(mantissa, 1 - bias - format.mantissa)
                          : std::ldexp(mantissa + (1u << format.mantissa), static_cast<int>(exponent) - bias - format.mantissa);
  }
  return negative ? -value : value;
}

}  // namespace emu
