// The reference table: one element after the other, as docs/numerics.md says it. Meant to be seen to be right, not to be fast.
#include <cmath>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/float_mode.h"
#include "kernels/cpu/floats.h"
#include "kernels/cpu/tables.h"

namespace ronde {
namespace {

__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 Uint128;

/// The i-th element at an address of any alignment.
template <class T>
T read(const void* base, size_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(base) + i * sizeof(T), sizeof(T));
  return value;
}
template <class T>
void write(void* base, size_t i, T value) {
  std::memcpy(static_cast<char*>(base) + i * sizeof(T), &value, sizeof(T));
}

/// One operand that nothing is done to keeps its bits.
void copy(void* dst, const void* src, size_t bytes) {
  if (bytes > 0 && dst != src) std::memcpy(dst, src, bytes);
}

/// A floating-point type: Bits in memory, computed with as Value.
template <class B, class V, V (*kDecode)(B), B (*kEncode)(V)>
struct Real {
  using Bits = B;
  using Value = V;
  static Value decode(Bits bits) { return kDecode(bits); }
  static Bits encode(Value value) { return kEncode(value); }
};

float float_from_bits(uint32_t bits) { return std::bit_cast<float>(bits); }
uint32_t bits_from_float(float value) { return std::isnan(value) ? kNanFloat : std::bit_cast<uint32_t>(value); }
double double_from_bits(uint64_t bits) { return std::bit_cast<double>(bits); }
uint64_t bits_from_double(double value) { return std::isnan(value) ? kNanDouble : std::bit_cast<uint64_t>(value); }

using Half = Real<uint16_t, float, float_from_half, half_from_float>;
using Bfloat = Real<uint16_t, float, float_from_bfloat, bfloat_from_float>;
using Float = Real<uint32_t, float, float_from_bits, bits_from_float>;
using Double = Real<uint64_t, double, double_from_bits, bits_from_double>;
using E4m3 = Real<uint8_t, float, float_from_e4m3, e4m3_from_float>;
using E5m2 = Real<uint8_t, float, float_from_e5m2, e5m2_from_float>;

/// sum, prod and avg of a floating-point type.
template <class R, ReduceOp kOp>
void reduce_real(void* dst, const void* const* src, int n, size_t count, Scale scale) {
  using Bits = typename R::Bits;
  using Value = typename R::Value;
  const int pre = kOp == ReduceOp::sum ? scale.pre_index : -1;
  const int64_t divisor = kOp == ReduceOp::avg ? scale.divisor : 1;
  if (n == 1 && pre != 0 && divisor == 1) return copy(dst, src[0], count * sizeof(Bits));
  FloatMode mode;
  const Value factor = R::decode(static_cast<Bits>(scale.factor));
  for (size_t i = 0; i < count; ++i) {
    Value result = 0;
    for (int s = 0; s < n; ++s) {
      Value operand = R::decode(read<Bits>(src[s], i));
      if (s == pre) operand = R::decode(R::encode(operand * factor));
      if (s == 0) {
        result = operand;
      } else {
        result = kOp == ReduceOp::prod ? result * operand : result + operand;
      }
    }
    if (divisor != 1) result /= static_cast<Value>(divisor);
    write(dst, i, R::encode(result));
  }
}

/// max and min of a floating-point type: NaN wins, and -0 is less than +0.
template <class R, bool kMax>
void pick_real(void* dst, const void* const* src, int n, size_t count, Scale) {
  using Bits = typename R::Bits;
  using Value = typename R::Value;
  if (n == 1) return copy(dst, src[0], count * sizeof(Bits));
  for (size_t i = 0; i < count; ++i) {
    Bits best = read<Bits>(src[0], i);
    bool nan = std::isnan(R::decode(best));
    for (int s = 1; s < n; ++s) {
      const Bits bits = read<Bits>(src[s], i);
      const Value a = R::decode(best), b = R::decode(bits);
      nan = nan || std::isnan(b);
      const bool less = a < b || (a == b && std::signbit(a) && !std::signbit(b));
      const bool greater = a > b || (a == b && !std::signbit(a) && std::signbit(b));
      if (kMax ? less : greater) best = bits;
    }
    write(dst, i, nan ? R::encode(std::numeric_limits<Value>::quiet_NaN()) : best);
  }
}

/// All operations of an integer type except avg. T is unsigned for sum and prod, so that it wraps.
template <class T, ReduceOp kOp>
void reduce_integer(void* dst, const void* const* src, int n, size_t count, Scale scale) {
  const int pre = kOp == ReduceOp::sum ? scale.pre_index : -1;
  if (n == 1 && pre != 0) return copy(dst, src[0], count * sizeof(T));
  for (size_t i = 0; i < count; ++i) {
    T result = 0;
    for (int s = 0; s < n; ++s) {
      T operand = read<T>(src[s], i);
      if (s == pre) operand = static_cast<T>(operand * static_cast<T>(scale.factor));
      if (s == 0) {
        result = operand;
      } else if (kOp == ReduceOp::sum) {
        result = static_cast<T>(result + operand);
      } else if (kOp == ReduceOp::prod) {
        result = static_cast<T>(result * operand);
      } else if (kOp == ReduceOp::max) {
        result = result < operand ? operand : result;
      } else {
        result = operand < result ? operand : result;
      }
    }
    write(dst, i, result);
  }
}

/// avg of an integer type T, whose sum cannot overflow in Wide.
template <class T, class Wide>
void average_integer(void* dst, const void* const* src, int n, size_t count, Scale scale) {
  for (size_t i = 0; i < count; ++i) {
    Wide sum = 0;
    for (int s = 0; s < n; ++s) sum += read<T>(src[s], i);
    write(dst, i, static_cast<T>(sum / static_cast<Wide>(scale.divisor)));
  }
}

template <class R>
constexpr void fill_real(ReduceFn (&row)[kReduceOps]) {
  row[static_cast<int>(ReduceOp::sum)] = reduce_real<R, ReduceOp::sum>;
  row[static_cast<int>(ReduceOp::prod)] = reduce_real<R, ReduceOp::prod>;
  row[static_cast<int>(ReduceOp::max)] = pick_real<R, true>;
  row[static_cast<int>(ReduceOp::min)] = pick_real<R, false>;
  row[static_cast<int>(ReduceOp::avg)] = reduce_real<R, ReduceOp::avg>;
  row[static_cast<int>(ReduceOp::premul_sum)] = reduce_real<R, ReduceOp::sum>;
}

template <class T, class Wide>
constexpr void fill_integer(ReduceFn (&row)[kReduceOps]) {
  using U = std::make_unsigned_t<T>;
  row[static_cast<int>(ReduceOp::sum)] = reduce_integer<U, ReduceOp::sum>;
  row[static_cast<int>(ReduceOp::prod)] = reduce_integer<U, ReduceOp::prod>;
  row[static_cast<int>(ReduceOp::max)] = reduce_integer<T, ReduceOp::max>;
  row[static_cast<int>(ReduceOp::min)] = reduce_integer<T, ReduceOp::min>;
  row[static_cast<int>(ReduceOp::avg)] = average_integer<T, Wide>;
  row[static_cast<int>(ReduceOp::premul_sum)] = reduce_integer<U, ReduceOp::sum>;
}

constexpr ReduceTable make_table() {
  ReduceTable table{"scalar", scalar_supported, {}};
  fill_integer<int8_t, int64_t>(table.fn[static_cast<int>(DataType::int8)]);
  fill_integer<uint8_t, int64_t>(table.fn[static_cast<int>(DataType::uint8)]);
  fill_integer<int32_t, int64_t>(table.fn[static_cast<int>(DataType::int32)]);
  fill_integer<uint32_t, int64_t>(table.fn[static_cast<int>(DataType::uint32)]);
  fill_integer<int64_t, Int128>(table.fn[static_cast<int>(DataType::int64)]);
  fill_integer<uint64_t, Uint128>(table.fn[static_cast<int>(DataType::uint64)]);
  fill_real<Half>(table.fn[static_cast<int>(DataType::float16)]);
  fill_real<Float>(table.fn[static_cast<int>(DataType::float32)]);
  fill_real<Double>(table.fn[static_cast<int>(DataType::float64)]);
  fill_real<Bfloat>(table.fn[static_cast<int>(DataType::bfloat16)]);
  fill_real<E4m3>(table.fn[static_cast<int>(DataType::float8e4m3)]);
  fill_real<E5m2>(table.fn[static_cast<int>(DataType::float8e5m2)]);
  return table;
}

}  // namespace

constinit const ReduceTable scalar_table = make_table();

}  // namespace ronde
