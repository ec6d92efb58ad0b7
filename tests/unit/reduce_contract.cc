// The written contract (docs/numerics.md) with the values it gives, on every table of this machine.
#include <algorithm>
#include <cfenv>
#include <limits>

#include "kernels/cpu/floats.h"
#include "reduce_support.h"
#include "support/catch.h"

namespace ronde {
namespace {

using test::bits;
using test::fold;
using U8 = uint8_t;
using U16 = uint16_t;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

U16 half(float value) { return half_from_float(value); }
U16 bfloat(float value) { return bfloat_from_float(value); }

/// One element of each floating-point type, as bits of its size.
struct FloatType {
  DataType type;
  uint64_t canonical_nan;
};
constexpr FloatType kFloats[] = {{DataType::float16, 0x7e00},     {DataType::bfloat16, 0x7fc0},
                                 {DataType::float32, 0x7fc00000}, {DataType::float64, 0x7ff8000000000000},
                                 {DataType::float8e4m3, 0x7f},    {DataType::float8e5m2, 0x7f}};

/// fold() for a type that is known at run time only.
uint64_t fold_any(const ReduceTable& table, DataType type, ReduceOp op, std::initializer_list<uint64_t> operands) {
  std::vector<const void*> src;
  for (const uint64_t& operand : operands) src.push_back(&operand);
  uint64_t result = 0;
  test::function_of(table, type, op)(&result, src.data(), static_cast<int>(src.size()), 1, {});
  return result;
}

bool is_nan(DataType type, uint64_t element) {
  switch (type) {
    case DataType::float16:
      return (element & 0x7fff) > 0x7c00;
    case DataType::bfloat16:
      return (element & 0x7fff) > 0x7f80;
    case DataType::float32:
      return (element & 0x7fffffff) > 0x7f800000;
    case DataType::float64:
      return (element & 0x7fffffffffffffff) > 0x7ff0000000000000;
    case DataType::float8e4m3:
      return (element & 0x7f) > 0x7e;
    default:
      return (element & 0x7f) > 0x7c;
  }
}

}  // namespace

TEST_CASE("contract: integers wrap in sums and products", "[reduce]") {
  for (const ReduceTable* t : test::runnable_tables()) {
    INFO(t->isa);
    CHECK(fold<U8>(*t, DataType::int8, ReduceOp::sum, {0x7f, 0x01}) == 0x80);
    CHECK(fold<U8>(*t, DataType::uint8, ReduceOp::sum, {200, 100}) == 44);
    CHECK(fold<U8>(*t, DataType::uint8, ReduceOp::prod, {200, 200}) == U8(200 * 200));
    CHECK(fold<U8>(*t, DataType::int8, ReduceOp::prod, {U8(-3), 5, 7}) == U8(-105));
    CHECK(fold<uint32_t>(*t, DataType::int32, ReduceOp::sum, {0x7fffffff, 1}) == 0x80000000);
    CHECK(fold<uint32_t>(*t, DataType::int32, ReduceOp::prod, {0x12345678, 0x9abcdef1}) == 0x12345678u * 0x9abcdef1u);
    CHECK(fold<uint64_t>(*t, DataType::uint64, ReduceOp::sum, {~uint64_t{0}, 2}) == 1);
    CHECK(fold<uint64_t>(*t, DataType::int64, ReduceOp::prod, {0x123456789abcdef1, 0xfedcba9876543213}) ==
          0x123456789abcdef1u * 0xfedcba9876543213u);
    CHECK(fold<U8>(*t, DataType::int8, ReduceOp::max, {0x80, 0x7f, 0xff}) == 0x7f);
    CHECK(fold<U8>(*t, DataType::uint8, ReduceOp::max, {0x80, 0x7f, 0xff}) == 0xff);
    CHECK(fold<uint64_t>(*t, DataType::int64, ReduceOp::min, {1, ~uint64_t{0}, 0}) == ~uint64_t{0});
    CHECK(fold<uint64_t>(*t, DataType::uint64, ReduceOp::min, {1, ~uint64_t{0}, 0}) == 0);
  }
}

TEST_CASE("contract: averages of integers do not overflow on the way and truncate toward zero", "[reduce]") {
  const auto by = [](int64_t divisor) { return Scale{.divisor = divisor}; };
  for (const ReduceTable* t : test::runnable_tables()) {
    INFO(t->isa);
    CHECK(fold<U8>(*t, DataType::int8, ReduceOp::avg, {127, 127, 127}, by(3)) == 127);
    CHECK(fold<U8>(*t, DataType::int8, ReduceOp::avg, {U8(-128), U8(-128)}, by(2)) == U8(-128));
    CHECK(fold<U8>(*t, DataType::int8, ReduceOp::avg, {U8(-3), 0}, by(2)) == U8(-1));
    CHECK(fold<U8>(*t, DataType::uint8, ReduceOp::avg, {255, 254}, by(2)) == 254);
    CHECK(fold<uint32_t>(*t, DataType::int32, ReduceOp::avg, {0x7fffffff, 0x7fffffff}, by(2)) == 0x7fffffff);
    CHECK(fold<uint32_t>(*t, DataType::int32, ReduceOp::avg, {0x80000000, 0x80000000, 0x80000001}, by(3)) == 0x80000001);
    CHECK(fold<uint32_t>(*t, DataType::int32, ReduceOp::avg, {uint32_t(-7), 0}, by(2)) == uint32_t(-3));
    CHECK(fold<uint32_t>(*t, DataType::uint32, ReduceOp::avg, {~0u, ~0u, ~0u - 1}, by(3)) == ~0u - 1);
    CHECK(fold<uint64_t>(*t, DataType::int64, ReduceOp::avg, {INT64_MAX, INT64_MAX}, by(2)) == INT64_MAX);
    CHECK(fold<uint64_t>(*t, DataType::int64, ReduceOp::avg, {uint64_t(INT64_MIN), uint64_t(INT64_MIN) + 1}, by(2)) ==
          uint64_t(INT64_MIN) + 1);
    CHECK(fold<uint64_t>(*t, DataType::uint64, ReduceOp::avg, {~uint64_t{0}, ~uint64_t{0} - 1}, by(2)) == ~uint64_t{0} - 1);
    // A part of the ranks divided by all of them; and fewer than met, which wraps.
    CHECK(fold<uint32_t>(*t, DataType::int32, ReduceOp::avg, {100, 100}, by(8)) == 25);
    CHECK(fold<U8>(*t, DataType::uint8, ReduceOp::avg, {200, 200, 200}, by(2)) == U8(300));
    CHECK(fold<U8>(*t, DataType::uint8, ReduceOp::avg, {200, 100}, by(1)) == 44);
  }
}

TEST_CASE("contract: small floats fold in float and are rounded once", "[reduce]") {
  for (const ReduceTable* t : test::runnable_tables()) {
    INFO(t->isa);
    CHECK(fold<U16>(*t, DataType::float16, ReduceOp::sum, {half(2048), half(1), half(1)}) == half(2050));
    CHECK(fold<U16>(*t, DataType::bfloat16, ReduceOp::sum, {bfloat(256), bfloat(1), bfloat(1)}) == bfloat(258));
    CHECK(fold<U8>(*t, DataType::float8e4m3, ReduceOp::sum, {e4m3_from_float(16), e4m3_from_float(1), e4m3_from_float(1)}) ==
          e4m3_from_float(18));
    CHECK(fold<U16>(*t, DataType::float16, ReduceOp::prod, {half(60000), half(60000), half(1.f / 32768)}) == half(kInfinity));
    CHECK(fold<U16>(*t, DataType::float16, ReduceOp::prod, {half(1024), half(1024), half(1.f / 1024)}) == half(1024));
    CHECK(fold<U16>(*t, DataType::float16, ReduceOp::avg, {half(65504), half(65504)}, {.divisor = 2}) == half(65504));
    // The fold goes from left to right in the type's own precision.
    CHECK(fold<uint32_t>(*t, DataType::float32, ReduceOp::sum, {bits(1e8f), bits(1.f), bits(-1e8f)}) == bits(0.f));
    CHECK(fold<uint64_t>(*t, DataType::float64, ReduceOp::sum, {bits(1e8), bits(1.), bits(-1e8)}) == bits(1.));
    CHECK(fold<uint32_t>(*t, DataType::float32, ReduceOp::avg, {bits(1.f), bits(1.f)}, {.divisor = 3}) == bits(2.f / 3));
  }
}

TEST_CASE("contract: 8-bit floats saturate, halves overflow to infinity", "[reduce]") {
  for (const ReduceTable* t : test::runnable_tables()) {
    INFO(t->isa);
    CHECK(fold<U8>(*t, DataType::float8e4m3, ReduceOp::sum, {0x7e, 0x7e}) == 0x7e);
    CHECK(fold<U8>(*t, DataType::float8e4m3, ReduceOp::sum, {0xfe, 0xfe, 0x01}) == 0xfe);
    CHECK(fold<U8>(*t, DataType::float8e4m3, ReduceOp::sum, {0xff, 0x01}) == 0x7f);
    CHECK(fold<U8>(*t, DataType::float8e5m2, ReduceOp::sum, {0x7b, 0x7b}) == 0x7b);
    CHECK(fold<U8>(*t, DataType::float8e5m2, ReduceOp::prod, {0xfb, 0x7b, 0x7b}) == 0xfb);
    CHECK(fold<U8>(*t, DataType::float8e5m2, ReduceOp::sum, {0x7c, 0x01}) == 0x7b);
    CHECK(fold<U8>(*t, DataType::float8e5m2, ReduceOp::sum, {0x7c, 0xfc}) == 0x7f);
    CHECK(fold<U8>(*t, DataType::float8e5m2, ReduceOp::max, {0x7c, 0x01}) == 0x7c);
    CHECK(fold<U16>(*t, DataType::float16, ReduceOp::sum, {0x7bff, 0x7bff}) == 0x7c00);
    CHECK(fold<U16>(*t, DataType::bfloat16, ReduceOp::sum, {0xff7f, 0xff7f}) == 0xff80);
    CHECK(fold<uint32_t>(*t, DataType::float32, ReduceOp::sum, {0x7f7fffff, 0x7f7fffff}) == bits(kInfinity));
  }
}

TEST_CASE("contract: NaN wins in max and min, -0 is below +0, in any order", "[reduce]") {
  std::mt19937_64 random(5);
  for (const FloatType& f : kFloats) {
    const std::vector<uint64_t> special = test::special_bits(f.type);
    for (int round = 0; round < 300; ++round) {
      uint64_t x[3];
      for (uint64_t& operand : x) operand = special[random() % special.size()];
      const bool any_nan = is_nan(f.type, x[0]) || is_nan(f.type, x[1]) || is_nan(f.type, x[2]);
      for (ReduceOp op : {ReduceOp::max, ReduceOp::min}) {
        const uint64_t right = fold_any(scalar_table, f.type, op, {x[0], x[1], x[2]});
        CAPTURE(name_of(f.type), name_of(op), x[0], x[1], x[2]);
        if (any_nan) REQUIRE(right == f.canonical_nan);
        for (const ReduceTable* t : test::runnable_tables()) {
          int order[] = {0, 1, 2};
          do {
            const uint64_t a = x[order[0]], b = x[order[1]], c = x[order[2]];
            const uint64_t left = fold_any(*t, f.type, op, {fold_any(*t, f.type, op, {a, b}), c});
            const uint64_t other = fold_any(*t, f.type, op, {a, fold_any(*t, f.type, op, {b, c})});
            if (left == right && other == right && fold_any(*t, f.type, op, {a, b, c}) == right) continue;
            FAIL_CHECK("depends on order in table " << t->isa);
          } while (std::next_permutation(std::begin(order), std::end(order)));
        }
      }
    }
  }
  for (const ReduceTable* t : test::runnable_tables()) {
    INFO(t->isa);
    CHECK(fold<uint32_t>(*t, DataType::float32, ReduceOp::max, {bits(-0.f), bits(0.f)}) == bits(0.f));
    CHECK(fold<uint32_t>(*t, DataType::float32, ReduceOp::min, {bits(0.f), bits(-0.f)}) == bits(-0.f));
    CHECK(fold<uint32_t>(*t, DataType::float32, ReduceOp::max, {bits(-1.f), 0xffc00001, bits(kInfinity)}) == 0x7fc00000);
    CHECK(fold<U8>(*t, DataType::float8e4m3, ReduceOp::min, {0x80, 0x00, 0x01}) == 0x80);
  }
}

TEST_CASE("contract: a NaN out of arithmetic is the type's one NaN", "[reduce]") {
  for (const ReduceTable* t : test::runnable_tables()) {
    INFO(t->isa);
    for (ReduceOp op : {ReduceOp::sum, ReduceOp::prod}) {
      CHECK(fold<uint32_t>(*t, DataType::float32, op, {0xffc12345, bits(1.f)}) == 0x7fc00000);
      CHECK(fold<uint32_t>(*t, DataType::float32, op, {bits(1.f), 0x7f800001}) == 0x7fc00000);
      CHECK(fold<uint64_t>(*t, DataType::float64, op, {bits(1.), 0xfff8000000000001}) == 0x7ff8000000000000);
      CHECK(fold<U16>(*t, DataType::float16, op, {0x7c01, half(1)}) == 0x7e00);
      CHECK(fold<U16>(*t, DataType::bfloat16, op, {0xff81, bfloat(1)}) == 0x7fc0);
      CHECK(fold<U8>(*t, DataType::float8e5m2, op, {0xfd, 0x3c}) == 0x7f);
    }
    CHECK(fold<uint32_t>(*t, DataType::float32, ReduceOp::sum, {bits(kInfinity), bits(-kInfinity)}) == 0x7fc00000);
    CHECK(fold<U16>(*t, DataType::float16, ReduceOp::prod, {half(kInfinity), half(0)}) == 0x7e00);
    CHECK(fold<U16>(*t, DataType::bfloat16, ReduceOp::avg, {0xff81, bfloat(1)}, {.divisor = 2}) == 0x7fc0);
  }
}

TEST_CASE("contract: one operand that nothing is done to is copied, NaN bits and all", "[reduce]") {
  for (const ReduceTable* t : test::runnable_tables()) {
    INFO(t->isa);
    for (ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::max, ReduceOp::min, ReduceOp::avg, ReduceOp::premul_sum}) {
      CHECK(fold<uint32_t>(*t, DataType::float32, op, {0xff800001}) == 0xff800001);
      CHECK(fold<uint64_t>(*t, DataType::float64, op, {0xfff0000000000001}) == 0xfff0000000000001);
      CHECK(fold<U16>(*t, DataType::float16, op, {0xfc01}) == 0xfc01);
      CHECK(fold<U8>(*t, DataType::float8e5m2, op, {0x7c}) == 0x7c);
      CHECK(fold<U8>(*t, DataType::float8e4m3, op, {0xff}) == 0xff);
    }
    CHECK(fold<uint32_t>(*t, DataType::float32, ReduceOp::avg, {0xff800001}, {.divisor = 2}) == 0x7fc00000);
    CHECK(fold<U8>(*t, DataType::int8, ReduceOp::avg, {U8(-7)}, {.divisor = 2}) == U8(-3));
  }
}

TEST_CASE("contract: a pre-multiplied product is rounded to the type before it is added", "[reduce]") {
  const float step = 0x1p-10f;
  for (const ReduceTable* t : test::runnable_tables()) {
    INFO(t->isa);
    // (1 + step)^2 rounds to 1 + 2 step; with 1 - step that is a tie, and goes to 2. Unrounded it would go up.
    const Scale first{.pre_index = 0, .factor = half(1 + step)};
    CHECK(fold<U16>(*t, DataType::float16, ReduceOp::premul_sum, {half(1 + step), half(1 - step)}, first) == half(2));
    // A fused multiply-add would leave 2^-24.
    const float a = 1 + 0x1p-12f;
    const Scale last{.pre_index = 1, .factor = bits(a)};
    CHECK(fold<uint32_t>(*t, DataType::float32, ReduceOp::sum, {bits(-(1 + 0x1p-11f)), bits(a)}, last) == bits(0.f));
    const double d = 1 + 0x1p-27;
    const Scale wide{.pre_index = 1, .factor = bits(d)};
    CHECK(fold<uint64_t>(*t, DataType::float64, ReduceOp::sum, {bits(-(1 + 0x1p-26)), bits(d)}, wide) == bits(0.));
    CHECK(fold<U8>(*t, DataType::float8e4m3, ReduceOp::sum, {0x7e, 0xfe}, {.pre_index = 0, .factor = 0x7e}) == 0x00);
    CHECK(fold<U8>(*t, DataType::int8, ReduceOp::sum, {100, 1, 1}, {.pre_index = 0, .factor = 3}) == U8(302));
    CHECK(fold<uint64_t>(*t, DataType::uint64, ReduceOp::sum, {5, 7}, {.pre_index = 1, .factor = ~uint64_t{0}}) == uint64_t(-2));
    CHECK(fold<uint32_t>(*t, DataType::float32, ReduceOp::sum, {bits(3.f)}, {.pre_index = 0, .factor = bits(0.5f)}) ==
          bits(1.5f));
  }
}

TEST_CASE("contract: the caller's rounding mode and flush-to-zero change nothing, and are left as they were", "[reduce]") {
  for (const ReduceTable* t : test::runnable_tables()) {
    INFO(t->isa);
    REQUIRE(std::fesetround(FE_UPWARD) == 0);
#if defined(__x86_64__)
    const unsigned mode = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(mode | 0x8040);  // flush subnormal results, take subnormal operands for zero
#endif
    const uint32_t tie = fold<uint32_t>(*t, DataType::float32, ReduceOp::sum, {bits(1.f), bits(0x1p-24f)});
    const uint32_t tiny = fold<uint32_t>(*t, DataType::float32, ReduceOp::sum, {3, 4});
    const U16 tiny_half = fold<U16>(*t, DataType::float16, ReduceOp::sum, {3, 4});
    const U8 average = fold<U8>(*t, DataType::int8, ReduceOp::avg, {9, 0}, {.divisor = 10});
    const int rounding = std::fegetround();
#if defined(__x86_64__)
    const unsigned after = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(mode);
    CHECK((after & 0x8040) == 0x8040);
#endif
    std::fesetround(FE_TONEAREST);
    CHECK(tie == bits(1.f));
    CHECK(tiny == 7);
    CHECK(tiny_half == 7);
    CHECK(average == 0);
    CHECK(rounding == FE_UPWARD);
  }
}

}  // namespace ronde
