// Loads and stores.
#include <cstring>

#include <fmt/core.h>

#include "gpu-emulator/exec/access.h"
#include "gpu-emulator/exec/model.h"

namespace emu {
namespace {

using ptx::Operand;
using ptx::Space;
using ptx::Type;

bool ordered(const Instruction& in) { return in.order != Order::weak && in.space != Space::local && in.space != Space::param; }
bool modelled(const Warp& warp, const Instruction& in) {
  return warp.launch->model && in.space != Space::local && in.space != Space::param;
}

/// immediate bits of the element and of the register, in `kind` and `e`.
struct Element {
  unsigned bytes;
  bool is_signed;
  unsigned register_bits;
};
Element element_of(const Instruction& in) { return {1u << (in.kind & 7), (in.kind & 8) != 0, in.e}; }

uint64_t extended(uint64_t value, const Element& element) {
  const unsigned bits = 8 * element.bytes;
  if (bits < 64) value &= (uint64_t{1} << bits) - 1;
  if (element.is_signed && value >> (bits - 1) & 1) value |= bits < 64 ? ~uint64_t{0} << bits : 0;
  return value;
}

/// From bytes that lie lane by lane into registers; the hash of what was read.
uint64_t scatter(Warp& warp, const Instruction& in, const std::byte* from) {
  const Element element = element_of(in);
  const unsigned stride = element.bytes * in.count;
  uint64_t hash = 0;
  for (unsigned k = 0; k < in.count; k++) {
    const Slot slot = warp.entry(in, k);
    lanes(warp.mask, [&](unsigned i) {
      const std::byte* at = from + i * stride + k * element.bytes;
      if (element.bytes == 16) {
        if (slot != kNoSlot) std::memcpy(warp.at<std::byte>(slot) + 16 * i, at, 16);
        return;
      }
      uint64_t value = 0;
      std::memcpy(&value, at, element.bytes);
      hash += hashed(value, i + kLanes * k);
      if (slot != kNoSlot) set_value(warp, slot, element.register_bits, i, extended(value, element));
    });
  }
  return hash;
}

/// From registers into bytes that lie lane by lane.
void gather(Warp& warp, const Instruction& in, std::byte* to) {
  const Element element = element_of(in);
  const unsigned stride = element.bytes * in.count;
  for (unsigned k = 0; k < in.count; k++) {
    const Slot slot = warp.entry(in, k);
    const std::byte* from = warp.at<std::byte>(slot);
    const unsigned width = element.register_bits / 8;
    lanes(warp.mask, [&](unsigned i) { std::memcpy(to + i * stride + k * element.bytes, from + i * width, element.bytes); });
  }
}

/// Any load.
void run_load(Warp& warp, const Instruction& in) {
  const unsigned bytes = element_of(in).bytes * in.count;
  Addresses from;
  alignas(16) std::byte staged[kLanes * 32];
  if (!warp.resolve(in, bytes, from)) return;
  if (modelled(warp, in)) {
    warp.launch->model->load(warp, in, from, bytes, staged);
    if (warp.event == Event::fault) return;
  } else {
    lanes_down(warp.mask,
               [&](unsigned i) { copy_pieces(staged + i * bytes, reinterpret_cast<const std::byte*>(from[i]), bytes); });
    if (ordered(in)) __atomic_thread_fence(__ATOMIC_ACQUIRE);
  }
  const uint64_t hash = scatter(warp, in, staged);
  if (ordered(in)) warp.polled(in, from, hash);
}

/// One element of T into a register of R.
template <class T, class R>
void run_load_one(Warp& warp, const Instruction& in) {
  if (modelled(warp, in)) return run_load(warp, in);
  Addresses from;
  if (!warp.resolve(in, sizeof(T), from)) return;
  R* d = warp.at<R>(in.d);
  if (in.order == Order::weak) {
    lanes(warp.mask, [&](unsigned i) { d[i] = static_cast<R>(*reinterpret_cast<const T*>(from[i])); });
    return;
  }
  uint64_t hash = 0;
  lanes_down(warp.mask, [&](unsigned i) {
    const T value = load_ordered<T>(from[i]);
    hash += hashed(static_cast<uint64_t>(value), i);
    d[i] = static_cast<R>(value);
  });
  if (ordered(in)) warp.polled(in, from, hash);
}

using Words = uint32_t __attribute__((vector_size(16), may_alias));

/// Four lanes' vectors to four registers' lanes, or back.
void transpose(Words (&v)[4]) {
  const Words a = __builtin_shufflevector(v[0], v[1], 0, 4, 1, 5), b = __builtin_shufflevector(v[2], v[3], 0, 4, 1, 5);
  const Words c = __builtin_shufflevector(v[0], v[1], 2, 6, 3, 7), d = __builtin_shufflevector(v[2], v[3], 2, 6, 3, 7);
  v[0] = __builtin_shufflevector(a, b, 0, 1, 4, 5);
  v[1] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
  v[2] = __builtin_shufflevector(c, d, 0, 1, 4, 5);
  v[3] = __builtin_shufflevector(c, d, 2, 3, 6, 7);
}

/// Four words.
void run_load_v4(Warp& warp, const Instruction& in) {
  if (modelled(warp, in) || in.order != Order::weak) return run_load(warp, in);
  Addresses from;
  if (!warp.resolve(in, 16, from)) return;
  uint32_t* d[4];
  for (unsigned k = 0; k < 4; k++) d[k] = warp.at<uint32_t>(warp.entry(in, k));
  if (warp.mask == ~uint32_t{0}) {
    for (unsigned i = kLanes; i > 0; i -= 4) {
      Words v[4];
      for (unsigned k = 4; k-- > 0;) v[k] = *reinterpret_cast<const Words*>(from[i - 4 + k]);
      transpose(v);
      for (unsigned k = 0; k < 4; k++) std::memcpy(d[k] + i - 4, &v[k], 16);
    }
    return;
  }
  lanes_down(warp.mask, [&](unsigned i) {
    const Words piece = *reinterpret_cast<const Words*>(from[i]);
    for (unsigned k = 0; k < 4; k++) d[k][i] = piece[k];
  });
}

/// An entry's parameter, which all lanes see alike.
template <class T, class R>
void run_load_parameter(Warp& warp, const Instruction& in) {
  T value;
  std::memcpy(&value, warp.launch->parameters.data() + in.immediate, sizeof value);
  const auto extended = static_cast<R>(value);
  R* d = warp.at<R>(in.d);
  lanes(warp.mask, [=](unsigned i) { d[i] = extended; });
}

void run_store(Warp& warp, const Instruction& in) {
  const unsigned bytes = element_of(in).bytes * in.count;
  Addresses to;
  alignas(16) std::byte staged[kLanes * 32];
  if (!warp.resolve(in, bytes, to)) return;
  gather(warp, in, staged);
  if (in.space != Space::local) warp.stores++;
  if (modelled(warp, in)) return warp.launch->model->store(warp, in, to, bytes, staged);
  if (ordered(in)) __atomic_thread_fence(__ATOMIC_RELEASE);
  lanes(warp.mask, [&](unsigned i) { copy_pieces(reinterpret_cast<std::byte*>(to[i]), staged + i * bytes, bytes); });
}

template <class T, class R>
void run_store_one(Warp& warp, const Instruction& in) {
  if (modelled(warp, in)) return run_store(warp, in);
  Addresses to;
  if (!warp.resolve(in, sizeof(T), to)) return;
  if (in.space != Space::local) warp.stores++;
  const R* a = warp.at<R>(warp.entry(in, 0));
  if (in.order == Order::weak) {
    lanes(warp.mask, [&](unsigned i) { *reinterpret_cast<T*>(to[i]) = static_cast<T>(a[i]); });
  } else {
    lanes(warp.mask, [&](unsigned i) { __atomic_store_n(reinterpret_cast<T*>(to[i]), static_cast<T>(a[i]), __ATOMIC_RELEASE); });
  }
}

void run_store_v4(Warp& warp, const Instruction& in) {
  if (modelled(warp, in) || in.order != Order::weak) return run_store(warp, in);
  Addresses to;
  if (!warp.resolve(in, 16, to)) return;
  if (in.space != Space::local) warp.stores++;
  const uint32_t* a[4];
  for (unsigned k = 0; k < 4; k++) a[k] = warp.at<uint32_t>(warp.entry(in, k));
  if (warp.mask == ~uint32_t{0}) {
    for (unsigned i = 0; i < kLanes; i += 4) {
      Words v[4];
      for (unsigned k = 0; k < 4; k++) std::memcpy(&v[k], a[k] + i, 16);
      transpose(v);
      for (unsigned k = 0; k < 4; k++) *reinterpret_cast<Words*>(to[i + k]) = v[k];
    }
    return;
  }
  lanes(warp.mask, [&](unsigned i) { *reinterpret_cast<Words*>(to[i]) = Words{a[0][i], a[1][i], a[2][i], a[3][i]}; });
}

template <class T>
Execute load_one(unsigned register_bits) {
  switch (register_bits) {
    case 16:
      return run_load_one<T, uint16_t>;
    case 32:
      return run_load_one<T, uint32_t>;
    case 64:
      return run_load_one<T, uint64_t>;
    default:
      return run_load;
  }
}

template <class T>
Execute load_parameter(unsigned register_bits) {
  switch (register_bits) {
    case 16:
      return run_load_parameter<T, uint16_t>;
    case 32:
      return run_load_parameter<T, uint32_t>;
    case 64:
      return run_load_parameter<T, uint64_t>;
    default:
      return run_load;
  }
}

template <class T>
Execute store_one(unsigned register_bits) {
  switch (register_bits) {
    case 16:
      return run_store_one<T, uint16_t>;
    case 32:
      return run_store_one<T, uint32_t>;
    case 64:
      return run_store_one<T, uint64_t>;
    default:
      return run_store;
  }
}

Execute pick_load(const Instruction& in, const Element& element, bool parameter) {
#define EMU_PICK(T) (parameter ? load_parameter<T>(element.register_bits) : load_one<T>(element.register_bits))
  if (in.count == 1 && in.d != kNoSlot) {
    switch (element.bytes) {
      case 1:
        return element.is_signed ? EMU_PICK(int8_t) : EMU_PICK(uint8_t);
      case 2:
        return element.is_signed ? EMU_PICK(int16_t) : EMU_PICK(uint16_t);
      case 4:
        return element.is_signed ? EMU_PICK(int32_t) : EMU_PICK(uint32_t);
      case 8:
        return EMU_PICK(uint64_t);
      default:
        return run_load;
    }
  }
#undef EMU_PICK
  return run_load;
}

Execute pick_store(const Instruction& in, const Element& element) {
  if (in.count != 1) return run_store;
  switch (element.bytes) {
    case 1:
      return store_one<uint8_t>(element.register_bits);
    case 2:
      return store_one<uint16_t>(element.register_bits);
    case 4:
      return store_one<uint32_t>(element.register_bits);
    case 8:
      return store_one<uint64_t>(element.register_bits);
    default:
      return run_store;
  }
}

void set_element(Decoder& d, Instruction& in, Type type, unsigned register_bits) {
  in.kind = static_cast<uint8_t>(std::countr_zero(type.bytes()) | (type.kind == Type::Kind::signed_ ? 8 : 0));
  in.e = register_bits;
  if (register_bits < type.bytes() * 8) d.wrong("a register is narrower than the type");
}

void decode_load(Decoder& d, Instruction& in) {
  const Space space = decode_access(d, in);
  const Type type = d.type();
  d.address(d.operand(1), space, in);
  const Operand& to = d.operand(0);
  const std::vector<Operand> one{to};
  const std::vector<Operand>& parts = to.kind == Operand::Kind::vector ? to.parts : one;
  if (parts.size() != in.count) return d.wrong("the vector has another length than the type");
  std::vector<Slot> slots;
  unsigned register_bits = type.bytes() * 8;
  bool whole = true;
  for (const Operand& part : parts) {
    slots.push_back(d.result(part));
    whole &= slots.back() != kNoSlot;
    if (slots.back() != kNoSlot) register_bits = d.width(part);
  }
  in.list = d.list(slots);
  in.d = slots[0];
  set_element(d, in, type, register_bits);
  // The address is one of the entry itself, not one in a register.
  const bool parameter =
      in.space == Space::param && !d.is_register(Operand{Operand::Kind::name, false, d.operand(1).name, 0, 0, {}});
  in.run = pick_load(in, element_of(in), parameter);
  if (in.count == 4 && type.bytes() == 4 && register_bits == 32 && whole) in.run = run_load_v4;
}

void decode_store(Decoder& d, Instruction& in) {
  const Space space = decode_access(d, in);
  const Type type = d.type();
  d.address(d.operand(0), space, in);
  const Operand& from = d.operand(1);
  const std::vector<Operand> one{from};
  const std::vector<Operand>& parts = from.kind == Operand::Kind::vector ? from.parts : one;
  if (parts.size() != in.count) return d.wrong("the vector has another length than the type");
  unsigned register_bits = type.bytes() * 8;
  for (const Operand& part : parts)
    if (d.is_register(part)) register_bits = d.width(part);
  // Immediates take the width of the registers beside them.
  const Type as{Type::Kind::bits, static_cast<uint16_t>(register_bits), 1};
  std::vector<Slot> slots;
  for (const Operand& part : parts) slots.push_back(d.source(part, as));
  in.list = d.list(slots);
  set_element(d, in, type, register_bits);
  in.run = pick_store(in, element_of(in));
  if (in.count == 4 && type.bytes() == 4 && register_bits == 32) in.run = run_store_v4;
}

void run_fence(Warp& warp, const Instruction& in) {
  if (warp.launch->model) warp.launch->model->fence(warp, in.order, in.reach);
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
void run_nothing(Warp&, const Instruction&) {}

void decode_fence(Decoder& d, Instruction& in) {
  in.run = run_fence;
  in.order = d.has("sc") || d.statement().opcode == "membar" ? Order::sequential
             : d.has("acquire")                              ? Order::acquire
             : d.has("release")                              ? Order::release
                                                             : Order::acquire_release;
  in.reach = d.has("cta") ? Reach::block : d.has("gl") || d.has("gpu") || d.has("cluster") ? Reach::device : Reach::system;
  // Between proxies (texture, asynchronous copies, aliases): there is one here.
  for (const std::string_view m : d.statement().modifiers)
    if (m == "proxy" || m == "mbarrier_init") in.run = run_nothing;
}

}  // namespace

Space decode_access(Decoder& d, Instruction& in) {
  Space space = Space::generic;
  in.reach = Reach::device;
  for (const std::string_view m : d.statement().modifiers) {
    if (m == "global")
      space = Space::global;
    else if (m == "shared" || m == "shared::cta" || m == "shared::cluster")
      space = Space::shared;
    else if (m == "local")
      space = Space::local;
    else if (m == "const")
      space = Space::constant;
    else if (m == "param" || m == "param::entry" || m == "param::func")
      space = Space::param;
    else if (m == "volatile" || m == "cv")
      in.order = Order::volatile_, in.reach = Reach::system;
    else if (m == "relaxed" || m == "mmio")
      in.order = Order::relaxed;
    else if (m == "acquire")
      in.order = Order::acquire;
    else if (m == "release")
      in.order = Order::release;
    else if (m == "acq_rel")
      in.order = Order::acquire_release;
    else if (m == "cta")
      in.reach = Reach::block;
    else if (m == "sys")
      in.reach = Reach::system;
    else if (m == "v2")
      in.count = 2;
    else if (m == "v4")
      in.count = 4;
    else if (m == "v8")
      in.count = 8;
  }
  return space;
}

bool decode_memory(Decoder& d, Instruction& in) {
  const std::string_view opcode = d.statement().opcode;
  if (opcode == "ld" || opcode == "ldu") {
    decode_load(d, in);
  } else if (opcode == "st") {
    if (d.has("async") || d.has("bulk")) d.wrong("asynchronous stores are not known");
    decode_store(d, in);
  } else if (opcode == "fence" || opcode == "membar") {
    decode_fence(d, in);
  } else {
    return false;
  }
  if (in.run == nullptr) d.wrong("not known for this type");
  return true;
}

}  // namespace emu
