// Element types as the benchmarks see them: names, sizes, and floats taken apart into bits. Independent of the library's own
// code, so that it can judge it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "nccl.h"

namespace ronde::bench {

inline constexpr int kTypes = 12;

/// nccl-tests' name: int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16, f8e4m3, f8e5m2.
std::string_view type_name(ncclDataType_t type);
std::optional<ncclDataType_t> type_from_name(std::string_view name);
/// Bytes of one element.
size_t type_size(ncclDataType_t type);
bool is_float(ncclDataType_t type);

/// Layout of a binary float. Where `has_inf` is false (f8e4m3) the all-ones exponent holds numbers and only all-ones bits are
/// NaN.
struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool has_inf;

  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  constexpr int min_exponent() const { return 1 - bias(); }
  constexpr int max_exponent() const { return (1 << exponent_bits) - 1 - bias() - (has_inf ? 1 : 0); }
  /// Largest p such that every integer up to 2^p is a number of the format.
  constexpr int precision() const { return mantissa_bits + 1; }
  constexpr uint64_t sign_bit() const { return uint64_t{1} << (exponent_bits + mantissa_bits); }
};

/// The layout of a float type; is_float(type) must hold.
Format format_of(ncclDataType_t type);

/// Bits of the number of `format` nearest to `value` (ties to even). `value` must be finite and in the format's range.
uint64_t encode(const Format& format, double value);
/// The number that `bits` stand for, NaN and infinities included.
double decode(const Format& format, uint64_t bits);
/// False for NaN and infinities.
constexpr bool is_finite(const Format& format, uint64_t bits) {
  const uint64_t magnitude = bits & (format.sign_bit() - 1);
  const uint64_t first_not =
      format.has_inf ? ((uint64_t{1} << format.exponent_bits) - 1) << format.mantissa_bits : format.sign_bit() - 1;
  return magnitude < first_not;
}

/// One element as text: the number and, for floats, its bits in hexadecimal.
std::string element_text(ncclDataType_t type, const void* element);

}  // namespace ronde::bench
