// Races: accesses of which one is an ordinary one and one writes, and that no chain of releases and acquires, barriers, or ends
// and beginnings of launches orders. Each warp has a vector clock; lanes of one warp are not told apart. What a host or another
// process writes is not seen: who acquires a value that nobody here has stored there is taken to be ordered after all others.
#include <algorithm>
#include <array>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <fmt/core.h>

#include "gpu-emulator/exec/access.h"
#include "gpu-emulator/exec/model.h"

namespace emu {
namespace {

/// How far each warp's time was known, by the warps' slots.
using Clock = std::vector<uint32_t>;

void join(Clock& to, const Clock& from) {
  if (to.size() < from.size()) to.resize(from.size());
  for (size_t i = 0; i < from.size(); i++) to[i] = std::max(to[i], from[i]);
}
uint32_t at(const Clock& clock, uint32_t slot) { return slot < clock.size() ? clock[slot] : 0; }

/// An access that was last seen at a word.
struct Seen {
  uint32_t slot = 0, time = 0;
  uint8_t bytes = 0;  ///< which of the word's eight
  bool write = false, strong = false;
  const Instruction* in = nullptr;
  const Code* code = nullptr;
  uint64_t launch = 0;
  uint64_t sequence = 0;  ///< of all accesses that are watched
};
using Word = std::array<Seen, 6>;

/// What a place for synchronisation was last given.
struct Released {
  Clock clock;
  uint64_t value = 0;
  bool known = false;  ///< the value was stored here, or read before
  Reach reach = Reach::system;
  uint64_t launch = 0;
  uint32_t block = 0;
  int device = 0;
};

/// What all launches of the process share.
struct World {
  std::mutex mutex;
  Clock host;  ///< of all launches that have ended
  std::vector<uint32_t> times;
  std::vector<uint32_t> spare_slots;
  std::unordered_map<uint64_t, Word> words;
  std::unordered_map<uint64_t, Released> released;
  std::unordered_map<uint64_t, Launch*> launches;
  uint64_t next_launch = 1;
  uint64_t sequence = 0;
};
World& world() {
  static World* const one = new World;
  return *one;
}

/// A warp's state.
struct Watched {
  uint32_t slot = 0;
  Clock clock;
  Clock fence;    ///< what its last releasing fence covers
  Clock pending;  ///< what its relaxed loads have seen and a fence would acquire
  bool fenced = false;
  Reach fence_reach = Reach::block;
};

class RaceModel : public Model {
 public:
  RaceModel(Launch& launch, std::unique_ptr<Model> inner) : launch_(launch), inner_(std::move(inner)) {
    const std::lock_guard lock(world().mutex);
    id_ = world().next_launch++;
    world().launches[id_] = &launch;
    begin_ = world().host;
  }

  ~RaceModel() override {
    World& w = world();
    const std::lock_guard lock(w.mutex);
    for (auto& [key, warp] : warps_) {
      join(w.host, warp.clock);
      w.host.resize(std::max<size_t>(w.host.size(), warp.slot + 1));
      w.host[warp.slot] = w.times[warp.slot];
      w.spare_slots.push_back(warp.slot);
    }
    w.launches.erase(id_);
  }

  void load(Warp& warp, const Instruction& in, const Addresses& from, uint32_t bytes, std::byte* to) override {
    const std::lock_guard lock(world().mutex);
    if (inner_)
      inner_->load(warp, in, from, bytes, to);
    else
      lanes_down(warp.mask,
                 [&](unsigned i) { copy_pieces(to + size_t{i} * bytes, reinterpret_cast<const std::byte*>(from[i]), bytes); });
    Watched& w = watched(warp);
    lanes(warp.mask, [&](unsigned i) {
      check(warp, w, in, i, from[i], bytes, false);
      if (in.order == Order::weak) return;
      uint64_t value = 0;
      std::memcpy(&value, to + size_t{i} * bytes, std::min(bytes, 8u));
      acquire(warp, w, in, from[i], value, in.order == Order::acquire);
    });
  }

  void store(Warp& warp, const Instruction& in, const Addresses& to, uint32_t bytes, const std::byte* from) override {
    const std::lock_guard lock(world().mutex);
    Watched& w = watched(warp);
    lanes(warp.mask, [&](unsigned i) {
      check(warp, w, in, i, to[i], bytes, true);
      uint64_t value = 0;
      std::memcpy(&value, from + size_t{i} * bytes, std::min(bytes, 8u));
      if (in.order != Order::weak) release(warp, w, in, to[i], value, in.order == Order::release, false);
    });
    if (in.order == Order::release) advance(w);
    if (inner_)
      inner_->store(warp, in, to, bytes, from);
    else
      lanes(warp.mask, [&](unsigned i) { copy_pieces(reinterpret_cast<std::byte*>(to[i]), from + size_t{i} * bytes, bytes); });
  }

  void before_atomic(Warp& warp, const Instruction& in, const Addresses& where, uint32_t bytes) override {
    world().mutex.lock();  // until after_atomic: the update and what is known of it belong together
    if (inner_) inner_->before_atomic(warp, in, where, bytes);
    Watched& w = watched(warp);
    lanes(warp.mask, [&](unsigned i) {
      check(warp, w, in, i, where[i], bytes, true);
      acquire(warp, w, in, where[i], value_at(where[i], bytes), in.order == Order::acquire || in.order == Order::acquire_release);
    });
  }

  void after_atomic(Warp& warp, const Instruction& in, const Addresses& where, uint32_t bytes) override {
    const std::lock_guard lock(world().mutex, std::adopt_lock);
    if (inner_) inner_->after_atomic(warp, in, where, bytes);
    Watched& w = watched(warp);
    const bool releases = in.order == Order::release || in.order == Order::acquire_release;
    lanes(warp.mask, [&](unsigned i) { release(warp, w, in, where[i], value_at(where[i], bytes), releases, true); });
    if (releases) advance(w);
  }

  void fence(Warp& warp, Order order, Reach reach) override {
    const std::lock_guard lock(world().mutex);
    if (inner_) inner_->fence(warp, order, reach);
    Watched& w = watched(warp);
    if (order != Order::release) join(w.clock, w.pending);
    if (order != Order::acquire) {
      w.fence = w.clock;
      w.fence_reach = reach;
      w.fenced = true;
      advance(w);
    }
  }

  void warp_barrier(Warp& warp, uint32_t lanes_here) override {
    if (inner_) inner_->warp_barrier(warp, lanes_here);
  }

  void barrier_arrive(Warp& warp, uint32_t lanes_here, uint32_t barrier) override {
    const std::lock_guard lock(world().mutex);
    if (inner_) inner_->barrier_arrive(warp, lanes_here, barrier);
    Watched& w = watched(warp);
    join(barriers_[uint64_t{warp.block->number} << 8 | barrier], w.clock);
    advance(w);
  }

  void barrier_release(Block& block, uint32_t barrier) override {
    const std::lock_guard lock(world().mutex);
    if (inner_) inner_->barrier_release(block, barrier);
    Clock& met = barriers_[uint64_t{block.number} << 8 | barrier];
    for (auto& warp : block.warps)
      for (const Group& group : warp->groups)
        if (group.wait == Wait::barrier && group.barrier == barrier) join(watched(*warp).clock, met);
    met.clear();
  }

  bool after_slice(Warp& warp) override { return inner_ && inner_->after_slice(warp); }

  void end_block(Block& block) override {
    if (inner_) inner_->end_block(block);
    shared_words_.erase(block.number);
  }

 private:
  Watched& watched(Warp& warp) {
    const auto [found, added] = warps_.try_emplace(uint64_t{warp.block->number} << 32 | warp.index);
    Watched& w = found->second;
    if (!added) return w;
    World& all = world();
    if (all.spare_slots.empty()) {
      all.spare_slots.push_back(static_cast<uint32_t>(all.times.size()));
      all.times.push_back(0);
    }
    w.slot = all.spare_slots.back();
    all.spare_slots.pop_back();
    w.clock = begin_;
    advance(w);
    return w;
  }

  void advance(Watched& w) {
    w.clock.resize(std::max<size_t>(w.clock.size(), w.slot + 1));
    w.clock[w.slot] = ++world().times[w.slot];
  }

  static uint64_t value_at(uint64_t host, uint32_t bytes) {
    uint64_t value = 0;
    std::memcpy(&value, reinterpret_cast<const void*>(host), std::min(bytes, 8u));
    return value;
  }

  /// False: the release was for nearer threads than this one, or this one looks no further than its own.
  bool reaches(const Warp& warp, const Instruction& in, const Released& r) const {
    const Reach reach = std::min(r.reach, in.reach);
    if (reach == Reach::system) return true;
    if (reach == Reach::device) return r.device == launch_.grid->device;
    return r.launch == id_ && r.block == warp.block->number;
  }

  void acquire(const Warp& warp, Watched& w, const Instruction& in, uint64_t host, uint64_t value, bool now) {
    Released& r = world().released[host];
    if (r.known ? r.value != value : value != 0) {
      r.known = true;
      r.value = value;
      r.reach = Reach::system;
      join(r.clock, everyone());
    } else if (!r.known) {
      r.known = true;
    }
    if (!reaches(warp, in, r)) return;
    join(now ? w.clock : w.pending, r.clock);
  }

  void release(const Warp& warp, Watched& w, const Instruction& in, uint64_t host, uint64_t value, bool now, bool update) {
    Released& r = world().released[host];
    if (!update) r.clock.clear();
    r.known = true;
    r.value = value;
    if (now)
      join(r.clock, w.clock);
    else if (w.fenced)
      join(r.clock, w.fence);
    else
      return;
    r.reach = now ? in.reach : std::min(in.reach, w.fence_reach);
    r.launch = id_;
    r.block = warp.block->number;
    r.device = launch_.grid->device;
  }

  static Clock everyone() { return world().times; }

  void check(Warp& warp, const Watched& w, const Instruction& in, unsigned lane, uint64_t host, uint32_t bytes, bool write) {
    const bool shared = host - reinterpret_cast<uint64_t>(warp.block->shared.get()) < launch_.shared_bytes;
    auto& words = shared ? shared_words_[warp.block->number] : world().words;
    for (uint64_t word = host / 8 * 8; word < host + bytes; word += 8) {
      uint8_t mask = 0;
      for (unsigned b = 0; b < 8; b++) mask = static_cast<uint8_t>(mask | (word + b >= host && word + b < host + bytes) << b);
      const Seen now{w.slot, w.clock[w.slot],   mask, write, in.order != Order::weak, &in, warp.frame->code,
                     id_,    ++world().sequence};
      check_word(warp, w, lane, words[word], now);
    }
  }

  void check_word(Warp& warp, const Watched& w, unsigned lane, Word& word, const Seen& now) {
    // Who has himself made a strong access to the word comes after the strong ones before that.
    uint64_t own_strong = 0;
    for (const Seen& seen : word)
      if (seen.slot == now.slot && seen.strong) own_strong = std::max(own_strong, seen.sequence);
    Seen* place = nullptr;
    for (Seen& seen : word) {
      const bool ordered = seen.time <= at(w.clock, seen.slot) || (seen.strong && seen.sequence < own_strong);
      if (seen.slot != now.slot && seen.time != 0 && !ordered && (seen.bytes & now.bytes) != 0 && (seen.write || now.write) &&
          !(seen.strong && now.strong))
        return report(warp, lane, seen, now);
      const bool covered = (seen.bytes & ~now.bytes) == 0 && (now.write || !seen.write) && (!now.strong || seen.strong);
      if (seen.time == 0 || (ordered && covered)) place = &seen;
    }
    if (place == nullptr) place = &word[now.sequence % word.size()];
    *place = now;
  }

  void report(Warp& warp, unsigned lane, const Seen& seen, const Seen& now) {
    const auto other = world().launches.find(seen.launch);
    std::string text = "a launch that has ended";
    if (other != world().launches.end())
      text = fmt::format("kernel {}, {}", other->second->grid->function->name, launch_.place_of(*seen.code, *seen.in));
    if (other != world().launches.end() && other->second != &launch_)
      text = fmt::format("kernel {} of another launch", other->second->grid->function->name);
    const auto name = [](const Seen& s) { return fmt::format("{}{}", s.strong ? "" : "ordinary ", s.write ? "write" : "read"); };
    warp.fault(*now.in, lane, fmt::format("a data race: this {} is not ordered with the {} by {}", name(now), name(seen), text));
  }

  Launch& launch_;
  std::unique_ptr<Model> inner_;
  uint64_t id_ = 0;
  Clock begin_;
  std::unordered_map<uint64_t, Watched> warps_;
  std::unordered_map<uint64_t, Clock> barriers_;
  std::unordered_map<uint32_t, std::unordered_map<uint64_t, Word>> shared_words_;
};

}  // namespace

std::unique_ptr<Model> make_race_model(Launch& launch, std::unique_ptr<Model> inner) {
  return std::make_unique<RaceModel>(launch, std::move(inner));
}

}  // namespace emu
