// Atomic updates, and memory that several devices share as one address (multimem).
#include <cstring>

#include <fmt/core.h>

#include "gpu-emulator/exec/access.h"
#include "gpu-emulator/exec/floats.h"
#include "gpu-emulator/exec/model.h"

namespace emu {

using ptx::Operand;
using ptx::Space;
using ptx::Type;

namespace {

template <class T>
T updated_number(Update how, T old, T b) {
  switch (how) {
    case Update::add:
      return static_cast<T>(old + b);
    case Update::minimum:
      return b < old ? b : old;
    default:
      return b > old ? b : old;
  }
}

uint64_t updated_float(Update how, Type type, uint64_t old, uint64_t b) {
  if (type.packed == 2) {
    const Type half{type.kind, type.width, 1};
    const uint64_t ones = (uint64_t{1} << type.width) - 1;
    return updated_float(how, half, old & ones, b & ones) |
           updated_float(how, half, old >> type.width & ones, b >> type.width & ones) << type.width;
  }
  if (type.width == 64) return std::bit_cast<uint64_t>(updated_number(how, std::bit_cast<double>(old), std::bit_cast<double>(b)));
  const auto small = [&](uint64_t bits) {
    return type.width == 32                 ? std::bit_cast<float>(static_cast<uint32_t>(bits))
           : type.kind == Type::Kind::brain ? to_float(Brain{static_cast<uint16_t>(bits)})
                                            : to_float(Half{static_cast<uint16_t>(bits)});
  };
  const float r = updated_number(how, small(old), small(b));
  if (type.width == 32) return std::bit_cast<uint32_t>(canonical(r));
  return type.kind == Type::Kind::brain ? from_float<Brain>(r).bits : from_float<Half>(r).bits;
}

int64_t sign_extended(uint64_t bits, unsigned width) { return static_cast<int64_t>(bits << (64 - width)) >> (64 - width); }

}  // namespace

uint64_t updated(Update how, Type type, uint64_t old, uint64_t b, uint64_t c) {
  switch (how) {
    case Update::exchange:
      return b;
    case Update::compare:
      return old == b ? c : old;
    case Update::and_:
      return old & b;
    case Update::or_:
      return old | b;
    case Update::xor_:
      return old ^ b;
    case Update::increment:
      return old >= b ? 0 : old + 1;
    case Update::decrement:
      return old == 0 || old > b ? b : old - 1;
    default:
      break;
  }
  if (type.kind == Type::Kind::real || type.kind == Type::Kind::brain) return updated_float(how, type, old, b);
  const unsigned bits = type.bytes() * 8;
  if (type.kind == Type::Kind::signed_)
    return static_cast<uint64_t>(updated_number(how, sign_extended(old, bits), sign_extended(b, bits)));
  return updated_number(how, old, b);
}

namespace {

Type type_of(Warp& warp, const Instruction& in) {
  const Slot word = warp.entry(in, 0);
  return {static_cast<Type::Kind>(word & 0xff), static_cast<uint16_t>(word >> 8 & 0xff), static_cast<uint8_t>(word >> 16)};
}
Slot word_of(Type type) { return static_cast<Slot>(type.kind) | Slot{type.width} << 8 | Slot{type.packed} << 16; }

template <class T>
T update_at(uint64_t host, Update how, Type type, T b, T c) {
  T* at = reinterpret_cast<T*>(host);
  T old = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(at, &old, static_cast<T>(updated(how, type, old, b, c)), false, __ATOMIC_SEQ_CST,
                                      __ATOMIC_SEQ_CST)) {
  }
  return old;
}

/// kind: the update; count: elements; lists: the type, then for each element its result, b and c.
template <class T>
void run_atomic(Warp& warp, const Instruction& in) {
  const Type type = type_of(warp, in);
  const auto how = static_cast<Update>(in.kind);
  const auto bytes = static_cast<uint32_t>(sizeof(T)) * in.count;
  Addresses at;
  if (!warp.resolve(in, bytes, at)) return;
  Model* model = in.space == Space::local ? nullptr : warp.launch->model.get();
  if (model) model->before_atomic(warp, in, at, bytes);
  bool changed = false;
  uint64_t hash = 0;
  for (unsigned k = 0; k < in.count; k++) {
    const Slot d = warp.entry(in, 1 + 3 * k);
    const T *b = warp.at<T>(warp.entry(in, 2 + 3 * k)), *c = warp.at<T>(warp.entry(in, 3 + 3 * k));
    lanes(warp.mask, [&](unsigned i) {
      const T old = update_at<T>(at[i] + k * sizeof(T), how, type, b[i], c[i]);
      changed |= static_cast<T>(updated(how, type, old, b[i], c[i])) != old;
      hash += hashed(old, i);
      if (d != kNoSlot) warp.at<T>(d)[i] = old;
    });
  }
  if (model) model->after_atomic(warp, in, at, bytes);
  if (changed)
    warp.stores++;
  else
    warp.polled(in, at, hash);
}

void decode_operands(Decoder& d, Instruction& in, Type type, Update how, bool returns) {
  size_t next = 0;
  const Operand* to = returns ? &d.operand(next++) : nullptr;
  next++;  // the address
  const Operand& b = d.operand(next++);
  const Operand* c = how == Update::compare ? &d.operand(next) : nullptr;
  const Type bits{Type::Kind::bits, static_cast<uint16_t>(type.bytes() * 8), 1};
  std::vector<Slot> slots{word_of(type)};
  for (unsigned k = 0; k < in.count; k++) {
    const bool vector = b.kind == Operand::Kind::vector;
    if (vector && (b.parts.size() != in.count || (to && to->parts.size() != in.count)))
      return d.wrong("the vector has another length than the type");
    slots.push_back(to ? d.result(vector ? to->parts[k] : *to) : kNoSlot);
    slots.push_back(d.source(vector ? b.parts[k] : b, bits));
    slots.push_back(c ? d.source(*c, bits) : slots.back());
  }
  in.list = d.list(slots);
}

}  // namespace

bool decode_update(Decoder& d, Update* how) {
  static constexpr std::pair<std::string_view, Update> kNames[] = {
      {"exch", Update::exchange}, {"cas", Update::compare}, {"add", Update::add},     {"inc", Update::increment},
      {"dec", Update::decrement}, {"min", Update::minimum}, {"max", Update::maximum}, {"and", Update::and_},
      {"or", Update::or_},        {"xor", Update::xor_}};
  for (const auto& [name, update] : kNames) {
    if (!d.has(name)) continue;
    *how = update;
    return true;
  }
  return false;
}

bool decode_atomic(Decoder& d, Instruction& in) {
  const std::string_view opcode = d.statement().opcode;
  if (opcode == "multimem") return decode_multimem(d, in);
  if (opcode != "atom" && opcode != "red") return false;
  if (d.has("async")) d.wrong("asynchronous reductions are not known");
  const Space space = decode_access(d, in);
  if (in.order == Order::weak) in.order = Order::relaxed;
  Update how{};
  if (!decode_update(d, &how)) d.wrong("the operation is not known");
  const Type type = d.type();
  in.kind = static_cast<uint8_t>(how);
  in.run = type.bytes() == 2 ? run_atomic<uint16_t> : type.bytes() == 4 ? run_atomic<uint32_t> : run_atomic<uint64_t>;
  if (type.bytes() < 2 || type.bytes() > 8) d.wrong("not known for this type");
  decode_operands(d, in, type, how, opcode == "atom");
  d.address(d.operand(opcode == "atom" ? 1 : 0), space, in);
  return true;
}

namespace {

/// The copies behind a multicast address, for one lane; empty: there was a fault.
std::vector<uint64_t> copies(Warp& warp, const Instruction& in, unsigned lane, uint32_t bytes) {
  const uint64_t address = warp.at<uint64_t>(in.a)[lane] + static_cast<uint64_t>(in.immediate);
  std::string why = "misaligned";
  const Allocation* found =
      address % bytes == 0 ? warp.launch->memory->find(warp.launch->grid->device, address, bytes, &why) : nullptr;
  if (found != nullptr && found->replicas.empty()) {
    why = "no multicast address";
    found = nullptr;
  }
  std::vector<uint64_t> hosts;
  if (found == nullptr) {
    warp.fault(in, lane, fmt::format("a multimem access of {} bytes at {:#x}: {}", bytes, address, why));
    return hosts;
  }
  for (std::byte* replica : found->replicas) hosts.push_back(reinterpret_cast<uint64_t>(replica) + (address - found->address));
  return hosts;
}

uint64_t load_bits(uint64_t host, unsigned bytes) {
  return bytes == 2 ? load_ordered<uint16_t>(host) : bytes == 4 ? load_ordered<uint32_t>(host) : load_ordered<uint64_t>(host);
}

/// Sums of 16-bit floats are made in fp32 and rounded once.
uint64_t sum_of_halves(const std::vector<uint64_t>& hosts, uint64_t offset, Type type) {
  uint64_t made = 0;
  for (unsigned e = 0; e < type.packed; e++) {
    float sum = 0;
    for (size_t h = 0; h < hosts.size(); h++) {
      const auto bits = static_cast<uint16_t>(load_bits(hosts[h] + offset, type.bytes()) >> (16 * e));
      const float v = type.kind == Type::Kind::brain ? to_float(Brain{bits}) : to_float(Half{bits});
      sum = h == 0 ? v : sum + v;
    }
    made |= uint64_t{type.kind == Type::Kind::brain ? from_float<Brain>(sum).bits : from_float<Half>(sum).bits} << (16 * e);
  }
  return made;
}

void run_load_reduce(Warp& warp, const Instruction& in) {
  const Type type = type_of(warp, in);
  const auto how = static_cast<Update>(in.kind);
  const uint32_t unit = type.bytes();
  lanes(warp.mask, [&](unsigned i) {
    if (warp.event == Event::fault) return;
    const std::vector<uint64_t> hosts = copies(warp, in, i, unit * in.count);
    for (unsigned k = 0; k < in.count && !hosts.empty(); k++) {
      uint64_t value = load_bits(hosts[0] + k * unit, unit);
      const bool floats = type.kind == Type::Kind::real || type.kind == Type::Kind::brain;
      if (floats && type.width == 16 && how == Update::add) {
        value = sum_of_halves(hosts, k * unit, type);
      } else {
        for (size_t h = 1; h < hosts.size(); h++) value = updated(how, type, value, load_bits(hosts[h] + k * unit, unit), 0);
      }
      set_value(warp, warp.entry(in, 1 + 3 * k), 8 * unit, i, value);
    }
  });
}

void run_multimem_store(Warp& warp, const Instruction& in) {
  const Type type = type_of(warp, in);
  const auto how = static_cast<Update>(in.kind);
  const uint32_t unit = type.bytes();
  warp.stores++;
  if (warp.launch->model && in.order == Order::release) warp.launch->model->fence(warp, Order::release, in.reach);
  lanes(warp.mask, [&](unsigned i) {
    if (warp.event == Event::fault) return;
    for (const uint64_t host : copies(warp, in, i, unit * in.count)) {
      for (unsigned k = 0; k < in.count; k++) {
        const uint64_t b = value_of(warp, warp.entry(in, 2 + 3 * k), 8 * unit, i);
        if (unit == 2)
          update_at<uint16_t>(host + 2 * k, how, type, static_cast<uint16_t>(b), 0);
        else if (unit == 4)
          update_at<uint32_t>(host + 4 * k, how, type, static_cast<uint32_t>(b), 0);
        else
          update_at<uint64_t>(host + 8 * k, how, type, b, 0);
      }
    }
  });
}

}  // namespace

bool decode_multimem(Decoder& d, Instruction& in) {
  decode_access(d, in);
  const bool loads = d.has("ld_reduce"), reduces = d.has("red"), stores = d.has("st");
  if (!loads && !reduces && !stores) return false;
  Update how = Update::exchange;
  if (!stores && !decode_update(d, &how)) d.wrong("the operation is not known");
  const Type type = d.type();
  if (type.bytes() < 2 || type.bytes() > 8) d.wrong("not known for this type");
  in.kind = static_cast<uint8_t>(how);
  in.run = loads ? run_load_reduce : run_multimem_store;
  if (loads) {
    const Operand& to = d.operand(0);
    std::vector<Slot> slots{word_of(type)};
    for (unsigned k = 0; k < in.count; k++) {
      slots.push_back(d.result(to.kind == Operand::Kind::vector ? to.parts.at(k) : to));
      slots.insert(slots.end(), 2, kNoSlot);
    }
    in.list = d.list(slots);
  } else {
    decode_operands(d, in, type, how, false);
  }
  d.address(d.operand(loads ? 1 : 0), Space::global, in);
  if (!in.wide) d.wrong("the address has not 64 bits");
  return true;
}

}  // namespace emu
