// Small integers written in every type, by arithmetic of the tests' own: the library's conversions are under test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "nccl.h"

namespace ronde::test {

/// Bits of the integer `value` in a float format with `exponent_bits` and `mantissa_bits`; exact for the values the tests use.
inline uint32_t float_bits(int value, int exponent_bits, int mantissa_bits) {
  if (value == 0) return 0;
  const uint32_t sign = value < 0 ? 1u : 0u;
  uint32_t magnitude = static_cast<uint32_t>(value < 0 ? -value : value);
  int exponent = 31 - __builtin_clz(magnitude);
  const uint32_t fraction = exponent > mantissa_bits ? (magnitude >> (exponent - mantissa_bits)) & ((1u << mantissa_bits) - 1)
                                                     : (magnitude << (mantissa_bits - exponent)) & ((1u << mantissa_bits) - 1);
  const auto biased = static_cast<uint32_t>(exponent + (1 << (exponent_bits - 1)) - 1);
  return sign << (exponent_bits + mantissa_bits) | biased << mantissa_bits | fraction;
}

inline void store_small_integer(ncclDataType_t type, void* to, int value) {
  const auto put = [to](auto v) { memcpy(to, &v, sizeof v); };
  switch (type) {
    case ncclInt8: put(static_cast<int8_t>(value)); break;
    case ncclUint8: put(static_cast<uint8_t>(value)); break;
    case ncclInt32: put(static_cast<int32_t>(value)); break;
    case ncclUint32: put(static_cast<uint32_t>(value)); break;
    case ncclInt64: put(static_cast<int64_t>(value)); break;
    case ncclUint64: put(static_cast<uint64_t>(value)); break;
    case ncclFloat32: put(static_cast<float>(value)); break;
    case ncclFloat64: put(static_cast<double>(value)); break;
    case ncclFloat16: put(static_cast<uint16_t>(float_bits(value, 5, 10))); break;
    case ncclBfloat16: put(static_cast<uint16_t>(float_bits(value, 8, 7))); break;
    case ncclFloat8e4m3: put(static_cast<uint8_t>(float_bits(value, 4, 3))); break;
    case ncclFloat8e5m2: put(static_cast<uint8_t>(float_bits(value, 5, 2))); break;
    default: break;
  }
}

}  // namespace ronde::test
