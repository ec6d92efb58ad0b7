// Arithmetic of integers.
#include <limits>
#include <type_traits>

#include <fmt/core.h>

#include "gpu-emulator/exec/integer_forms.h"

namespace emu {
namespace {

using ptx::Type;

template <class T>
using Twice = std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
                                 std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                                                    std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>>>;

struct Add {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(static_cast<Unsigned<T>>(a) + static_cast<Unsigned<T>>(b));
  }
};
struct Subtract {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(static_cast<Unsigned<T>>(a) - static_cast<Unsigned<T>>(b));
  }
};
struct AddSaturated {
  static int32_t of(int32_t a, int32_t b) {
    const int64_t sum = int64_t{a} + b;
    return static_cast<int32_t>(std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX));
  }
};
struct SubtractSaturated {
  static int32_t of(int32_t a, int32_t b) {
    const int64_t sum = int64_t{a} - b;
    return static_cast<int32_t>(std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX));
  }
};
struct MultiplyLow {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(uint64_t(a) * uint64_t(b));
  }
};
struct MultiplyHigh {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>((Twice<T>(a) * Twice<T>(b)) >> (8 * sizeof(T)));
  }
};
struct MultiplyWide {
  template <class T>
  static Twice<T> of(T a, T b) {
    return Twice<T>(Twice<T>(a) * Twice<T>(b));
  }
};
struct MultiplyAddLow {
  template <class T>
  static T of(T a, T b, T c) {
    return static_cast<T>(uint64_t(a) * uint64_t(b) + uint64_t(c));
  }
};
struct MultiplyAddHigh {
  template <class T>
  static T of(T a, T b, T c) {
    return Add::of(MultiplyHigh::of(a, b), c);
  }
};
struct MultiplyAddWide {
  template <class T>
  static Twice<T> of(T a, T b, Twice<T> c) {
    return Add::of(static_cast<Twice<T>>(MultiplyWide::of(a, b)), c);
  }
};
/// 24 bits of each factor count.
template <class T>
Twice<T> product24(T a, T b) {
  if constexpr (std::is_signed_v<T>)
    return int64_t(a << 8 >> 8) * int64_t(b << 8 >> 8);
  else
    return uint64_t(a & 0xffffff) * uint64_t(b & 0xffffff);
}
struct Multiply24Low {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(product24(a, b));
  }
};
struct Multiply24High {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(product24(a, b) >> 16);
  }
};
struct MultiplyAdd24Low {
  template <class T>
  static T of(T a, T b, T c) {
    return Add::of(static_cast<T>(product24(a, b)), c);
  }
};
/// Division by zero gives all ones, as hardware does.
struct Divide {
  template <class T>
  static T of(T a, T b) {
    if (b == 0) return static_cast<T>(~T{0});
    if constexpr (std::is_signed_v<T>)
      if (b == -1) return Subtract::of(T{0}, a);
    return static_cast<T>(a / b);
  }
};
struct Remainder {
  template <class T>
  static T of(T a, T b) {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>)
      if (b == -1) return 0;
    return static_cast<T>(a % b);
  }
};
struct Minimum {
  template <class T>
  static T of(T a, T b) {
    return a < b ? a : b;
  }
};
struct Maximum {
  template <class T>
  static T of(T a, T b) {
    return a > b ? a : b;
  }
};
struct Absolute {
  template <class T>
  static T of(T a) {
    return a < 0 ? Subtract::of(T{0}, a) : a;
  }
};
struct Negate {
  template <class T>
  static T of(T a) {
    return Subtract::of(T{0}, a);
  }
};
struct DifferenceSum {
  template <class T>
  static T of(T a, T b, T c) {
    return Add::of(c, static_cast<T>(a > b ? Subtract::of(a, b) : Subtract::of(b, a)));
  }
};
template <class Operation>
Execute unary_signed(Type type) {
  switch (type.width) {
    case 16:
      return run_unary<int16_t, int16_t, Operation>;
    case 32:
      return run_unary<int32_t, int32_t, Operation>;
    case 64:
      return run_unary<int64_t, int64_t, Operation>;
    default:
      return nullptr;
  }
}

Execute multiply_wide(Type type, bool with_add) {
  const bool is_signed = type.kind == Type::Kind::signed_;
  if (with_add) {
    switch (type.width) {
      case 16:
        return is_signed ? run_ternary<int32_t, int16_t, int16_t, int32_t, MultiplyAddWide>
                         : run_ternary<uint32_t, uint16_t, uint16_t, uint32_t, MultiplyAddWide>;
      case 32:
        return is_signed ? run_ternary<int64_t, int32_t, int32_t, int64_t, MultiplyAddWide>
                         : run_ternary<uint64_t, uint32_t, uint32_t, uint64_t, MultiplyAddWide>;
      default:
        return nullptr;
    }
  }
  switch (type.width) {
    case 16:
      return is_signed ? run_binary<int32_t, int16_t, int16_t, MultiplyWide>
                       : run_binary<uint32_t, uint16_t, uint16_t, MultiplyWide>;
    case 32:
      return is_signed ? run_binary<int64_t, int32_t, int32_t, MultiplyWide>
                       : run_binary<uint64_t, uint32_t, uint32_t, MultiplyWide>;
    default:
      return nullptr;
  }
}

/// kind: bits 0, 1: a, b are signed; count: elements of 8 bits (4), or of 16 and 8 (2, the immediate says which half).
void run_dot(Warp& warp, const Instruction& in) {
  const uint32_t *a = warp.at<uint32_t>(in.a), *b = warp.at<uint32_t>(in.b), *c = warp.at<uint32_t>(in.c);
  const auto part = [](uint32_t word, unsigned bits, unsigned at, bool is_signed) {
    const auto raw = static_cast<int64_t>(word >> at & ((1u << bits) - 1));
    return is_signed && raw >> (bits - 1) ? raw - (int64_t{1} << bits) : raw;
  };
  lanes(warp.mask, [&](unsigned i) {
    int64_t sum = c[i];
    for (unsigned k = 0; k < in.count; k++) {
      const unsigned wide = in.count == 2 ? 16 : 8;
      sum += part(a[i], wide, wide * k, in.kind & 1) * part(b[i], 8, 8 * k + static_cast<unsigned>(in.immediate), in.kind & 2);
    }
    warp.at<uint32_t>(in.d)[i] = static_cast<uint32_t>(sum);
  });
}

/// Sums with the carry of the lane. kind: bit 0 takes it, bit 1 sets it, bit 2 subtracts, bit 3 multiplies a and b first (bit 4:
/// their high half). A difference is the sum with the complement, whose carry says that nothing was borrowed: nvcc's 128-bit
/// division reads it by addc.
template <class T>
void run_carry(Warp& warp, const Instruction& in) {
  using Wide = unsigned __int128;
  lanes(warp.mask, [&](unsigned i) {
    Wide a = warp.at<T>(in.a)[i], b = warp.at<T>(in.b)[i];
    if (in.kind & 8) {
      const Wide product = a * b;
      a = static_cast<T>(in.kind & 16 ? product >> (8 * sizeof(T)) : product);
      b = warp.at<T>(in.c)[i];
    }
    const unsigned carry = in.kind & 1 ? warp.carry >> i & 1 : in.kind >> 2 & 1;
    if (in.kind & 4) b = static_cast<T>(~b);
    const Wide r = a + b + carry;
    warp.at<T>(in.d)[i] = static_cast<T>(r);
    if (in.kind & 2) warp.carry = (warp.carry & ~(1u << i)) | (static_cast<uint32_t>(r >> (8 * sizeof(T)) & 1) << i);
  });
}

bool decode_carry(Decoder& d, Instruction& in, Type type) {
  const std::string_view opcode = d.statement().opcode;
  const bool takes = opcode == "addc" || opcode == "subc" || opcode == "madc", sets = d.has("cc");
  if (!takes && !sets) return false;
  const bool product = opcode == "mad" || opcode == "madc";
  if (!product && opcode != "add" && opcode != "addc" && opcode != "sub" && opcode != "subc") return false;
  if (product && d.has("hi") && type.kind == Type::Kind::signed_)
    d.wrong("the high half of a signed product is not known with a carry");
  in.kind = static_cast<uint8_t>((takes ? 1 : 0) | (sets ? 2 : 0) | (opcode[0] == 's' ? 4 : 0) | (product ? 8 : 0) |
                                 (product && d.has("hi") ? 16 : 0));
  in.run = type.width == 64 ? run_carry<uint64_t> : run_carry<uint32_t>;
  plain_operands(d, in, type, product ? 3 : 2);
  return true;
}

bool decode_product(Decoder& d, Instruction& in, Type type) {
  const std::string_view opcode = d.statement().opcode;
  const bool add = opcode == "mad" || opcode == "mad24";
  const bool is_signed = type.kind == Type::Kind::signed_;
  if (opcode == "mul24") {
    in.run = is_signed ? (d.has("hi") ? kBinary<int32_t, Multiply24High> : kBinary<int32_t, Multiply24Low>)
                       : (d.has("hi") ? kBinary<uint32_t, Multiply24High> : kBinary<uint32_t, Multiply24Low>);
  } else if (opcode == "mad24") {
    if (d.has("hi")) d.wrong("the high half is not known");
    in.run = ternary<MultiplyAdd24Low>(Type{type.kind, 32, 1});
    if (type.width != 32) d.wrong("only 32 bits are known");
  } else if (d.has("wide")) {
    in.run = multiply_wide(type, add);
    in.d = d.result(0);
    in.a = d.source(1, type);
    in.b = d.source(2, type);
    if (add) in.c = d.source(3, Type{type.kind, static_cast<uint16_t>(type.width * 2), 1});
    return true;
  } else if (add) {
    if (d.has("sat")) d.wrong("saturation is not known");
    in.run = d.has("hi") ? ternary<MultiplyAddHigh>(type) : ternary<MultiplyAddLow>(type);
  } else {
    in.run = d.has("hi") ? binary<MultiplyHigh>(type) : binary<MultiplyLow>(type);
  }
  plain_operands(d, in, type, add ? 3 : 2);
  return true;
}

bool decode_dot(Decoder& d, Instruction& in, Type type) {
  const std::string_view opcode = d.statement().opcode;
  in.run = run_dot;
  in.count = opcode == "dp4a" ? 4 : 2;
  in.kind = static_cast<uint8_t>((type.kind == Type::Kind::signed_ ? 1 : 0) | (d.type(1).kind == Type::Kind::signed_ ? 2 : 0));
  in.immediate = d.has("hi") ? 16 : 0;
  plain_operands(d, in, ptx::type_named("u32"), 3);
  return true;
}

bool decode_arithmetic(Decoder& d, Instruction& in, Type type) {
  const std::string_view opcode = d.statement().opcode;
  if (decode_carry(d, in, type)) return true;
  if (opcode == "dp4a" || opcode == "dp2a") return decode_dot(d, in, type);
  if (opcode == "mul" || opcode == "mad" || opcode == "mul24" || opcode == "mad24") return decode_product(d, in, type);
  unsigned sources = 2;
  if (opcode == "add") {
    in.run = d.has("sat") ? kBinary<int32_t, AddSaturated> : binary<Add>(type);
  } else if (opcode == "sub") {
    in.run = d.has("sat") ? kBinary<int32_t, SubtractSaturated> : binary<Subtract>(type);
  } else if (opcode == "div") {
    in.run = binary<Divide>(type);
  } else if (opcode == "rem") {
    in.run = binary<Remainder>(type);
  } else if (opcode == "min" || opcode == "max") {
    if (d.has("relu")) d.wrong("relu of integers is not known");
    in.run = opcode == "min" ? binary<Minimum>(type) : binary<Maximum>(type);
  } else if (opcode == "sad") {
    in.run = ternary<DifferenceSum>(type);
    sources = 3;
  } else if (opcode == "abs" || opcode == "neg") {
    in.run = opcode == "abs" ? unary_signed<Absolute>(type) : unary_signed<Negate>(type);
    sources = 1;
  } else {
    return false;
  }
  plain_operands(d, in, type, sources);
  return true;
}

}  // namespace

bool decode_integer(Decoder& d, Instruction& in) {
  const Type type = d.type();
  using Kind = Type::Kind;
  if (type.kind == Kind::none || type.kind == Kind::pred || type.kind == Kind::real || type.kind == Kind::brain) return false;
  const bool known = decode_arithmetic(d, in, type);
  if (known && in.run == nullptr) d.wrong("not known for this type");
  return known;
}

}  // namespace emu
