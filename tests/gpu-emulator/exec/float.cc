// Arithmetic of floats, one or two in a register.
#include <cfenv>
#include <cmath>

#include <fmt/core.h>

#include "gpu-emulator/exec/floats.h"
#include "gpu-emulator/exec/lanewise.h"

namespace emu {
namespace {

using ptx::Type;

/// What changes a result beyond its operation.
enum Change : uint8_t { saturate = 1, flush = 2, clamp_negative = 4, keep_nan = 8, take_absolute = 16 };

template <class T>
T flushed(T v) {
  return std::fpclassify(v) == FP_SUBNORMAL ? std::copysign(T{0}, v) : v;
}

template <class T>
T changed(T v, uint8_t how) {
  if (how & flush) v = flushed(v);
  if (how & saturate) v = v > 0 ? std::min<T>(v, 1) : T{0};
  if ((how & clamp_negative) && v < 0) v = 0;
  return v;
}

// Operations on float or double. Those on 16-bit formats are done in float and rounded: exact for a sum, difference or product of
// two.
struct Add {
  template <class T>
  static T of(T a, T b) {
    return a + b;
  }
};
struct Subtract {
  template <class T>
  static T of(T a, T b) {
    return a - b;
  }
};
struct Multiply {
  template <class T>
  static T of(T a, T b) {
    return a * b;
  }
};
struct Divide {
  template <class T>
  static T of(T a, T b) {
    return a / b;
  }
};
template <class T>
using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
/// -0 is less than +0; a NaN loses. Without branches: compilers make vectors of it.
struct Minimum {
  template <class T>
  static T of(T a, T b) {
    T r = a < b ? a : b;
    r = b != b ? a : r;
    return a == b ? std::bit_cast<T>(std::bit_cast<Bits<T>>(a) | std::bit_cast<Bits<T>>(b)) : r;
  }
};
struct Maximum {
  template <class T>
  static T of(T a, T b) {
    T r = a > b ? a : b;
    r = b != b ? a : r;
    return a == b ? std::bit_cast<T>(std::bit_cast<Bits<T>>(a) & std::bit_cast<Bits<T>>(b)) : r;
  }
};
struct Negate {
  template <class T>
  static T of(T a) {
    return -a;
  }
};
struct Absolute {
  template <class T>
  static T of(T a) {
    return std::fabs(a);
  }
};
struct SquareRoot {
  template <class T>
  static T of(T a) {
    return std::sqrt(a);
  }
};
struct Reciprocal {
  template <class T>
  static T of(T a) {
    return 1 / a;
  }
};
struct ReciprocalRoot {
  template <class T>
  static T of(T a) {
    return static_cast<T>(1 / std::sqrt(static_cast<double>(a)));
  }
};
struct Exponential {
  template <class T>
  static T of(T a) {
    return std::exp2(a);
  }
};
struct Logarithm {
  template <class T>
  static T of(T a) {
    return std::log2(a);
  }
};
struct Sine {
  template <class T>
  static T of(T a) {
    return std::sin(a);
  }
};
struct Cosine {
  template <class T>
  static T of(T a) {
    return std::cos(a);
  }
};
struct HyperbolicTangent {
  template <class T>
  static T of(T a) {
    return std::tanh(a);
  }
};

template <class T>
constexpr bool kNarrow = sizeof(T) == 2;

/// One element; T is float, double, Half or Brain.
template <class Operation, class T>
T once(T a, T b, uint8_t how) {
  if constexpr (kNarrow<T>) {
    if (how & take_absolute) a.bits &= 0x7fff, b.bits &= 0x7fff;
    const float x = to_float(a), y = to_float(b);
    if ((how & keep_nan) && (x != x || y != y)) return {0x7fff};
    const float r = Operation::of(x, y);
    return from_float<T>(changed(how & flush ? flushed(r) : r, static_cast<uint8_t>(how & ~flush)));
  } else {
    if (how & flush) a = flushed(a), b = flushed(b);
    if (how & take_absolute) a = std::fabs(a), b = std::fabs(b);
    if ((how & keep_nan) && (a != a || b != b)) return canonical(a + b);
    return changed(canonical(Operation::of(a, b)), how);
  }
}

/// kind: what changes the result; count: elements in a register.
template <class Operation, class T>
void run_two(Warp& warp, const Instruction& in) {
  const T *a = warp.at<T>(in.a), *b = warp.at<T>(in.b);
  T* d = warp.at<T>(in.d);
  const uint8_t how = in.kind;
  if (how == 0 && (in.count == 1 || warp.mask == ~uint32_t{0})) {
    const auto one = [=](unsigned i) {
      if constexpr (kNarrow<T>)
        d[i] = from_float<T>(Operation::of(to_float(a[i]), to_float(b[i])));
      else
        d[i] = canonical(Operation::of(a[i], b[i]));
    };
    if (in.count == 1) return lanes(warp.mask, one);
    EMU_INDEPENDENT
    for (unsigned i = 0; i < 2 * kLanes; i++) one(i);
    return;
  }
  if (in.count == 1) {
    lanes(warp.mask, [=](unsigned i) { d[i] = once<Operation>(a[i], b[i], how); });
  } else {
    lanes(warp.mask, [=](unsigned i) {
      d[2 * i] = once<Operation>(a[2 * i], b[2 * i], how);
      d[2 * i + 1] = once<Operation>(a[2 * i + 1], b[2 * i + 1], how);
    });
  }
}

template <class T>
T fused_once(T a, T b, T c, uint8_t how) {
  if constexpr (kNarrow<T>) {
    const T r = fused(a, b, c);
    return how == 0 ? r : from_float<T>(changed(to_float(r), how));
  } else {
    if (how & flush) a = flushed(a), b = flushed(b), c = flushed(c);
    return changed(canonical(fused(a, b, c)), how);
  }
}

template <class T>
void run_fused(Warp& warp, const Instruction& in) {
  const T *a = warp.at<T>(in.a), *b = warp.at<T>(in.b), *c = warp.at<T>(in.c);
  T* d = warp.at<T>(in.d);
  const uint8_t how = in.kind;
  const unsigned n = in.count;
  lanes(warp.mask, [=](unsigned i) {
    for (unsigned k = n * i; k < n * i + n; k++) d[k] = fused_once(a[k], b[k], c[k], how);
  });
}

template <class Operation, class T>
void run_one(Warp& warp, const Instruction& in) {
  const T* a = warp.at<T>(in.a);
  T* d = warp.at<T>(in.d);
  const uint8_t how = in.kind;
  const unsigned n = in.count;
  constexpr bool kSign = std::is_same_v<Operation, Negate> || std::is_same_v<Operation, Absolute>;
  lanes(warp.mask, [=](unsigned i) {
    for (unsigned k = n * i; k < n * i + n; k++) {
      if constexpr (kNarrow<T> && kSign) {
        d[k].bits = static_cast<uint16_t>(std::is_same_v<Operation, Negate> ? a[k].bits ^ 0x8000u : a[k].bits & 0x7fffu);
      } else if constexpr (kNarrow<T>) {
        d[k] = from_float<T>(Operation::of(to_float(a[k])));
      } else if constexpr (kSign) {
        d[k] = Operation::of(how & flush ? flushed(a[k]) : a[k]);
      } else {
        d[k] = changed(canonical(static_cast<T>(Operation::of(how & flush ? flushed(a[k]) : a[k]))), how);
      }
    }
  });
}

/// With another rounding than to nearest. kind: what changes the result; immediate: the host's rounding mode; count: 0 add, 1
/// sub, 2 mul, 3 fma, 4 div, 5 sqrt, 6 rcp.
template <class T>
void run_rounded(Warp& warp, const Instruction& in) {
  const int before = std::fegetround();
  std::fesetround(static_cast<int>(in.immediate));
  lanes(warp.mask, [&](unsigned i) {
    volatile T a = warp.at<T>(in.a)[i], b = in.b == kNoSlot ? T{0} : warp.at<T>(in.b)[i],
               c = in.c == kNoSlot ? T{0} : warp.at<T>(in.c)[i];
    volatile T r;
    switch (in.count) {
      case 0:
        r = a + b;
        break;
      case 1:
        r = a - b;
        break;
      case 2:
        r = a * b;
        break;
      case 3:
        r = std::fma(T{a}, T{b}, T{c});
        break;
      case 4:
        r = a / b;
        break;
      case 5:
        r = std::sqrt(T{a});
        break;
      default:
        r = T{1} / a;
        break;
    }
    warp.at<T>(in.d)[i] = changed(canonical(T{r}), in.kind);
  });
  std::fesetround(before);
}

template <class Operation>
Execute two(Type type) {
  if (type.width == 64) return run_two<Operation, double>;
  if (type.width == 32) return run_two<Operation, float>;
  return type.kind == Type::Kind::brain ? run_two<Operation, Brain> : run_two<Operation, Half>;
}

template <class Operation>
Execute one(Type type) {
  if (type.width == 64) return run_one<Operation, double>;
  if (type.width == 32) return run_one<Operation, float>;
  return type.kind == Type::Kind::brain ? run_one<Operation, Brain> : run_one<Operation, Half>;
}

Execute fused_of(Type type) {
  if (type.width == 64) return run_fused<double>;
  if (type.width == 32) return run_fused<float>;
  return type.kind == Type::Kind::brain ? run_fused<Brain> : run_fused<Half>;
}

uint8_t changes(Decoder& d, Type type) {
  uint8_t how = 0;
  if (d.has("sat")) how |= saturate;
  if (d.has("ftz") && type.width == 32) how |= flush;
  if (d.has("relu")) how |= clamp_negative;
  if (d.has("NaN")) how |= keep_nan;
  if (d.has("xorsign")) d.wrong("xorsign is not known");
  if (d.has("oob")) d.wrong("oob is not known");
  return how;
}

bool decode_rounded(Decoder& d, Instruction& in, Type type) {
  const int mode = d.has("rz") ? FE_TOWARDZERO : d.has("rm") ? FE_DOWNWARD : d.has("rp") ? FE_UPWARD : FE_TONEAREST;
  if (mode == FE_TONEAREST) return false;
  static constexpr std::string_view kNames[] = {"add", "sub", "mul", "fma", "div", "sqrt", "rcp"};
  uint16_t which = 0;
  while (which < 7 && kNames[which] != d.statement().opcode) which++;
  if (which == 7) return false;
  if (type.width < 32 || type.packed != 1) d.wrong("this rounding is not known for this type");
  in.run = type.width == 64 ? run_rounded<double> : run_rounded<float>;
  in.count = which;
  in.immediate = mode;
  in.b = in.c = kNoSlot;
  plain_operands(d, in, type, which == 3 ? 3 : which >= 5 ? 1 : 2);
  return true;
}

Execute function_of(std::string_view opcode, Type type, unsigned* sources) {
  *sources = 2;
  if (opcode == "add") return two<Add>(type);
  if (opcode == "sub") return two<Subtract>(type);
  if (opcode == "mul") return two<Multiply>(type);
  if (opcode == "div") return two<Divide>(type);
  if (opcode == "min") return two<Minimum>(type);
  if (opcode == "max") return two<Maximum>(type);
  *sources = 3;
  if (opcode == "fma" || opcode == "mad") return fused_of(type);
  *sources = 1;
  if (opcode == "neg") return one<Negate>(type);
  if (opcode == "abs") return one<Absolute>(type);
  if (opcode == "sqrt") return one<SquareRoot>(type);
  if (opcode == "rcp") return one<Reciprocal>(type);
  if (opcode == "rsqrt") return one<ReciprocalRoot>(type);
  if (opcode == "ex2") return one<Exponential>(type);
  if (opcode == "lg2") return one<Logarithm>(type);
  if (opcode == "sin") return one<Sine>(type);
  if (opcode == "cos") return one<Cosine>(type);
  if (opcode == "tanh") return one<HyperbolicTangent>(type);
  return nullptr;
}

}  // namespace

bool decode_float(Decoder& d, Instruction& in) {
  const Type type = d.type();
  if (type.kind != Type::Kind::real && type.kind != Type::Kind::brain) return false;
  unsigned sources = 0;
  const Execute run = function_of(d.statement().opcode, type, &sources);
  if (run == nullptr) return false;
  in.kind = changes(d, type);
  if (decode_rounded(d, in, type)) return true;
  in.run = run;
  in.count = type.packed;
  if (d.has("abs")) in.kind |= take_absolute;
  if (d.type(1).kind != Type::Kind::none) d.wrong("mixed precision is not known");
  plain_operands(d, in, type, sources);
  // max and min of three values.
  if (d.operands() == 4 && sources == 2) d.wrong("the form with three values is not known");
  return true;
}

}  // namespace emu
