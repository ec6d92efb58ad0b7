// Functions for operations on integers of any width, shared by arithmetic and bits.
#pragma once

#include <type_traits>

#include "gpu-emulator/exec/lanewise.h"

namespace emu {

template <class T>
using Unsigned = std::make_unsigned_t<T>;

/// Two 16-bit halves of a word.
template <class Half, class Operation>
struct Halves {
  static uint32_t of(uint32_t a, uint32_t b) {
    const auto low = static_cast<uint16_t>(Operation::of(static_cast<Half>(a), static_cast<Half>(b)));
    const auto high = static_cast<uint16_t>(Operation::of(static_cast<Half>(a >> 16), static_cast<Half>(b >> 16)));
    return low | uint32_t{high} << 16;
  }
};

template <class T, class Operation>
constexpr Execute kBinary = run_binary<T, T, T, Operation>;

/// An operation of two values of the type; nullptr: not for this type.
template <class Operation>
Execute binary(ptx::Type type) {
  const bool is_signed = type.kind == ptx::Type::Kind::signed_;
  if (type.packed == 2)
    return is_signed ? kBinary<uint32_t, Halves<int16_t, Operation>> : kBinary<uint32_t, Halves<uint16_t, Operation>>;
  switch (type.width) {
    case 16:
      return is_signed ? kBinary<int16_t, Operation> : kBinary<uint16_t, Operation>;
    case 32:
      return is_signed ? kBinary<int32_t, Operation> : kBinary<uint32_t, Operation>;
    case 64:
      return is_signed ? kBinary<int64_t, Operation> : kBinary<uint64_t, Operation>;
    default:
      return nullptr;
  }
}

template <class Operation>
Execute ternary(ptx::Type type) {
  const bool is_signed = type.kind == ptx::Type::Kind::signed_;
  switch (type.width) {
    case 16:
      return is_signed ? run_ternary<int16_t, int16_t, int16_t, int16_t, Operation>
                       : run_ternary<uint16_t, uint16_t, uint16_t, uint16_t, Operation>;
    case 32:
      return is_signed ? run_ternary<int32_t, int32_t, int32_t, int32_t, Operation>
                       : run_ternary<uint32_t, uint32_t, uint32_t, uint32_t, Operation>;
    case 64:
      return is_signed ? run_ternary<int64_t, int64_t, int64_t, int64_t, Operation>
                       : run_ternary<uint64_t, uint64_t, uint64_t, uint64_t, Operation>;
    default:
      return nullptr;
  }
}

template <class Operation>
Execute unary_bits(ptx::Type type) {
  switch (type.width) {
    case 16:
      return run_unary<uint16_t, uint16_t, Operation>;
    case 32:
      return run_unary<uint32_t, uint32_t, Operation>;
    case 64:
      return run_unary<uint64_t, uint64_t, Operation>;
    default:
      return nullptr;
  }
}

}  // namespace emu
