// Conversions between types.
#include <array>
#include <cmath>
#include <limits>

#include <fmt/core.h>

#include "gpu-emulator/exec/floats.h"
#include "gpu-emulator/exec/lanewise.h"

namespace emu {
namespace {

using ptx::Type;

// Integers to integers, without saturation: by far the most.
template <class D, class S, class Register>
void run_resize(Warp& warp, const Instruction& in) {
  const Register* a = warp.at<Register>(in.a);
  D* d = warp.at<D>(in.d);
  lanes(warp.mask, [=](unsigned i) { d[i] = static_cast<D>(static_cast<S>(a[i])); });
}

template <class D, class S>
Execute resize_from(unsigned register_bits) {
  switch (register_bits) {
    case 8:
      return run_resize<D, S, uint8_t>;
    case 16:
      return run_resize<D, S, uint16_t>;
    case 32:
      return run_resize<D, S, uint32_t>;
    default:
      return run_resize<D, S, uint64_t>;
  }
}

template <class D>
Execute resize_to(Type from, unsigned register_bits) {
  const bool is_signed = from.kind == Type::Kind::signed_;
  switch (from.width) {
    case 8:
      return is_signed ? resize_from<D, int8_t>(register_bits) : resize_from<D, uint8_t>(register_bits);
    case 16:
      return is_signed ? resize_from<D, int16_t>(register_bits) : resize_from<D, uint16_t>(register_bits);
    case 32:
      return is_signed ? resize_from<D, int32_t>(register_bits) : resize_from<D, uint32_t>(register_bits);
    default:
      return is_signed ? resize_from<D, int64_t>(register_bits) : resize_from<D, uint64_t>(register_bits);
  }
}

/// A result narrower than its register is extended as its own type is.
template <class Narrow>
Execute resize_narrow(Type from, unsigned source_bits, unsigned result_bits) {
  if (from.width > 8 * sizeof(Narrow))
    from = {std::is_signed_v<Narrow> ? Type::Kind::signed_ : Type::Kind::unsigned_, 8 * sizeof(Narrow), 1};
  switch (result_bits) {
    case 8:
      return resize_to<uint8_t>(from, source_bits);
    case 16:
      return resize_to<uint16_t>(from, source_bits);
    case 32:
      return resize_to<uint32_t>(from, source_bits);
    default:
      return resize_to<uint64_t>(from, source_bits);
  }
}

Execute resize(Type to, Type from, unsigned source_bits, unsigned result_bits) {
  const bool is_signed = to.kind == Type::Kind::signed_;
  switch (to.width) {
    case 8:
      return is_signed ? resize_narrow<int8_t>(from, source_bits, result_bits)
                       : resize_narrow<uint8_t>(from, source_bits, result_bits);
    case 16:
      return is_signed ? resize_narrow<int16_t>(from, source_bits, result_bits)
                       : resize_narrow<uint16_t>(from, source_bits, result_bits);
    case 32:
      return is_signed ? resize_narrow<int32_t>(from, source_bits, result_bits)
                       : resize_narrow<uint32_t>(from, source_bits, result_bits);
    default:
      return resize_narrow<uint64_t>(from, source_bits, result_bits);
  }
}

/// A conversion in words; `immediate` is its index in Code::lists with the parts below.
struct Conversion {
  Type to, from;
  unsigned source_bits = 0, result_bits = 0;  ///< of the registers
  Rounding rounding = Rounding::nearest;
  bool whole = false;  ///< round to a whole number
  bool saturate = false, relu = false, flush = false;

  std::vector<Slot> packed() const {
    const auto word = [](Type t) { return static_cast<Slot>(t.kind) | Slot{t.width} << 8; };
    return {word(to),
            word(from),
            source_bits,
            result_bits,
            static_cast<Slot>(rounding),
            Slot{whole} | Slot{saturate} << 1 | Slot{relu} << 2 | Slot{flush} << 3};
  }
  Conversion() = default;
  Conversion(Warp& warp, const Instruction& in) {
    const Slot* words = warp.frame->code->lists.data() + in.list;
    const auto type = [](Slot word) { return Type{static_cast<Type::Kind>(word & 0xff), static_cast<uint16_t>(word >> 8), 1}; };
    to = type(words[0]);
    from = type(words[1]);
    source_bits = words[2];
    result_bits = words[3];
    rounding = static_cast<Rounding>(words[4]);
    whole = words[5] & 1;
    saturate = words[5] & 2;
    relu = words[5] & 4;
    flush = words[5] & 8;
  }
};

bool is_float(Type t) { return t.kind == Type::Kind::real || t.kind == Type::Kind::brain; }

Format format_of(Type t) { return t.kind == Type::Kind::brain ? kBrain : t.width == 16 ? kHalf : kSingle; }

double read_float(uint64_t bits, Type t) {
  if (t.width == 64) return std::bit_cast<double>(bits);
  if (t.width == 32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  return t.kind == Type::Kind::brain ? to_float(Brain{static_cast<uint16_t>(bits)}) : to_float(Half{static_cast<uint16_t>(bits)});
}

uint64_t write_float(double v, Type t, Rounding rounding) {
  if (t.width == 64) return std::bit_cast<uint64_t>(canonical(v));
  return encode(v, format_of(t), rounding);
}

double to_whole(double v, Rounding rounding) {
  switch (rounding) {
    case Rounding::nearest:
      return std::nearbyint(v);
    case Rounding::zero:
      return std::trunc(v);
    case Rounding::down:
      return std::floor(v);
    case Rounding::up:
      return std::ceil(v);
    default:
      return std::round(v);
  }
}

__int128 least(Type t) { return t.kind == Type::Kind::signed_ ? -(__int128{1} << (t.width - 1)) : 0; }
__int128 most(Type t) { return (__int128{1} << (t.kind == Type::Kind::signed_ ? t.width - 1 : t.width)) - 1; }

uint64_t float_to_integer(double v, const Conversion& c) {
  if (v != v) return c.from.width != 64 && c.to.width != 64 ? 0 : uint64_t{1} << (c.to.width - 1);
  const double whole = to_whole(v, c.rounding);
  if (whole <= static_cast<double>(least(c.to))) return static_cast<uint64_t>(least(c.to));
  if (whole >= static_cast<double>(most(c.to))) return static_cast<uint64_t>(most(c.to));
  return static_cast<uint64_t>(static_cast<__int128>(whole));
}

__int128 read_integer(uint64_t bits, Type t) {
  if (t.width < 64) bits &= (uint64_t{1} << t.width) - 1;
  const bool negative = t.kind == Type::Kind::signed_ && bits >> (t.width - 1) & 1;
  return negative ? __int128{static_cast<int64_t>(bits | (t.width < 64 ? ~uint64_t{0} << t.width : 0))} : __int128{bits};
}

/// With 64 bits, more than a double holds, a double is rounded to odd, so that the rounding after it is right.
uint64_t integer_to_float(__int128 v, const Conversion& c) {
  if (c.to.width == 64) {
    double d = static_cast<double>(v);
    const auto back = static_cast<__int128>(d);
    const bool below = back<v, above = back> v;
    if (c.rounding == Rounding::zero && (v > 0 ? above : below)) d = std::nextafter(d, 0);
    if (c.rounding == Rounding::down && above) d = std::nextafter(d, -HUGE_VAL);
    if (c.rounding == Rounding::up && below) d = std::nextafter(d, HUGE_VAL);
    return std::bit_cast<uint64_t>(d);
  }
  double d = static_cast<double>(v);
  const auto back = static_cast<__int128>(d);
  auto bits = std::bit_cast<uint64_t>(d);
  if (back != v && (bits & 1) == 0) bits += (back < v) == (v > 0) ? 1 : uint64_t(-1);
  return encode(std::bit_cast<double>(bits), format_of(c.to), c.rounding);
}

uint64_t convert_one(uint64_t bits, const Conversion& c) {
  if (!is_float(c.from)) {
    const __int128 v = read_integer(bits, c.from);
    if (is_float(c.to)) return integer_to_float(v, c);
    return static_cast<uint64_t>(c.saturate ? std::clamp(v, least(c.to), most(c.to)) : v);
  }
  double v = read_float(bits, c.from);
  if (c.flush && std::fabs(v) < 0x1p-126) v = std::copysign(0.0, v);
  if (!is_float(c.to)) return float_to_integer(v, c);
  if (c.whole) v = to_whole(v, c.rounding);
  if (c.saturate) v = v > 0 ? std::min(v, 1.0) : 0.0;
  if (c.relu && v < 0) v = 0;
  return write_float(v, c.to, c.rounding);
}

/// Results narrower than their registers are extended.
void put(Warp& warp, const Conversion& c, Slot slot, unsigned lane, uint64_t value) {
  if (!is_float(c.to) && c.to.width < c.result_bits) value = static_cast<uint64_t>(read_integer(value, c.to));
  set_value(warp, slot, c.result_bits, lane, value);
}

void run_convert(Warp& warp, const Instruction& in) {
  const Conversion c(warp, in);
  lanes(warp.mask, [&](unsigned i) { put(warp, c, in.d, i, convert_one(value_of(warp, in.a, c.source_bits, i), c)); });
}

// The ways between fp32 and 16 bits, which reductions spend their time in.
template <class T>
void run_widen(Warp& warp, const Instruction& in) {
  const T* a = warp.at<T>(in.a);
  float* d = warp.at<float>(in.d);
  lanes(warp.mask, [=](unsigned i) { d[i] = to_float(a[i]); });
}
template <class T>
void run_narrow(Warp& warp, const Instruction& in) {
  const float* a = warp.at<float>(in.a);
  T* d = warp.at<T>(in.d);
  lanes(warp.mask, [=](unsigned i) { d[i] = from_float<T>(a[i]); });
}
/// a goes to the upper half, b to the lower.
template <class T>
void run_narrow_two(Warp& warp, const Instruction& in) {
  const float *a = warp.at<float>(in.a), *b = warp.at<float>(in.b);
  T* d = warp.at<T>(in.d);
  lanes(warp.mask, [=](unsigned i) {
    const T high = from_float<T>(a[i]), low = from_float<T>(b[i]);
    d[2 * i] = low;
    d[2 * i + 1] = high;
  });
}

// Two elements in a register. kind: bit 0 relu, bit 1 saturates to finite; immediate: the rounding.

enum Small : uint8_t { e4m3, e5m2, half, brain };
Format format_of(uint8_t which) { return which == e4m3 ? kE4m3 : which == e5m2 ? kE5m2 : which == half ? kHalf : kBrain; }

uint32_t encode_small(float v, uint8_t which, const Instruction& in) {
  if (which <= e5m2 && in.immediate == 0 && (in.kind & 1) == 0)
    return which == e4m3 ? to_byte<4, 3>(v, in.kind & 2) : to_byte<5, 2>(v, in.kind & 2);
  if ((in.kind & 1) && !(v > 0)) v = v != v ? v : 0.0;
  const uint32_t bits = encode(v, format_of(which), static_cast<Rounding>(in.immediate), in.kind & 2);
  if (v == v) return bits;
  return which == e4m3 || which == e5m2 ? 0x7f : 0x7fff;
}

/// Two floats to two small ones; `count`: the format; a is the upper one.
void run_pack_floats(Warp& warp, const Instruction& in) {
  const unsigned bits = in.count <= e5m2 ? 8 : 16;
  lanes(warp.mask, [&](unsigned i) {
    const uint32_t high = encode_small(warp.at<float>(in.a)[i], static_cast<uint8_t>(in.count), in);
    const uint32_t low = encode_small(warp.at<float>(in.b)[i], static_cast<uint8_t>(in.count), in);
    set_value(warp, in.d, 2 * bits, i, high << bits | low);
  });
}

/// Two halves (or brain floats, wide) to two bytes.
void run_pack_halves(Warp& warp, const Instruction& in) {
  const auto widened = [&](uint16_t bits) { return in.wide ? to_float(Brain{bits}) : to_float(Half{bits}); };
  lanes(warp.mask, [&](unsigned i) {
    const uint32_t both = warp.at<uint32_t>(in.a)[i];
    const uint32_t low = encode_small(widened(static_cast<uint16_t>(both)), static_cast<uint8_t>(in.count), in);
    const uint32_t high = encode_small(widened(static_cast<uint16_t>(both >> 16)), static_cast<uint8_t>(in.count), in);
    warp.at<uint16_t>(in.d)[i] = static_cast<uint16_t>(high << 8 | low);
  });
}

/// All values of a byte in a 16-bit format.
using Bytes = std::array<uint16_t, 256>;
Bytes bytes_in(Format from, Format to) {
  Bytes made{};
  for (uint32_t byte = 0; byte < 256; byte++) {
    const double v = decode(byte, from);
    made[byte] = static_cast<uint16_t>(v != v ? 0x7fff : encode(v, to, Rounding::nearest));
  }
  return made;
}

/// Two bytes to two halves (or brain floats, wide).
void run_unpack_halves(Warp& warp, const Instruction& in) {
  static const Bytes tables[2][2] = {{bytes_in(kE4m3, kHalf), bytes_in(kE5m2, kHalf)},
                                     {bytes_in(kE4m3, kBrain), bytes_in(kE5m2, kBrain)}};
  const Bytes& table = tables[in.wide][in.count];
  const auto one = [&](uint32_t byte) {
    return in.kind & 1 && byte > 0x80 && table[byte] != 0x7fff ? uint32_t{0} : uint32_t{table[byte]};
  };
  lanes(warp.mask, [&](unsigned i) {
    const uint32_t both = warp.at<uint16_t>(in.a)[i];
    warp.at<uint32_t>(in.d)[i] = one(both >> 8) << 16 | one(both & 0xff);
  });
}

Rounding rounding_of(Decoder& d) {
  if (d.has("rz") || d.has("rzi")) return Rounding::zero;
  if (d.has("rm") || d.has("rmi")) return Rounding::down;
  if (d.has("rp") || d.has("rpi")) return Rounding::up;
  if (d.has("rna")) return Rounding::away;
  if (d.has("rs")) d.wrong("stochastic rounding is not known");
  return Rounding::nearest;
}

bool decode_packed(Decoder& d, Instruction& in) {
  const auto small = [&](std::string_view name) -> int {
    return name == "e4m3x2" ? e4m3 : name == "e5m2x2" ? e5m2 : name == "f16x2" ? half : name == "bf16x2" ? brain : -1;
  };
  std::vector<std::string_view> types;
  for (const std::string_view modifier : d.statement().modifiers)
    if (small(modifier) >= 0 || ptx::type_named(modifier).kind != Type::Kind::none) types.push_back(modifier);
  if (types.size() != 2 || (small(types[0]) < 0 && small(types[1]) < 0)) return false;
  const int to = small(types[0]), from = small(types[1]);
  in.kind = static_cast<uint8_t>((d.has("relu") ? 1 : 0) | (d.has("satfinite") ? 2 : 0));
  in.immediate = static_cast<int64_t>(rounding_of(d));
  in.d = d.result(0);
  if (types[1] == "f32") {
    in.a = d.source(1, ptx::type_named("f32"));
    in.b = d.source(2, ptx::type_named("f32"));
    in.count = static_cast<uint16_t>(to);
    in.run = run_pack_floats;
    if (in.kind == 0 && in.immediate == 0 && to == half) in.run = run_narrow_two<Half>;
    if (in.kind == 0 && in.immediate == 0 && to == brain) in.run = run_narrow_two<Brain>;
  } else if ((to == e4m3 || to == e5m2) && from >= half) {
    in.a = d.source(1, ptx::type_named("b32"));
    in.count = static_cast<uint16_t>(to);
    in.wide = from == brain;
    in.run = run_pack_halves;
  } else if (to >= half && (from == e4m3 || from == e5m2)) {
    in.a = d.source(1, ptx::type_named("b16"));
    in.count = static_cast<uint16_t>(from);
    in.wide = to == brain;
    in.run = run_unpack_halves;
  } else {
    d.wrong("this conversion of pairs is not known");
  }
  return true;
}

void run_tensor_float(Warp& warp, const Instruction& in) {
  lanes(warp.mask, [&](unsigned i) {
    warp.at<uint32_t>(in.d)[i] = encode(warp.at<float>(in.a)[i], kTensor, static_cast<Rounding>(in.immediate)) << 13;
  });
}

Execute fast_conversion(const Conversion& c) {
  if (c.saturate || c.relu || c.flush || c.rounding != Rounding::nearest || c.whole) return nullptr;
  const bool brain_from = c.from.kind == Type::Kind::brain, brain_to = c.to.kind == Type::Kind::brain;
  if (c.to == ptx::type_named("f32") && c.from.width == 16 && is_float(c.from))
    return brain_from ? run_widen<Brain> : run_widen<Half>;
  if (c.from == ptx::type_named("f32") && c.to.width == 16 && is_float(c.to))
    return brain_to ? run_narrow<Brain> : run_narrow<Half>;
  return nullptr;
}

void decode_cvt(Decoder& d, Instruction& in) {
  if (d.has("tf32")) {
    in.run = run_tensor_float;
    in.immediate = static_cast<int64_t>(rounding_of(d));
    in.d = d.result(0);
    in.a = d.source(1, ptx::type_named("f32"));
    return;
  }
  if (decode_packed(d, in)) return;
  Conversion c;
  c.to = d.type(0);
  c.from = d.type(1);
  if (c.from.kind == Type::Kind::none) return d.wrong("this conversion is not known");
  c.rounding = rounding_of(d);
  c.whole = d.has("rni") || d.has("rzi") || d.has("rmi") || d.has("rpi");
  c.saturate = d.has("sat");
  c.relu = d.has("relu");
  c.flush = d.has("ftz");
  c.source_bits = d.width(d.operand(1));
  c.result_bits = d.width(d.operand(0));
  in.d = d.result(0);
  if (c.source_bits == 0) {  // an immediate
    c.source_bits = c.from.width;
    in.a = d.source(1, c.from);
  } else {
    in.a = d.result(1);
  }
  if (!is_float(c.to) && !is_float(c.from) && !c.saturate) {
    in.run = resize(c.to, c.from, c.source_bits, c.result_bits);
  } else if (const Execute fast = fast_conversion(c); fast != nullptr) {
    in.run = fast;
  } else {
    in.run = run_convert;
    in.list = d.list(c.packed());
  }
}

}  // namespace

bool decode_convert(Decoder& d, Instruction& in) {
  if (d.statement().opcode != "cvt") return false;
  decode_cvt(d, in);
  return true;
}

}  // namespace emu
