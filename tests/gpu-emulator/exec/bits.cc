// Bits: logic, shifts, fields, counts and permutations.
#include <fmt/core.h>

#include "gpu-emulator/exec/integer_forms.h"

namespace emu {
namespace {

using ptx::Type;

struct And {
  template <class T>
  static T of(T a, T b) {
    return a & b;
  }
};
struct Or {
  template <class T>
  static T of(T a, T b) {
    return a | b;
  }
};
struct Xor {
  template <class T>
  static T of(T a, T b) {
    return a ^ b;
  }
};
struct Not {
  template <class T>
  static T of(T a) {
    return static_cast<T>(~a);
  }
};
struct NotLogical {
  template <class T>
  static T of(T a) {
    return a == 0;
  }
};
struct ShiftLeft {
  template <class T>
  static T of(T a, uint32_t b) {
    return b >= 8 * sizeof(T) ? T{0} : static_cast<T>(uint64_t(a) << b);
  }
};
struct ShiftRight {
  template <class T>
  static T of(T a, uint32_t b) {
    return static_cast<T>(a >> (b >= 8 * sizeof(T) ? 8 * sizeof(T) - 1 : b) >> (b >= 8 * sizeof(T) ? 1 : 0));
  }
};
struct CountOnes {
  template <class T>
  static uint32_t of(T a) {
    return static_cast<uint32_t>(std::popcount(a));
  }
};
struct CountLeadingZeros {
  template <class T>
  static uint32_t of(T a) {
    return static_cast<uint32_t>(std::countl_zero(a));
  }
};
struct Reverse {
  template <class T>
  static T of(T a) {
    constexpr T kAll = static_cast<T>(~T{0});
    for (unsigned by = 4 * sizeof(T); by > 0; by /= 2) {  // halves, quarters, ... change places
      const T low = static_cast<T>(kAll / ((T{1} << by) + 1));
      a = static_cast<T>((a >> by & low) | (a & low) << by);
    }
    return a;
  }
};
/// The highest bit that differs from the sign; ~0: none.
struct FindHighest {
  template <class T>
  static uint32_t of(T a) {
    if constexpr (std::is_signed_v<T>)
      if (a < 0) a = static_cast<T>(~a);
    return a == 0
               ? ~0u
               : static_cast<uint32_t>(8 * sizeof(T) - 1) - static_cast<uint32_t>(std::countl_zero(static_cast<Unsigned<T>>(a)));
  }
};
struct FindHighestShift {
  template <class T>
  static uint32_t of(T a) {
    const uint32_t found = FindHighest::of(a);
    return found == ~0u ? found : static_cast<uint32_t>(8 * sizeof(T) - 1) - found;
  }
};
struct ExtractField {
  template <class T>
  static T of(T a, uint32_t position, uint32_t length) {
    constexpr uint32_t kBits = 8 * sizeof(T);
    position &= 0xff;
    length &= 0xff;
    T result = 0;
    bool sign = false;
    if constexpr (std::is_signed_v<T>) sign = length != 0 && (a >> std::min(position + length - 1, kBits - 1) & 1) != 0;
    for (uint32_t i = 0; i < kBits; i++) {
      const bool bit = i < length && position + i < kBits ? (a >> (position + i) & 1) != 0 : sign;
      result = static_cast<T>(result | static_cast<T>(uint64_t{bit} << i));
    }
    return result;
  }
};
struct FunnelLeft {
  static uint32_t of(uint32_t low, uint32_t high, uint32_t by) {
    return static_cast<uint32_t>((uint64_t{high} << 32 | low) << (by & 31) >> 32);
  }
};
struct FunnelRight {
  static uint32_t of(uint32_t low, uint32_t high, uint32_t by) {
    return static_cast<uint32_t>((uint64_t{high} << 32 | low) >> (by & 31));
  }
};
struct FunnelLeftClamped {
  static uint32_t of(uint32_t low, uint32_t high, uint32_t by) { return by >= 32 ? low : FunnelLeft::of(low, high, by); }
};
struct FunnelRightClamped {
  static uint32_t of(uint32_t low, uint32_t high, uint32_t by) { return by >= 32 ? high : FunnelRight::of(low, high, by); }
};
struct Permute {
  static uint32_t of(uint32_t a, uint32_t b, uint32_t selector) {
    const uint64_t bytes = uint64_t{b} << 32 | a;
    uint32_t r = 0;
    for (unsigned i = 0; i < 4; i++) {
      const unsigned s = selector >> 4 * i & 15;
      uint32_t byte = bytes >> 8 * (s & 7) & 0xff;
      if (s & 8) byte = byte & 0x80 ? 0xff : 0;
      r |= byte << 8 * i;
    }
    return r;
  }
};
template <class Operation>
Execute counting(Type type) {
  const bool is_signed = type.kind == Type::Kind::signed_;
  if constexpr (std::is_same_v<Operation, FindHighest> || std::is_same_v<Operation, FindHighestShift>)
    if (is_signed) return type.width == 64 ? run_unary<uint32_t, int64_t, Operation> : run_unary<uint32_t, int32_t, Operation>;
  return type.width == 64 ? run_unary<uint32_t, uint64_t, Operation> : run_unary<uint32_t, uint32_t, Operation>;
}

template <class Operation>
Execute shift(Type type, bool is_signed) {
  switch (type.width) {
    case 16:
      return is_signed ? run_binary<int16_t, int16_t, uint32_t, Operation> : run_binary<uint16_t, uint16_t, uint32_t, Operation>;
    case 32:
      return is_signed ? run_binary<int32_t, int32_t, uint32_t, Operation> : run_binary<uint32_t, uint32_t, uint32_t, Operation>;
    case 64:
      return is_signed ? run_binary<int64_t, int64_t, uint32_t, Operation> : run_binary<uint64_t, uint64_t, uint32_t, Operation>;
    default:
      return nullptr;
  }
}

template <class Operation>
void run_predicates(Warp& warp, const Instruction& in) {
  set_predicate(warp, in.d, warp.mask, Operation::of(*warp.at<uint32_t>(in.a), *warp.at<uint32_t>(in.b)));
}
void run_not(Warp& warp, const Instruction& in) { set_predicate(warp, in.d, warp.mask, ~*warp.at<uint32_t>(in.a)); }

/// The table's bit for each combination of a, b and c is the immediate.
template <class T>
void run_lop3(Warp& warp, const Instruction& in) {
  T* d = warp.at<T>(in.d);
  const T *a = warp.at<T>(in.a), *b = warp.at<T>(in.b), *c = warp.at<T>(in.c);
  T terms[8];
  for (int k = 0; k < 8; k++) terms[k] = in.immediate >> k & 1 ? static_cast<T>(~T{0}) : T{0};
  lanes(warp.mask, [&](unsigned i) {
    const T x = a[i], y = b[i], z = c[i];
    const T low = (~y & ~z & terms[0]) | (~y & z & terms[1]) | (y & ~z & terms[2]) | (y & z & terms[3]);
    const T high = (~y & ~z & terms[4]) | (~y & z & terms[5]) | (y & ~z & terms[6]) | (y & z & terms[7]);
    d[i] = (~x & low) | (x & high);
  });
}

template <class T>
void run_insert_field(Warp& warp, const Instruction& in) {
  const T *a = warp.at<T>(in.a), *b = warp.at<T>(in.b);
  const uint32_t *position = warp.at<uint32_t>(in.c), *length = warp.at<uint32_t>(warp.entry(in, 0));
  T* d = warp.at<T>(in.d);
  constexpr uint32_t kBits = 8 * sizeof(T);
  lanes(warp.mask, [&](unsigned i) {
    const uint32_t at = position[i] & 0xff, n = length[i] & 0xff;
    const T ones = n >= kBits ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << n) - 1);
    const T field = at >= kBits ? T{0} : static_cast<T>(ones << at);
    d[i] = at >= kBits ? b[i] : static_cast<T>((b[i] & ~field) | (static_cast<T>(a[i] << at) & field));
  });
}

bool decode_logic(Decoder& d, Instruction& in, Type type) {
  const std::string_view opcode = d.statement().opcode;
  const bool predicate = type.kind == Type::Kind::pred;
  unsigned sources = 2;
  if (opcode == "and") {
    in.run = predicate ? run_predicates<And> : binary<And>(type);
  } else if (opcode == "or") {
    in.run = predicate ? run_predicates<Or> : binary<Or>(type);
  } else if (opcode == "xor") {
    in.run = predicate ? run_predicates<Xor> : binary<Xor>(type);
  } else if (opcode == "not" || opcode == "cnot") {
    in.run = predicate ? run_not : opcode == "not" ? unary_bits<Not>(type) : unary_bits<NotLogical>(type);
    sources = 1;
  } else if (opcode == "brev") {
    in.run = unary_bits<Reverse>(type);
    sources = 1;
  } else if (opcode == "popc" || opcode == "clz") {
    in.run = opcode == "popc" ? counting<CountOnes>(type) : counting<CountLeadingZeros>(type);
    sources = 1;
  } else if (opcode == "bfind") {
    in.run = d.has("shiftamt") ? counting<FindHighestShift>(type) : counting<FindHighest>(type);
    sources = 1;
  } else if (opcode == "prmt") {
    if (d.statement().modifiers.size() != 1) d.wrong("the modes are not known");
    in.run = run_ternary<uint32_t, uint32_t, uint32_t, uint32_t, Permute>;
    sources = 3;
  } else if (opcode == "lop3") {
    if (d.operands() != 5) d.wrong("the form with a predicate is not known");
    in.run = run_lop3<uint32_t>;
    in.immediate = static_cast<int64_t>(d.operand(4).bits);
    sources = 3;
  } else if (opcode == "shf") {
    const bool left = d.has("l"), wrap = d.has("wrap");
    in.run = left ? (wrap ? run_ternary<uint32_t, uint32_t, uint32_t, uint32_t, FunnelLeft>
                          : run_ternary<uint32_t, uint32_t, uint32_t, uint32_t, FunnelLeftClamped>)
                  : (wrap ? run_ternary<uint32_t, uint32_t, uint32_t, uint32_t, FunnelRight>
                          : run_ternary<uint32_t, uint32_t, uint32_t, uint32_t, FunnelRightClamped>);
    sources = 3;
  } else {
    return false;
  }
  plain_operands(d, in, type, sources);
  return true;
}

/// Those whose operands differ in type.
bool decode_fields(Decoder& d, Instruction& in, Type type) {
  const std::string_view opcode = d.statement().opcode;
  const Type u32 = ptx::type_named("u32");
  const bool is_signed = type.kind == Type::Kind::signed_;
  if (opcode == "shl" || opcode == "shr") {
    in.run = opcode == "shl" ? shift<ShiftLeft>(type, false) : shift<ShiftRight>(type, is_signed);
    in.d = d.result(0);
    in.a = d.source(1, type);
    in.b = d.source(2, u32);
  } else if (opcode == "bfe") {
    in.run = type.width == 64 ? (is_signed ? run_ternary<int64_t, int64_t, uint32_t, uint32_t, ExtractField>
                                           : run_ternary<uint64_t, uint64_t, uint32_t, uint32_t, ExtractField>)
                              : (is_signed ? run_ternary<int32_t, int32_t, uint32_t, uint32_t, ExtractField>
                                           : run_ternary<uint32_t, uint32_t, uint32_t, uint32_t, ExtractField>);
    in.d = d.result(0);
    in.a = d.source(1, type);
    in.b = d.source(2, u32);
    in.c = d.source(3, u32);
  } else if (opcode == "bfi") {
    in.run = type.width == 64 ? run_insert_field<uint64_t> : run_insert_field<uint32_t>;
    in.d = d.result(0);
    in.a = d.source(1, type);
    in.b = d.source(2, type);
    in.c = d.source(3, u32);
    in.list = d.list({d.source(4, u32)});
  } else {
    return false;
  }
  return true;
}

}  // namespace

bool decode_bits(Decoder& d, Instruction& in) {
  const Type type = d.type();
  if (type.kind == Type::Kind::none || type.kind == Type::Kind::real || type.kind == Type::Kind::brain) return false;
  const bool known = (type.kind != Type::Kind::pred && decode_fields(d, in, type)) || decode_logic(d, in, type);
  if (known && in.run == nullptr) d.wrong("not known for this type");
  return known;
}

}  // namespace emu
