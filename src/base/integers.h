// Arithmetic of unsigned integers that wraps nowhere.
#pragma once

#include <bit>
#include <cstdint>

namespace ronde {

/// a / b, rounded up; b above 0.
constexpr uint64_t ceil_div(uint64_t a, uint64_t b) { return a / b + (a % b != 0 ? 1 : 0); }
/// The product; UINT64_MAX where it is more than that.
constexpr uint64_t times(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}
/// The sum; UINT64_MAX where it is more than that.
constexpr uint64_t plus(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}
/// The least e with 2^e >= n; n above 0.
constexpr uint64_t log2_ceil(uint64_t n) { return static_cast<uint64_t>(std::bit_width(n - 1)); }

}  // namespace ronde
