// The conversions of the small floats against the definition of their formats, in double arithmetic.
#include "kernels/cpu/floats.h"

#include <cfenv>
#include <cmath>
#include <limits>
#include <random>

#include "support/catch.h"

namespace ronde {
namespace {

/// A format as its definition gives it, without the code under test.
struct Definition {
  const char* name;
  int exponent_bits, mantissa_bits;
  bool infinities, saturates;
  uint32_t nan;
  float (*widen)(uint32_t);
  uint32_t (*narrow)(float);
};

const Definition kDefinitions[] = {
    {"half", 5, 10, true, false, 0x7e00, [](uint32_t b) { return float_from_half(static_cast<uint16_t>(b)); },
     [](float f) { return uint32_t{half_from_float(f)}; }},
    {"bfloat16", 8, 7, true, false, 0x7fc0, [](uint32_t b) { return float_from_bfloat(static_cast<uint16_t>(b)); },
     [](float f) { return uint32_t{bfloat_from_float(f)}; }},
    {"f8e4m3", 4, 3, false, true, 0x7f, [](uint32_t b) { return float_from_e4m3(static_cast<uint8_t>(b)); },
     [](float f) { return uint32_t{e4m3_from_float(f)}; }},
    {"f8e5m2", 5, 2, true, true, 0x7f, [](uint32_t b) { return float_from_e5m2(static_cast<uint8_t>(b)); },
     [](float f) { return uint32_t{e5m2_from_float(f)}; }},
};

int bias(const Definition& d) { return (1 << (d.exponent_bits - 1)) - 1; }
uint32_t patterns(const Definition& d) { return 1u << (1 + d.exponent_bits + d.mantissa_bits); }

/// sign * 2^(e - bias) * 1.m, or sign * 2^(1 - bias) * 0.m
double value_of(const Definition& d, uint32_t bits) {
  const uint32_t mantissa = bits & ((1u << d.mantissa_bits) - 1);
  const int top_exponent = (1 << d.exponent_bits) - 1;
  const int exponent = static_cast<int>(bits >> d.mantissa_bits) & top_exponent;
  const double sign = bits >= patterns(d) / 2 ? -1 : 1;
  if (d.infinities && exponent == top_exponent) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  if (!d.infinities && exponent == top_exponent && mantissa == (1u << d.mantissa_bits) - 1) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const double fraction = std::ldexp(mantissa, -d.mantissa_bits);
  return sign * (exponent == 0 ? std::ldexp(fraction, 1 - bias(d)) : std::ldexp(1 + fraction, exponent - bias(d)));
}

double largest(const Definition& d) {
  double most = 0;
  for (uint32_t bits = 0; bits < patterns(d) / 2; ++bits) {
    const double value = value_of(d, bits);
    if (std::isfinite(value)) most = std::max(most, value);
  }
  return most;
}

/// `value` rounded to a number of the format, by the machine's own rounding to nearest even.
double rounded(const Definition& d, double most, double value) {
  if (std::isinf(value)) return d.saturates ? std::copysign(most, value) : value;
  const int exponent = value == 0 ? 1 - bias(d) : std::max(std::ilogb(value), 1 - bias(d));
  const double step = std::ldexp(1.0, exponent - d.mantissa_bits);
  const double result = std::copysign(std::nearbyint(value / step) * step, value);
  if (std::fabs(result) <= most) return result;
  return std::copysign(d.saturates ? most : std::numeric_limits<double>::infinity(), value);
}

bool same_number(double a, double b) { return a == b && std::signbit(a) == std::signbit(b); }

}  // namespace

TEST_CASE("small floats: every pattern has the value its format defines, and comes back", "[reduce]") {
  for (const Definition& d : kDefinitions) {
    INFO(d.name);
    for (uint32_t bits = 0; bits < patterns(d); ++bits) {
      const double expected = value_of(d, bits);
      const float value = d.widen(bits);
      const bool comes_back = std::isnan(expected) ? d.narrow(value) == d.nan
                              : std::isinf(expected) && d.saturates
                                  ? same_number(d.widen(d.narrow(value)), std::copysign(largest(d), value))
                                  : d.narrow(value) == bits;
      if ((std::isnan(expected) ? std::isnan(value) : same_number(value, expected)) && comes_back) continue;
      CAPTURE(bits, expected, value, d.narrow(value));
      FAIL_CHECK("wrong value or way back");
    }
  }
}

TEST_CASE("small floats: rounding at the middle between neighbours, and next to it", "[reduce]") {
  for (const Definition& d : kDefinitions) {
    INFO(d.name);
    const double most = largest(d);
    for (uint32_t bits = 0; value_of(d, bits) < most; ++bits) {
      const float low = static_cast<float>(value_of(d, bits)), high = static_cast<float>(value_of(d, bits + 1));
      // Exact for all but bfloat16's subnormals, whose middle float has too.
      const float middle = static_cast<float>((static_cast<double>(low) + high) / 2);
      const uint32_t even = bits % 2 == 0 ? bits : bits + 1;
      const bool right = d.narrow(middle) == even && d.narrow(std::nextafter(middle, low)) == bits &&
                         d.narrow(std::nextafter(middle, high)) == bits + 1 && d.narrow(-middle) == even + patterns(d) / 2 &&
                         d.narrow(-std::nextafter(middle, low)) == bits + patterns(d) / 2;
      if (right) continue;
      CAPTURE(bits, middle, d.narrow(middle));
      FAIL_CHECK("wrong rounding");
    }
  }
}

TEST_CASE("small floats: floats of all sizes round like the machine rounds", "[reduce]") {
  REQUIRE(std::fegetround() == FE_TONEAREST);
  std::mt19937 random(1);
  for (const Definition& d : kDefinitions) {
    INFO(d.name);
    const double most = largest(d);
    for (int i = 0; i < 200000; ++i) {
      const float value = std::bit_cast<float>(static_cast<uint32_t>(random()));
      if (std::isnan(value)) {
        if (d.narrow(value) == d.nan) continue;
      } else if (same_number(value_of(d, d.narrow(value)), rounded(d, most, value))) {
        continue;
      }
      CAPTURE(value, d.narrow(value));
      FAIL_CHECK("wrong rounding");
    }
  }
}

TEST_CASE("small floats: what is too large", "[reduce]") {
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(half_from_float(65519.996f) == 0x7bff);
  CHECK(half_from_float(65520.0f) == 0x7c00);
  CHECK(half_from_float(-65520.0f) == 0xfc00);
  CHECK(half_from_float(infinity) == 0x7c00);
  CHECK(bfloat_from_float(std::numeric_limits<float>::max()) == 0x7f80);
  CHECK(e4m3_from_float(449.0f) == 0x7e);
  CHECK(e4m3_from_float(480.0f) == 0x7e);
  CHECK(e4m3_from_float(-1e30f) == 0xfe);
  CHECK(e4m3_from_float(-infinity) == 0xfe);
  CHECK(e5m2_from_float(65536.0f) == 0x7b);
  CHECK(e5m2_from_float(-infinity) == 0xfb);
}

}  // namespace ronde
