// From the addresses that lanes use to the host's, with all checks.
#include <algorithm>

#include <fmt/core.h>

#include "gpu-emulator/exec/warp.h"

namespace emu {
namespace {

const char* name_of(ptx::Space space) {
  switch (space) {
    case ptx::Space::shared:
      return "shared memory";
    case ptx::Space::local:
      return "local memory";
    case ptx::Space::param:
      return "the parameters";
    default:
      return "memory";
  }
}

struct Access {
  Warp& warp;
  const Instruction& in;
  uint32_t bytes;
  Addresses& to;

  void wrong(unsigned lane, uint64_t address, const std::string& why) const {
    warp.fault(in, lane, fmt::format("an access of {} bytes at {:#x} of {}: {}", bytes, address, name_of(in.space), why));
  }

  /// In a space of `size` bytes that begins at `base`, `stride` further for each lane.
  void within(uint32_t mask, std::byte* base, uint64_t size, uint64_t stride) const {
    uint64_t largest = 0, bits = 0;
    lanes(mask, [&](unsigned i) {
      largest = std::max(largest, to[i]);
      bits |= to[i];
    });
    if (largest + bytes > size || (bits & (bytes - 1)) != 0) {
      lanes(mask, [&](unsigned i) {
        if (to[i] + bytes > size) wrong(i, to[i], fmt::format("it has {} bytes", size));
        if ((to[i] & (bytes - 1)) != 0) wrong(i, to[i], "misaligned");
      });
      return;
    }
    const auto host = reinterpret_cast<uint64_t>(base);
    lanes(mask, [&](unsigned i) { to[i] += host + i * stride; });
  }

  void shared(uint32_t mask) const {
    lanes(mask, [&](unsigned i) { to[i] = static_cast<uint32_t>(to[i]); });
    within(mask, warp.block->shared.get(), warp.launch->shared_bytes, 0);
  }
  void local(uint32_t mask) const {
    lanes(mask, [&](unsigned i) { to[i] = static_cast<uint32_t>(to[i]); });
    within(mask, warp.local.data(), warp.local_stride, warp.local_stride);
  }
  void param(uint32_t mask) const {
    lanes(mask, [&](unsigned i) { to[i] = static_cast<uint32_t>(to[i]); });
    within(mask, warp.launch->parameters.data(), warp.launch->parameters.size(), 0);
  }

  void global(uint32_t mask) const {
    uint64_t smallest = ~uint64_t{0}, largest = 0, bits = 0;
    lanes(mask, [&](unsigned i) {
      smallest = std::min(smallest, to[i]);
      largest = std::max(largest, to[i]);
      bits |= to[i];
    });
    if ((bits & (bytes - 1)) != 0) {
      lanes(mask, [&](unsigned i) {
        if ((to[i] & (bytes - 1)) != 0) wrong(i, to[i], "misaligned");
      });
      return;
    }
    Mapping& cached = warp.mapping_of(in);
    if (smallest < cached.begin || largest + bytes > cached.end || cached.generation != warp.launch->memory->generation()) {
      if (!look_up(cached, smallest, largest)) {
        one_by_one(mask);
        return;
      }
    }
    const uint64_t delta = cached.delta;
    lanes(mask, [&](unsigned i) { to[i] += delta; });
  }

  bool look_up(Mapping& cached, uint64_t smallest, uint64_t largest) const {
    const Memory& memory = *warp.launch->memory;
    const uint64_t generation = memory.generation();
    for (const Mapping& other : warp.mappings) {  // another instruction has met it
      if (smallest < other.begin || largest + bytes > other.end || other.generation != generation) continue;
      cached = other;
      return true;
    }
    const Allocation* found = memory.find(warp.launch->grid->device, smallest, largest - smallest + bytes, nullptr);
    if (found == nullptr || found->host == nullptr) return false;
    cached = {found->address, found->address + found->bytes, reinterpret_cast<uint64_t>(found->host) - found->address,
              generation};
    return true;
  }

  void one_by_one(uint32_t mask) const {
    lanes(mask, [&](unsigned i) {
      if (warp.event == Event::fault) return;
      std::string why;
      const Allocation* found = warp.launch->memory->find(warp.launch->grid->device, to[i], bytes, &why);
      if (found == nullptr) return wrong(i, to[i], why);
      if (found->host == nullptr) return wrong(i, to[i], "a multicast address, which only multimem instructions may use");
      to[i] += reinterpret_cast<uint64_t>(found->host) - found->address;
    });
  }

  void generic(uint32_t mask) const {
    uint32_t in_shared = 0, in_local = 0, in_param = 0;
    lanes(mask, [&](unsigned i) {
      const uint64_t window = to[i] >> 56 << 56;
      in_shared |= uint32_t{window == kSharedWindow} << i;
      in_local |= uint32_t{window == kLocalWindow} << i;
      in_param |= uint32_t{window == kParamWindow} << i;
    });
    if (in_shared != 0) shared(in_shared);
    if (in_local != 0) local(in_local);
    if (in_param != 0) param(in_param);
    const uint32_t rest = mask & ~(in_shared | in_local | in_param);
    if (rest != 0) global(rest);
  }
};

}  // namespace

/// Host addresses of lanes that all lie in [begin, end), in one pass; false: not all do, or one is misaligned. `address(lane)`
/// may wrap around. A difference has its sign bit set where a lane lies outside.
template <class F>
bool in_one_pass(uint32_t mask, uint64_t begin, uint64_t end, uint64_t host, uint64_t stride, uint32_t bytes, Addresses& to,
                 F address) {
  if (end - begin < bytes) return false;
  const uint64_t limit = end - begin - bytes;
  uint64_t outside = 0, bits = 0;
  const auto one = [&](unsigned i) {
    const uint64_t at = address(i), within = at - begin;
    outside |= within | (limit - within);
    bits |= at;
    to[i] = within + host + i * stride;
  };
  if (mask == ~uint32_t{0}) {
    EMU_INDEPENDENT
    for (unsigned i = 0; i < kLanes; i++) one(i);
  } else {
    lanes(mask, one);
  }
  return outside >> 63 == 0 && (bits & (bytes - 1)) == 0;
}

bool Warp::resolve_fast(const Instruction& in, uint32_t bytes, uint64_t offset, Addresses& to) {
  const uint64_t* wide = at<uint64_t>(in.a);
  const uint32_t* narrow = at<uint32_t>(in.a);
  if (in.space == ptx::Space::shared || in.space == ptx::Space::local) {
    const bool shared = in.space == ptx::Space::shared;
    const auto host = reinterpret_cast<uint64_t>(shared ? block->shared.get() : local.data());
    const uint64_t size = shared ? launch->shared_bytes : local_stride, stride = shared ? 0 : local_stride;
    if (in.wide)
      return in_one_pass(mask, 0, size, host, stride, bytes, to,
                         [=](unsigned i) { return static_cast<uint32_t>(wide[i] + offset); });
    return in_one_pass(mask, 0, size, host, stride, bytes, to,
                       [=](unsigned i) { return narrow[i] + static_cast<uint32_t>(offset); });
  }
  // All in the allocation that the instruction met last.
  const Mapping& last = mapping_of(in);
  if (!in.wide || in.space == ptx::Space::param || last.generation != launch->memory->generation()) return false;
  return in_one_pass(mask, last.begin, last.end, last.begin + last.delta, 0, bytes, to,
                     [=](unsigned i) { return wide[i] + offset; });
}

bool Warp::resolve(const Instruction& in, uint32_t bytes, Addresses& to) {
  const auto offset = static_cast<uint64_t>(in.immediate) + (in.framed ? frame->local : 0);
  if (resolve_fast(in, bytes, offset, to)) return true;
  if (in.wide) {
    const uint64_t* base = at<uint64_t>(in.a);
    lanes(mask, [&](unsigned i) { to[i] = base[i] + offset; });
  } else {
    const uint32_t* base = at<uint32_t>(in.a);
    lanes(mask, [&](unsigned i) { to[i] = base[i] + offset; });
  }
  const Access access{*this, in, bytes, to};
  switch (in.space) {
    case ptx::Space::shared:
      access.shared(mask);
      break;
    case ptx::Space::local:
      access.local(mask);
      break;
    case ptx::Space::param:
      access.param(mask);
      break;
    case ptx::Space::generic:
      access.generic(mask);
      break;
    default:
      access.global(mask);
      break;
  }
  return event != Event::fault;
}

}  // namespace emu
