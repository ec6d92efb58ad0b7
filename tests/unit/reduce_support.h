// What the tests of the reductions share: the tables that can run here, and arrays given by their bits.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <random>
#include <stdexcept>
#include <vector>

#include "kernels/cpu/tables.h"

namespace ronde::test {

inline std::vector<const ReduceTable*> runnable_tables() {
  std::vector<const ReduceTable*> found;
  for (const ReduceTable* table : reduce_tables()) {
    if (table->supported()) found.push_back(table);
  }
  return found;
}

inline ReduceFn function_of(const ReduceTable& table, DataType type, ReduceOp op) {
  return table.fn[static_cast<int>(type)][static_cast<int>(op)];
}

/// Folds one element from each source, all given by their bits, and returns the bits of the result. The element stands in an
/// array of 67, so that the vector loops see it as well as what is done with the last few; all 67 results have to be equal.
template <class Bits>
Bits fold(const ReduceTable& table, DataType type, ReduceOp op, std::initializer_list<Bits> operands, Scale scale = {}) {
  constexpr size_t kCount = 67;
  std::vector<std::vector<Bits>> data;
  for (Bits bits : operands) data.emplace_back(kCount, bits);
  std::vector<const void*> src;
  for (const auto& source : data) src.push_back(source.data());
  std::vector<Bits> dst(kCount, static_cast<Bits>(0x5a));
  function_of(table, type, op)(dst.data(), src.data(), static_cast<int>(src.size()), kCount, scale);
  for (Bits result : dst) {
    if (result != dst[0]) throw std::runtime_error("equal elements gave different results");
  }
  return dst[0];
}

inline uint32_t bits(float value) { return std::bit_cast<uint32_t>(value); }
inline uint64_t bits(double value) { return std::bit_cast<uint64_t>(value); }

/// Bits worth trying in a type: zeros, ones, extremes, subnormals, infinities, NaNs of both signs, quiet and signalling.
inline std::vector<uint64_t> special_bits(DataType type) {
  switch (type) {
    case DataType::float16:
      return {0x0000, 0x8000, 0x3c00, 0xbc00, 0x0001, 0x8001, 0x03ff, 0x0400,
              0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0xfe01, 0x7c01};
    case DataType::bfloat16:
      return {0x0000, 0x8000, 0x3f80, 0xbf80, 0x0001, 0x8001, 0x007f, 0x0080,
              0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc0, 0xffc1, 0x7f81};
    case DataType::float32:
      return {0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x00000001, 0x80000001, 0x007fffff, 0x00800000,
              0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00001, 0x7f800001};
    case DataType::float64:
      return {0x0000000000000000, 0x8000000000000000, 0x3ff0000000000000, 0xbff0000000000000, 0x0000000000000001,
              0x800fffffffffffff, 0x0010000000000000, 0x7fefffffffffffff, 0xffefffffffffffff, 0x7ff0000000000000,
              0xfff0000000000000, 0x7ff8000000000000, 0xfff8000000000001, 0x7ff0000000000001};
    case DataType::float8e4m3:
      return {0x00, 0x80, 0x38, 0xb8, 0x01, 0x81, 0x07, 0x08, 0x7e, 0xfe, 0x7f, 0xff};
    case DataType::float8e5m2:
      return {0x00, 0x80, 0x3c, 0xbc, 0x01, 0x81, 0x03, 0x04, 0x7b, 0xfb, 0x7c, 0xfc, 0x7d, 0xfe, 0xff};
    default:
      return {0, 1, 2, 3, ~uint64_t{0}, 0x7f, 0x80, 0x7fff, 0x7fffffff, 0x80000000, 0x7fffffffffffffff, 0x8000000000000000};
  }
}

/// `bytes` bytes of elements of `type`: half of them any bits, half special ones.
inline std::vector<uint8_t> mixed_data(DataType type, size_t bytes, std::mt19937_64& random) {
  const std::vector<uint64_t> special = special_bits(type);
  const size_t size = size_of(type);
  std::vector<uint8_t> data(bytes);
  for (size_t at = 0; at + size <= bytes; at += size) {
    const uint64_t draw = random();
    const uint64_t element = draw % 2 == 0 ? random() : special[(draw >> 1) % special.size()];
    std::memcpy(data.data() + at, &element, size);  // little-endian: the low bytes
  }
  return data;
}

}  // namespace ronde::test
