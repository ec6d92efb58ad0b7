// Moves, packing and unpacking, and conversions of addresses.
#include <fmt/core.h>

#include "gpu-emulator/exec/lanewise.h"

namespace emu {
namespace {

using ptx::Operand;
using ptx::Space;
using ptx::Type;

template <class T>
void run_move(Warp& warp, const Instruction& in) {
  const T* a = warp.at<T>(in.a);
  T* d = warp.at<T>(in.d);
  lanes(warp.mask, [=](unsigned i) { d[i] = a[i]; });
}

struct Wide {
  uint64_t low, high;
};

void run_move_predicate(Warp& warp, const Instruction& in) { set_predicate(warp, in.d, warp.mask, *warp.at<uint32_t>(in.a)); }

Execute move_of(unsigned bits) {
  switch (bits) {
    case 1:
      return run_move_predicate;
    case 8:
      return run_move<uint8_t>;
    case 16:
      return run_move<uint16_t>;
    case 32:
      return run_move<uint32_t>;
    case 64:
      return run_move<uint64_t>;
    default:
      return run_move<Wide>;
  }
}

/// count parts of immediate bytes each.
void run_pack(Warp& warp, const Instruction& in) {
  const auto bytes = static_cast<unsigned>(in.immediate), whole = bytes * in.count;
  std::byte made[kLanes][16];
  for (unsigned p = 0; p < in.count; p++) {
    const std::byte* part = warp.at<std::byte>(warp.entry(in, p));
    lanes(warp.mask, [&](unsigned i) { std::memcpy(made[i] + p * bytes, part + i * bytes, bytes); });
  }
  lanes(warp.mask, [&](unsigned i) { std::memcpy(warp.at<std::byte>(in.d) + i * whole, made[i], whole); });
}

void run_unpack(Warp& warp, const Instruction& in) {
  const auto bytes = static_cast<unsigned>(in.immediate), whole = bytes * in.count;
  std::byte all[kLanes][16];
  lanes(warp.mask, [&](unsigned i) { std::memcpy(all[i], warp.at<std::byte>(in.a) + i * whole, whole); });
  for (unsigned p = 0; p < in.count; p++) {
    if (warp.entry(in, p) == kNoSlot) continue;
    std::byte* part = warp.at<std::byte>(warp.entry(in, p));
    lanes(warp.mask, [&](unsigned i) { std::memcpy(part + i * bytes, all[i] + p * bytes, bytes); });
  }
}

template <class Half, class All>
void run_pack_two(Warp& warp, const Instruction& in) {
  const Half *low = warp.at<Half>(in.a), *high = warp.at<Half>(in.b);
  All* d = warp.at<All>(in.d);
  lanes(warp.mask, [=](unsigned i) { d[i] = static_cast<All>(low[i] | All{high[i]} << 8 * sizeof(Half)); });
}
template <class Half, class All>
void run_unpack_two(Warp& warp, const Instruction& in) {
  const All* a = warp.at<All>(in.a);
  Half *low = warp.at<Half>(in.d), *high = warp.at<Half>(in.e);
  lanes(warp.mask, [=](unsigned i) {
    low[i] = static_cast<Half>(a[i]);
    high[i] = static_cast<Half>(a[i] >> 8 * sizeof(Half));
  });
}

Type bits_type(unsigned bits) { return {Type::Kind::bits, static_cast<uint16_t>(bits), 1}; }

void decode_pack(Decoder& d, Instruction& in, unsigned bits) {
  const Operand& from = d.operand(1);
  in.count = static_cast<uint16_t>(from.parts.size());
  const unsigned part = bits / in.count;
  in.immediate = part / 8;
  in.d = d.result(0);
  std::vector<Slot> slots;
  for (const Operand& operand : from.parts) slots.push_back(d.source(operand, bits_type(part)));
  if (in.count == 2 && (bits == 32 || bits == 64)) {
    in.a = slots[0];
    in.b = slots[1];
    in.run = bits == 64 ? run_pack_two<uint32_t, uint64_t> : run_pack_two<uint16_t, uint32_t>;
    return;
  }
  in.list = d.list(slots);
  in.run = run_pack;
}

void decode_unpack(Decoder& d, Instruction& in, unsigned bits) {
  const Operand& to = d.operand(0);
  in.count = static_cast<uint16_t>(to.parts.size());
  const unsigned part = bits / in.count;
  in.immediate = part / 8;
  in.a = d.source(1, bits_type(bits));
  std::vector<Slot> slots;
  for (const Operand& operand : to.parts) {
    slots.push_back(d.result(operand));
    if (slots.back() != kNoSlot && d.width(operand) != part) d.wrong("a part has not its share of the bits");
  }
  // Where a part is the source itself, both are of one width, and so not these.
  if (in.count == 2 && (bits == 32 || bits == 64) && slots[0] != kNoSlot && slots[1] != kNoSlot) {
    in.d = slots[0];
    in.e = slots[1];
    in.run = bits == 64 ? run_unpack_two<uint32_t, uint64_t> : run_unpack_two<uint16_t, uint32_t>;
    return;
  }
  in.list = d.list(slots);
  in.run = run_unpack;
}

void decode_mov(Decoder& d, Instruction& in) {
  const Type type = d.type();
  if (type.kind == Type::Kind::none) return d.wrong("the type is not known");
  const unsigned bits = type.kind == Type::Kind::pred ? 1 : type.bytes() * 8;
  if (d.operand(0).kind == Operand::Kind::vector) return decode_unpack(d, in, bits);
  if (d.operand(1).kind == Operand::Kind::vector) return decode_pack(d, in, bits);
  in.run = move_of(bits);
  in.d = d.result(0);
  in.a = d.source(1, type);
  if (d.width(d.operand(0)) != bits) d.wrong("the register has not the type's bits");
}

template <class T>
void run_add_immediate(Warp& warp, const Instruction& in) {
  const T* a = warp.at<T>(in.a);
  T* d = warp.at<T>(in.d);
  const auto by = static_cast<T>(in.immediate);
  lanes(warp.mask, [=](unsigned i) { d[i] = static_cast<T>(a[i] + by); });
}

/// From the address of a space to a generic one.
void run_to_generic(Warp& warp, const Instruction& in) {
  lanes(warp.mask, [&](unsigned i) {
    const uint64_t a = in.wide ? warp.at<uint64_t>(in.a)[i] : warp.at<uint32_t>(in.a)[i];
    warp.at<uint64_t>(in.d)[i] = static_cast<uint32_t>(a) + static_cast<uint64_t>(in.immediate);
  });
}

void run_is_space(Warp& warp, const Instruction& in) {
  uint32_t yes = 0;
  lanes(warp.mask, [&](unsigned i) {
    const uint64_t window = warp.at<uint64_t>(in.a)[i] >> 56 << 56;
    const bool global = window != kSharedWindow && window != kLocalWindow && window != kParamWindow;
    yes |= uint32_t{in.immediate == 0 ? global : window == static_cast<uint64_t>(in.immediate)} << i;
  });
  set_predicate(warp, in.d, warp.mask, yes);
}

int64_t window_of(Decoder& d) {
  for (const std::string_view m : d.statement().modifiers) {
    if (m == "shared" || m == "shared::cta" || m == "shared::cluster") return static_cast<int64_t>(kSharedWindow);
    if (m == "local") return static_cast<int64_t>(kLocalWindow);
    if (m == "param" || m == "param::entry") return static_cast<int64_t>(kParamWindow);
  }
  return 0;
}

void decode_cvta(Decoder& d, Instruction& in) {
  const Type u64 = ptx::type_named("u64");
  const int64_t window = window_of(d);
  in.d = d.result(0);
  in.a = d.source(1, u64);
  in.wide = true;
  if (window == 0) {
    in.run = run_move<uint64_t>;  // global and constant addresses are generic ones
  } else if (d.has("to")) {
    in.run = run_add_immediate<uint64_t>;
    in.immediate = -window;
  } else {
    in.run = run_to_generic;
    in.immediate = window;
  }
}

}  // namespace

bool decode_move(Decoder& d, Instruction& in) {
  const std::string_view opcode = d.statement().opcode;
  if (opcode == "mov") {
    decode_mov(d, in);
  } else if (opcode == "cvta") {
    decode_cvta(d, in);
  } else if (opcode == "isspacep") {
    in.run = run_is_space;
    in.d = d.result(0);
    in.a = d.source(1, ptx::type_named("u64"));
    in.immediate = window_of(d);
  } else if (opcode == "mapa" || opcode == "getctarank") {
    d.wrong("clusters are not known");
  } else {
    return false;
  }
  return true;
}

}  // namespace emu
