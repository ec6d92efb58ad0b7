// Arithmetic of unsigned integers that wraps nowhere.
#pragma once

#include <bit>
#include <cstdint>

namespace ronde {

/// a / b, rounded up; b above 0.
constexpr uint64_t ceil_div(uint64_t a, uint64_t b) { return a / b + (a % b != 0 ? 1 : 0); }
/// The least e with 2^e >= n; n above 0.
constexpr uint64_t log2_ceil(uint64_t n) { return static_cast<uint64_t>(std::bit_width(n - 1)); }

}  // namespace ronde
