#include "bench/data.h"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "support/catch.h"

namespace ronde::bench {
namespace {

uint64_t bits_at(const std::vector<std::byte>& data, size_t i, size_t size) {
  uint64_t bits = 0;
  std::memcpy(&bits, data.data() + i * size, size);
  return bits;
}

/// Rounds to the type, as a step that stores its partial result does.
uint64_t rounded(ncclDataType_t type, long double value) {
  const Format format = format_of(type);
  return type == ncclFloat64 ? encode(format, static_cast<double>(value)) : encode(format, double{static_cast<float>(value)});
}

/// One step of a reduction in the type, written apart from data.cc.
uint64_t step(ncclDataType_t type, Op op, uint64_t a, uint64_t b) {
  if (is_float(type)) {
    const Format format = format_of(type);
    const long double x = decode(format, a);
    const long double y = decode(format, b);
    if (op == Op::prod) return rounded(type, x * y);
    if (op == Op::min) return x < y ? a : b;
    if (op == Op::max) return x > y ? a : b;
    return rounded(type, x + y);
  }
  const auto size = type_size(type);
  const uint64_t mask = size == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * size)) - 1;
  const bool is_signed = type == ncclInt8 || type == ncclInt32 || type == ncclInt64;
  const uint64_t flip = is_signed ? uint64_t{1} << (8 * size - 1) : 0;
  if (op == Op::prod) return (a * b) & mask;
  if (op == Op::min) return (a ^ flip) < (b ^ flip) ? a : b;
  if (op == Op::max) return (a ^ flip) > (b ^ flip) ? a : b;
  return (a + b) & mask;
}

int64_t sign_extended(uint64_t bits, size_t size) {
  const int shift = static_cast<int>(64 - 8 * size);
  return static_cast<int64_t>(bits << shift) >> shift;
}

uint64_t divided(ncclDataType_t type, uint64_t sum, int n) {
  const auto size = type_size(type);
  const uint64_t mask = size == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * size)) - 1;
  if (type == ncclFloat64) return encode(format_of(type), decode(format_of(type), sum) / n);
  if (is_float(type))
    return encode(format_of(type), double{static_cast<float>(decode(format_of(type), sum)) / static_cast<float>(n)});
  if (type == ncclInt8 || type == ncclInt32 || type == ncclInt64)
    return static_cast<uint64_t>(sign_extended(sum, size) / n) & mask;
  return sum / static_cast<uint64_t>(n);
}

uint64_t scaled(ncclDataType_t type, uint64_t bits, int rank) {
  if (premul_scalar(rank) == 1) return bits;
  return step(type, Op::sum, bits, bits);
}

struct Case {
  ncclDataType_t type;
  Op op;
  int nranks;
};

/// Reduces the ranks' values at one index pair by pair in a random order, like some tree, rounding at each step.
uint64_t in_some_order(const Case& c, std::vector<uint64_t> values, std::mt19937& random) {
  if (c.op == Op::mulsum) {
    for (int r = 0; r < c.nranks; ++r) values[static_cast<size_t>(r)] = scaled(c.type, values[static_cast<size_t>(r)], r);
  }
  while (values.size() > 1) {
    const size_t a = random() % values.size();
    std::swap(values[a], values.back());
    const uint64_t taken = values.back();
    values.pop_back();
    const size_t b = random() % values.size();
    values[b] = step(c.type, c.op, taken, values[b]);
  }
  return c.op == Op::avg ? divided(c.type, values[0], c.nranks) : values[0];
}

void check(const Case& c) {
  constexpr size_t kCount = 300;
  const size_t size = type_size(c.type);
  const Inputs inputs(c.type, c.op, c.nranks, 7);
  std::vector<std::vector<std::byte>> in(static_cast<size_t>(c.nranks), std::vector<std::byte>(kCount * size));
  for (int r = 0; r < c.nranks; ++r) inputs.input(r, 1000, kCount, in[static_cast<size_t>(r)].data());
  std::vector<std::byte> expected(kCount * size);
  inputs.reduced(1000, kCount, expected.data());
  std::mt19937 random(1);
  size_t different = 0;
  for (size_t i = 0; i < kCount; ++i) {
    std::vector<uint64_t> values;
    for (const auto& of_rank : in) values.push_back(bits_at(of_rank, i, size));
    for (int tries = 0; tries < 3; ++tries) {
      INFO(type_name(c.type) << " " << op_name(c.op) << " of " << c.nranks << " ranks, index " << i);
      REQUIRE(in_some_order(c, values, random) == bits_at(expected, i, size));
    }
    different += i > 0 && bits_at(expected, i, size) != bits_at(expected, i - 1, size) ? 1 : 0;
  }
  INFO(type_name(c.type) << " " << op_name(c.op) << " of " << c.nranks << " ranks: results that hardly differ prove nothing");
  CHECK(different > kCount / 5);
}

}  // namespace

TEST_CASE("bench data: every type and operation is exact in any order", "[bench]") {
  for (int type = 0; type < kTypes; ++type) {
    for (int op = 0; op < kReductions; ++op) {
      for (int n : {1, 2, 3, 5, 8, 17, 41, 64}) check({static_cast<ncclDataType_t>(type), static_cast<Op>(op), n});
    }
  }
}

TEST_CASE("bench data: an input depends on index, rank and seed alone", "[bench]") {
  const Inputs inputs(ncclFloat32, Op::sum, 4, 3);
  std::vector<uint32_t> all(100);
  std::vector<uint32_t> part(10);
  inputs.input(2, 0, 100, all.data());
  inputs.input(2, 40, 10, part.data());
  CHECK(std::equal(part.begin(), part.end(), all.begin() + 40));
  std::vector<uint32_t> other(100);
  inputs.input(3, 0, 100, other.data());
  CHECK(all != other);
  Inputs(ncclFloat32, Op::sum, 4, 4).input(2, 0, 100, other.data());
  CHECK(all != other);
}

TEST_CASE("bench data: each rank's share shows in some result", "[bench]") {
  // Leaving a rank out has to be noticed, also where only some ranks hold non-zeros at an index.
  for (auto type : {ncclFloat8e5m2, ncclFloat8e4m3, ncclInt8, ncclFloat32}) {
    for (auto op : {Op::sum, Op::prod, Op::avg, Op::mulsum}) {
      const Inputs inputs(type, op, 64, 11);
      for (int r = 0; r < 64; ++r) {
        std::vector<std::byte> in(4096 * type_size(type));
        inputs.input(r, 0, 4096, in.data());
        size_t neutral = 0;
        for (size_t i = 0; i < 4096; ++i) neutral += bits_at(in, i, type_size(type)) == 0 ? 1 : 0;
        INFO(type_name(type) << " " << op_name(op) << " rank " << r);
        CHECK(neutral < 4090);
      }
    }
  }
}

TEST_CASE("bench data: float formats encode and decode", "[bench]") {
  for (auto type : {ncclFloat16, ncclBfloat16, ncclFloat8e4m3, ncclFloat8e5m2}) {
    const Format format = format_of(type);
    for (uint64_t bits = 0; bits < 2 * format.sign_bit(); ++bits) {
      if (is_finite(format, bits)) REQUIRE(encode(format, decode(format, bits)) == bits);
    }
  }
  CHECK(encode(format_of(ncclFloat16), 1.0) == 0x3c00);
  CHECK(encode(format_of(ncclFloat16), 65504.0) == 0x7bff);
  CHECK(encode(format_of(ncclFloat16), 1.0 + 1.0 / 2048) == 0x3c00);
  CHECK(encode(format_of(ncclFloat16), 1.0 + 3.0 / 2048) == 0x3c02);
  CHECK(encode(format_of(ncclFloat8e4m3), 448.0) == 0x7e);
  CHECK(encode(format_of(ncclFloat8e5m2), 57344.0) == 0x7b);
  CHECK(encode(format_of(ncclBfloat16), -2.0) == 0xc000);
  CHECK(encode(format_of(ncclFloat32), 0.1F) == 0x3dcccccd);
  CHECK(std::isnan(decode(format_of(ncclFloat8e4m3), 0x7f)));
  CHECK(std::isinf(decode(format_of(ncclFloat8e5m2), 0x7c)));
  const uint16_t half = 0xc200;
  CHECK(element_text(ncclFloat16, &half) == "-3 (0xc200)");
}

TEST_CASE("bench data: names", "[bench]") {
  for (int i = 0; i < kTypes; ++i)
    CHECK(type_from_name(type_name(static_cast<ncclDataType_t>(i))) == static_cast<ncclDataType_t>(i));
  for (int i = 0; i < kReductions; ++i) CHECK(op_from_name(op_name(static_cast<Op>(i))) == static_cast<Op>(i));
  CHECK(!type_from_name("float16").has_value());
  CHECK(!op_from_name("none").has_value());
}

}  // namespace ronde::bench
