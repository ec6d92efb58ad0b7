#include "bench/element.h"

#include <fmt/core.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace ronde::bench {
namespace {

struct TypeRow {
  std::string_view name;
  size_t size;
  Format format;  // of floats; all zero otherwise
};

constexpr std::array<TypeRow, kTypes> kRows = {{{"int8", 1, {}},
                                                {"uint8", 1, {}},
                                                {"int32", 4, {}},
                                                {"uint32", 4, {}},
                                                {"int64", 8, {}},
                                                {"uint64", 8, {}},
                                                {"half", 2, {5, 10, true}},
                                                {"float", 4, {8, 23, true}},
                                                {"double", 8, {11, 52, true}},
                                                {"bfloat16", 2, {8, 7, true}},
                                                {"f8e4m3", 1, {4, 3, false}},
                                                {"f8e5m2", 1, {5, 2, true}}}};

const TypeRow& row(ncclDataType_t type) { return kRows[static_cast<size_t>(type)]; }

template <class T>
T load(const void* element) {
  T value;
  std::memcpy(&value, element, sizeof value);
  return value;
}

}  // namespace

std::string_view type_name(ncclDataType_t type) { return row(type).name; }

std::optional<ncclDataType_t> type_from_name(std::string_view name) {
  for (int i = 0; i < kTypes; ++i) {
    if (kRows[static_cast<size_t>(i)].name == name) return static_cast<ncclDataType_t>(i);
  }
  return std::nullopt;
}

size_t type_size(ncclDataType_t type) { return row(type).size; }
bool is_float(ncclDataType_t type) { return row(type).format.exponent_bits > 0; }
Format format_of(ncclDataType_t type) { return row(type).format; }

uint64_t encode(const Format& format, double value) {
  const uint64_t sign = std::signbit(value) ? format.sign_bit() : 0;
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  // The last place of the result: fixed below the smallest normal number.
  const int exponent = std::max(std::ilogb(magnitude), format.min_exponent());
  const int last_place = exponent - format.mantissa_bits;
  const auto units = static_cast<uint64_t>(std::nearbyint(std::ldexp(magnitude, -last_place)));
  // A normal number's units carry the hidden bit, which counts the exponent field up by one; so does a carry from rounding.
  const auto field = static_cast<uint64_t>(exponent - format.min_exponent());
  return sign | ((field << format.mantissa_bits) + units);
}

double decode(const Format& format, uint64_t bits) {
  const double sign = (bits & format.sign_bit()) != 0 ? -1.0 : 1.0;
  const uint64_t mantissa = bits & ((uint64_t{1} << format.mantissa_bits) - 1);
  const auto field = static_cast<int>((bits & (format.sign_bit() - 1)) >> format.mantissa_bits);
  if (!is_finite(format, bits)) {
    const bool infinite = format.has_inf && mantissa == 0;
    return infinite ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  const uint64_t hidden = field > 0 ? uint64_t{1} << format.mantissa_bits : 0;
  const int exponent = std::max(field, 1) - format.bias();
  return sign * std::ldexp(static_cast<double>(mantissa | hidden), exponent - format.mantissa_bits);
}

std::string element_text(ncclDataType_t type, const void* element) {
  switch (type) {
    case ncclInt8:
      return fmt::format("{}", int{load<int8_t>(element)});
    case ncclUint8:
      return fmt::format("{}", unsigned{load<uint8_t>(element)});
    case ncclInt32:
      return fmt::format("{}", load<int32_t>(element));
    case ncclUint32:
      return fmt::format("{}", load<uint32_t>(element));
    case ncclInt64:
      return fmt::format("{}", load<int64_t>(element));
    case ncclUint64:
      return fmt::format("{}", load<uint64_t>(element));
    default:
      break;
  }
  uint64_t bits = 0;
  std::memcpy(&bits, element, type_size(type));  // little-endian: the low bytes
  return fmt::format("{:g} (0x{:0{}x})", decode(format_of(type), bits), bits, 2 * type_size(type));
}

}  // namespace ronde::bench
