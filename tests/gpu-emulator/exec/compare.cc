// Comparisons and choices.
#include <cmath>

#include <fmt/core.h>

#include "gpu-emulator/exec/floats.h"
#include "gpu-emulator/exec/lanewise.h"

namespace emu {
namespace {

using ptx::Type;

struct Equal {
  template <class T>
  static bool of(T a, T b) {
    return a == b;
  }
};
struct NotEqual {  // of numbers: false where one is NaN
  template <class T>
  static bool of(T a, T b) {
    return a < b || a > b;
  }
};
struct Less {
  template <class T>
  static bool of(T a, T b) {
    return a < b;
  }
};
struct LessEqual {
  template <class T>
  static bool of(T a, T b) {
    return a <= b;
  }
};
struct Greater {
  template <class T>
  static bool of(T a, T b) {
    return a > b;
  }
};
struct GreaterEqual {
  template <class T>
  static bool of(T a, T b) {
    return a >= b;
  }
};
struct Numbers {
  template <class T>
  static bool of(T a, T b) {
    return a == a && b == b;
  }
};
/// The forms that are true where one is NaN.
template <class Opposite>
struct Unless {
  template <class T>
  static bool of(T a, T b) {
    return !Opposite::of(a, b);
  }
};

template <class T>
auto number(T v) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Brain>)
    return to_float(v);
  else
    return v;
}

/// The lanes for which it is true; elements of a register lie `stride` apart.
template <class T, class Comparison>
uint32_t compared(Warp& warp, const Instruction& in, unsigned stride, unsigned element) {
  const T *a = warp.at<T>(in.a) + element, *b = warp.at<T>(in.b) + element;
  if (warp.mask != ~uint32_t{0} || stride != 1) {
    uint32_t yes = 0;
    lanes(warp.mask, [&](unsigned i) { yes |= uint32_t{Comparison::of(number(a[stride * i]), number(b[stride * i]))} << i; });
    return yes;
  }
  uint8_t each[kLanes];
  lanes(warp.mask, [&](unsigned i) { each[i] = Comparison::of(number(a[i]), number(b[i])); });
  uint32_t yes = 0;
  for (unsigned k = 0; k < 4; k++) {  // eight bytes to eight bits
    uint64_t bytes;
    std::memcpy(&bytes, each + 8 * k, 8);
    yes |= static_cast<uint32_t>(bytes * 0x0102040810204080ull >> 56) << 8 * k;
  }
  return yes;
}

enum Combine : uint8_t { none, with_and, with_or, with_xor };

uint32_t combined(Warp& warp, const Instruction& in, uint32_t yes) {
  if (in.kind == none) return yes;
  const uint32_t other = *warp.at<uint32_t>(in.c);
  return in.kind == with_and ? yes & other : in.kind == with_or ? yes | other : yes ^ other;
}

/// count: elements in a register.
template <class T, class Comparison>
void run_setp(Warp& warp, const Instruction& in) {
  const uint32_t yes = compared<T, Comparison>(warp, in, in.count, 0);
  set_predicate(warp, in.d, warp.mask, combined(warp, in, yes));
  if (in.e == kNoSlot) return;
  const uint32_t second = in.count == 1 ? ~yes : compared<T, Comparison>(warp, in, in.count, 1);
  set_predicate(warp, in.e, warp.mask, combined(warp, in, second));
}

/// immediate: what is true, in as many bits as the result has.
template <class T, class Comparison>
void run_set(Warp& warp, const Instruction& in) {
  const uint32_t yes = combined(warp, in, compared<T, Comparison>(warp, in, in.count, 0));
  const auto truth = static_cast<uint32_t>(in.immediate);
  if (in.count == 2) {
    const uint32_t second = combined(warp, in, compared<T, Comparison>(warp, in, 2, 1));
    lanes(warp.mask, [&](unsigned i) {
      warp.at<uint32_t>(in.d)[i] = (yes >> i & 1 ? truth & 0xffff : 0) | (second >> i & 1 ? truth << 16 : 0);
    });
  } else if (in.wide) {
    lanes(warp.mask, [&](unsigned i) { warp.at<uint32_t>(in.d)[i] = yes >> i & 1 ? truth : 0; });
  } else {
    lanes(warp.mask, [&](unsigned i) { warp.at<uint16_t>(in.d)[i] = static_cast<uint16_t>(yes >> i & 1 ? truth : 0); });
  }
}

template <class T, bool Set>
Execute for_comparison(std::string_view name) {
#define EMU_COMPARE(Comparison) (Set ? run_set<T, Comparison> : run_setp<T, Comparison>)
  if (name == "eq") return EMU_COMPARE(Equal);
  if (name == "lt" || name == "lo") return EMU_COMPARE(Less);
  if (name == "le" || name == "ls") return EMU_COMPARE(LessEqual);
  if (name == "gt" || name == "hi") return EMU_COMPARE(Greater);
  if (name == "ge" || name == "hs") return EMU_COMPARE(GreaterEqual);
  if (name == "ne") return EMU_COMPARE(NotEqual);
  if (name == "num") return EMU_COMPARE(Numbers);
  if (name == "nan") return EMU_COMPARE(Unless<Numbers>);
  if (name == "equ") return EMU_COMPARE(Unless<NotEqual>);
  if (name == "neu") return EMU_COMPARE(Unless<Equal>);
  if (name == "ltu") return EMU_COMPARE(Unless<GreaterEqual>);
  if (name == "leu") return EMU_COMPARE(Unless<Greater>);
  if (name == "gtu") return EMU_COMPARE(Unless<LessEqual>);
  if (name == "geu") return EMU_COMPARE(Unless<Less>);
#undef EMU_COMPARE
  return nullptr;
}

template <bool Set>
Execute for_type(Type type, std::string_view name) {
  using Kind = Type::Kind;
  // lo, ls, hi, hs compare as unsigned.
  const bool as_unsigned = type.kind != Kind::signed_ || name == "lo" || name == "ls" || name == "hi" || name == "hs";
  if (type.kind == Kind::brain) return for_comparison<Brain, Set>(name);
  if (type.kind == Kind::real)
    return type.width == 64   ? for_comparison<double, Set>(name)
           : type.width == 32 ? for_comparison<float, Set>(name)
                              : for_comparison<Half, Set>(name);
  switch (type.width) {
    case 16:
      return as_unsigned ? for_comparison<uint16_t, Set>(name) : for_comparison<int16_t, Set>(name);
    case 32:
      return as_unsigned ? for_comparison<uint32_t, Set>(name) : for_comparison<int32_t, Set>(name);
    case 64:
      return as_unsigned ? for_comparison<uint64_t, Set>(name) : for_comparison<int64_t, Set>(name);
    default:
      return nullptr;
  }
}

template <class T>
void run_selp(Warp& warp, const Instruction& in) {
  const T *a = warp.at<T>(in.a), *b = warp.at<T>(in.b);
  T* d = warp.at<T>(in.d);
  const uint32_t p = *warp.at<uint32_t>(in.c);
  lanes(warp.mask, [=](unsigned i) { d[i] = p >> i & 1 ? a[i] : b[i]; });
}

template <class T, class C>
void run_slct(Warp& warp, const Instruction& in) {
  lanes(warp.mask,
        [&](unsigned i) { warp.at<T>(in.d)[i] = warp.at<C>(in.c)[i] >= 0 ? warp.at<T>(in.a)[i] : warp.at<T>(in.b)[i]; });
}

template <class T>
void run_testp(Warp& warp, const Instruction& in) {
  uint32_t yes = 0;
  lanes(warp.mask, [&](unsigned i) {
    const int kind = std::fpclassify(warp.at<T>(in.a)[i]);
    bool is = false;
    switch (in.kind) {
      case 0:
        is = kind != FP_INFINITE && kind != FP_NAN;
        break;
      case 1:
        is = kind == FP_INFINITE;
        break;
      case 2:
        is = kind != FP_NAN;
        break;
      case 3:
        is = kind == FP_NAN;
        break;
      case 4:
        is = kind == FP_NORMAL;
        break;
      default:
        is = kind == FP_SUBNORMAL;
        break;
    }
    yes |= uint32_t{is} << i;
  });
  set_predicate(warp, in.d, warp.mask, yes);
}

void decode_set(Decoder& d, Instruction& in) {
  const ptx::Statement& s = d.statement();
  const bool set = s.opcode == "set";
  const Type type = d.type(set ? 1 : 0);
  if (s.modifiers.empty()) return d.wrong("the comparison is missing");
  in.run = set ? for_type<true>(type, s.modifiers[0]) : for_type<false>(type, s.modifiers[0]);
  if (in.run == nullptr) return d.wrong("not known for this comparison or type");
  in.count = type.packed;
  in.kind = d.has("and") ? with_and : d.has("or") ? with_or : d.has("xor") ? with_xor : none;
  const ptx::Operand& to = d.operand(0);
  const bool pair = to.kind == ptx::Operand::Kind::pair;
  in.d = d.result(pair ? to.parts[0] : to);
  in.e = pair ? d.result(to.parts[1]) : kNoSlot;
  in.a = d.source(1, type);
  in.b = d.source(2, type);
  if (in.kind != none) in.c = d.source(3, ptx::type_named("pred"));
  if (!set) return;
  const Type made = d.type(0);
  in.wide = made.bytes() == 4;
  if (made.kind == Type::Kind::brain)
    in.immediate = 0x3f803f80;
  else if (made.kind == Type::Kind::real)
    in.immediate = made.width == 32 ? 0x3f800000 : 0x3c003c00;
  else
    in.immediate = 0xffffffff;
}

}  // namespace

bool decode_compare(Decoder& d, Instruction& in) {
  const std::string_view opcode = d.statement().opcode;
  const Type type = d.type();
  if (opcode == "setp" || opcode == "set") {
    decode_set(d, in);
  } else if (opcode == "selp") {
    in.run = type.bytes() == 2 ? run_selp<uint16_t> : type.bytes() == 4 ? run_selp<uint32_t> : run_selp<uint64_t>;
    in.d = d.result(0);
    in.a = d.source(1, type);
    in.b = d.source(2, type);
    in.c = d.source(3, ptx::type_named("pred"));
  } else if (opcode == "slct") {
    const bool real = d.type(1).kind == Type::Kind::real;
    in.run = type.bytes() == 2   ? (real ? run_slct<uint16_t, float> : run_slct<uint16_t, int32_t>)
             : type.bytes() == 4 ? (real ? run_slct<uint32_t, float> : run_slct<uint32_t, int32_t>)
                                 : (real ? run_slct<uint64_t, float> : run_slct<uint64_t, int32_t>);
    in.d = d.result(0);
    in.a = d.source(1, type);
    in.b = d.source(2, type);
    in.c = d.source(3, d.type(1));
  } else if (opcode == "testp") {
    in.kind = d.has("finite")       ? 0
              : d.has("infinite")   ? 1
              : d.has("number")     ? 2
              : d.has("notanumber") ? 3
              : d.has("normal")     ? 4
                                    : 5;
    in.run = type.width == 64 ? run_testp<double> : run_testp<float>;
    in.d = d.result(0);
    in.a = d.source(1, type);
  } else {
    return false;
  }
  return true;
}

}  // namespace emu
