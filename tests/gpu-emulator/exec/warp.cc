// How a warp runs: which of its groups of lanes goes on, frames, and what ends a slice.
#include "gpu-emulator/exec/warp.h"

#include <algorithm>

#include <fmt/core.h>

namespace emu {
namespace {

/// A group that polls in vain so often lets others go first: they may be those it waits for. Earlier would tear lanes apart that
/// run together well.
constexpr uint32_t kPatience = 64;
/// So often the others go first before it looks again.
constexpr uint32_t kPassedOver = 8;
constexpr uint32_t kMostLocal = 512 << 10;

}  // namespace

void Warp::begin(const Code& code, uint32_t lanes_here) {
  random = mix(launch->random + block->number * 64 + index + 1);
  live = lanes_here;
  groups.reserve(kLanes + 1);
  groups.push_back({});
  groups[0].frame = enter(code, nullptr, lanes_here);
  groups[0].pc = code.instructions.data();
  groups[0].mask = lanes_here;
  load_group();
}

uint32_t Warp::next_random() {
  random = random * 6364136223846793005ull + 1442695040888963407ull;
  return static_cast<uint32_t>(random >> 33);
}

Frame* Warp::enter(const Code& code, Frame* parent, uint32_t lanes_here) {
  std::unique_ptr<Frame> made;
  for (auto& spare : spare_frames) {
    if (spare->code != &code) continue;
    made = std::move(spare);
    spare = std::move(spare_frames.back());
    spare_frames.pop_back();
    break;
  }
  if (!made) {
    made = std::make_unique<Frame>();
    made->code = &code;
    made->registers.reset(new std::byte[code.register_bytes]);
    made->symbols = launch->symbols_of(code);
  }
  made->parent = parent;
  made->live = lanes_here;
  made->local = parent ? (parent->local + parent->code->local_bytes + 15) / 16 * 16 : 0;
  made->depth = parent ? parent->depth + 1 : 0;
  const uint32_t top = made->local + code.local_bytes;
  if (top > local_stride) {
    const uint32_t stride = std::max((top + 255) / 256 * 256, std::min(2 * local_stride, kMostLocal));
    std::vector<std::byte> grown(size_t{stride} * kLanes);
    for (size_t lane = 0; lane < kLanes && local_stride > 0; lane++)
      std::copy_n(local.begin() + static_cast<long>(lane * local_stride), local_stride,
                  grown.begin() + static_cast<long>(lane * stride));
    local = std::move(grown);
    local_stride = stride;
  }
  frames.push_back(std::move(made));
  return frames.back().get();
}

void Warp::leave(Frame* of, uint32_t lanes_here) {
  of->live &= ~lanes_here;
  if (of->live != 0) return;
  for (auto& kept : frames) {
    if (kept.get() != of) continue;
    spare_frames.push_back(std::move(kept));
    kept = std::move(frames.back());
    frames.pop_back();
    return;
  }
}

void Warp::load_group() {
  const Group& group = groups[current];
  frame = group.frame;
  pc = group.pc;
  active = group.mask;
  bases[0] = frame->registers.get();
  // Constants and symbols are only read.
  bases[1] = reinterpret_cast<std::byte*>(const_cast<uint64_t*>(frame->code->constants.data()));
  bases[2] = const_cast<std::byte*>(frame->symbols);
}

void Warp::split(uint32_t lanes_here, const Instruction* to) {
  Group other = groups[current];
  other.mask = lanes_here;
  other.pc = to;
  other.wait = Wait::ready;
  groups.push_back(other);
  groups[current].mask &= ~lanes_here;
  active &= ~lanes_here;
}

void Warp::end_lanes(uint32_t lanes_here) {
  live &= ~lanes_here;
  groups[current].mask &= ~lanes_here;
  active &= ~lanes_here;
  if (active == 0) event = Event::blocked;
}

void Warp::merge() {
  for (size_t i = 0; i < groups.size(); i++) {
    for (size_t k = i + 1; k < groups.size();) {
      if (groups[k].wait == Wait::ready && groups[i].wait == Wait::ready && groups[k].pc == groups[i].pc &&
          groups[k].frame == groups[i].frame) {
        groups[i].mask |= groups[k].mask;
        groups[i].fruitless = 0;
        groups[k] = groups.back();
        groups.pop_back();
      } else {
        k++;
      }
    }
  }
}

size_t Warp::choose() {
  const size_t none = groups.size();
  size_t best = none, pollers = 0, ready = 0;
  for (size_t i = 0; i < groups.size(); i++) {
    Group& group = groups[i];
    if (group.wait != Wait::ready) continue;
    ready++;
    if (group.fruitless >= kPatience && group.passed_over < kPassedOver) {
      group.passed_over++;
      pollers++;
      continue;
    }
    if (launch->options.any_order) {
      if (best == none || next_random() % ready == 0) best = i;
    } else if (best == none || groups[best].frame->depth < group.frame->depth ||
               (groups[best].frame->depth == group.frame->depth && group.pc < groups[best].pc)) {
      best = i;
    }
  }
  if (best == none && pollers > 0) {  // all poll: each in turn
    for (size_t i = 1; i <= groups.size() && best == none; i++)
      if (groups[(current + i) % groups.size()].wait == Wait::ready) best = (current + i) % groups.size();
  }
  if (best != none) groups[best].passed_over = 0;
  return best;
}

bool Warp::select() {
  for (;;) {
    std::erase_if(groups, [](const Group& group) { return group.mask == 0; });
    if (groups.size() > 1) merge();
    const size_t best = choose();
    if (best != groups.size()) {
      current = best;
      load_group();
      return true;
    }
    if (event == Event::fault) return false;
    if (!complete_exchanges() && !converge()) return false;
  }
}

bool Warp::complete_exchanges() {
  for (const Group& first : groups) {
    if (first.wait != Wait::lanes) continue;
    uint32_t present = 0;
    std::vector<size_t> meeting;
    for (size_t i = 0; i < groups.size(); i++) {
      if (groups[i].wait != Wait::lanes || groups[i].members != first.members) continue;
      if (groups[i].at->run != first.at->run || groups[i].at->kind != first.at->kind) continue;
      present |= groups[i].mask;
      meeting.push_back(i);
    }
    if ((present & first.members & live) != (first.members & live)) continue;
    meet(*this, meeting);
    return true;
  }
  return false;
}

bool Warp::converge() {
  const Instruction* at = nullptr;
  uint32_t waiting = 0;
  bool elsewhere = false, same = true;
  for (const Group& group : groups) {
    elsewhere |= group.wait == Wait::barrier;
    if (group.wait != Wait::warp) continue;
    same &= at == nullptr || at == group.at;
    at = group.at;
    waiting |= group.mask;
  }
  if (waiting == live && same && at != nullptr) {
    for (Group& group : groups) group.wait = Wait::ready;
    merge();
    if (groups.size() > 1) {  // the same barrier, called from several places
      for (size_t i = 0; i < groups.size(); i++) groups[i].members = ~uint32_t{0};
    }
    return true;
  }
  if (elsewhere && waiting == 0) return false;
  for (const Group& group : groups) {
    if (group.wait == Wait::ready || group.wait == Wait::barrier) continue;
    const auto lane = static_cast<unsigned>(std::countr_zero(group.mask));
    std::string others;
    for (const Group& other : groups)
      if (&other != &group)
        others += fmt::format("; lanes {:08x} at {}", other.mask, launch->place_of(*other.frame->code, *other.at));
    if (live != 0xffffffff) others += fmt::format("; lanes {:08x} have ended", ~live);
    groups[current] = group;
    load_group();
    fault(*group.at, lane,
          group.wait == Wait::warp
              ? fmt::format("divergent barrier: only lanes {:08x} of the warp reach it{}", group.mask, others)
              : fmt::format("lanes {:08x} wait for lanes {:08x}, which cannot come{}", group.mask, group.members & ~group.mask,
                            others));
    return false;
  }
  return false;
}

bool Warp::run(int budget) {
  fruitless = hopeful = false;
  if (event == Event::fault) return false;
  if ((event == Event::blocked || launch->options.any_order || groups.size() > 1) && !select()) return false;
  event = Event::none;
  while (budget > 0) {
    const Instruction* at = pc;
    while (budget-- > 0) {
      at = pc++;
      mask = active & (*this->at<uint32_t>(at->guard) ^ at->flip);
      if (mask == 0) continue;
      at->run(*this, *at);
      if (event != Event::none) break;
    }
    if (current < groups.size()) groups[current].pc = pc;
    if (event == Event::none) return true;
    if (event == Event::fault) return false;
    if (event == Event::yield) {
      Group& group = groups[current];
      if (fruitless) group.fruitless++;
      event = Event::none;
      hopeful = groups.size() > 1 && std::any_of(groups.begin(), groups.end(), [](const Group& other) {
                  return other.wait == Wait::ready && other.fruitless < kPatience;
                });
      return true;
    }
    if (!select()) {
      if (event != Event::fault) event = Event::blocked;
      return false;
    }
    event = Event::none;
  }
  return true;
}

void Warp::polled(const Instruction& in, const Addresses& addresses, uint64_t values) {
  uint64_t key = reinterpret_cast<uintptr_t>(&in) + mask;
  lanes(mask, [&](unsigned i) { key += (addresses[i] + i) * 0x9e3779b97f4a7c15ull; });
  Poll& last = polls[key >> 60];
  if (last.key == key && last.values == values && last.stores == stores) {
    fruitless = true;
    event = Event::yield;
  } else {
    groups[current].fruitless = 0;
    last = {key, values, stores};
  }
}

void Warp::fault(const Instruction& in, unsigned lane, const std::string& what) {
  if (event == Event::fault) return;
  event = Event::fault;
  if (launch->error.empty())
    launch->error = fmt::format("{}: {}; {}", launch->place_of(*this, lane), what, launch->place_of(*frame->code, in));
}

}  // namespace emu
