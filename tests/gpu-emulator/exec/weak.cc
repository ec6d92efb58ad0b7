// Weak memory on a strong host. Stores wait in a buffer of their warp; barriers and fences of the block move them to one that the
// block sees; fences and releases of a wider scope write them to memory. Meanwhile they leave in any order. Ordinary loads see
// what the block has once read, until an acquire.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <vector>

#include "gpu-emulator/exec/access.h"
#include "gpu-emulator/exec/model.h"

namespace emu {
namespace {

/// Stores that a warp, or the block, may have under way before one has to leave.
constexpr size_t kUnderWay = 24;

/// The lanes' pieces of one store, or one piece of it where vectors are torn.
struct Pending {
  uint32_t bytes = 0, count = 0;
  uint64_t begin = ~uint64_t{0}, end = 0;  ///< what all pieces span
  std::array<uint64_t, kLanes> at;
  alignas(16) std::array<std::byte, kLanes * 32> data;

  void add(uint64_t address, const std::byte* from) {
    at[count] = address;
    std::memcpy(data.data() + size_t{count} * bytes, from, bytes);
    count++;
    begin = std::min(begin, address);
    end = std::max(end, address + bytes);
  }
  bool overlaps(uint64_t address, uint32_t length) const {
    if (address >= end || address + length <= begin) return false;
    for (uint32_t i = 0; i < count; i++)
      if (at[i] < address + length && address < at[i] + bytes) return true;
    return false;
  }
  bool overlaps(const Pending& other) const {
    if (other.begin >= end || other.end <= begin) return false;
    for (uint32_t i = 0; i < other.count; i++)
      if (overlaps(other.at[i], other.bytes)) return true;
    return false;
  }
  /// Puts the bytes that [address, address + length) shares with it to `to`.
  void overlay(uint64_t address, uint32_t length, std::byte* to) const {
    if (address >= end || address + length <= begin) return;
    for (uint32_t i = 0; i < count; i++) {
      const uint64_t from = std::max(at[i], address), until = std::min(at[i] + bytes, address + length);
      if (from < until) std::memcpy(to + (from - address), data.data() + size_t{i} * bytes + (from - at[i]), until - from);
    }
  }
  void write() const {
    for (uint32_t i = 0; i < count; i++) copy_pieces(reinterpret_cast<std::byte*>(at[i]), data.data() + size_t{i} * bytes, bytes);
  }
};

/// Stores under way, oldest first.
using Buffer = std::vector<std::unique_ptr<Pending>>;

/// What a block has read: sectors of memory as they were.
class Cache {
 public:
  static constexpr uint64_t kSector = 32;
  void load(uint64_t address, uint32_t bytes, std::byte* to) {
    for (uint64_t at = address; at < address + bytes;) {
      const uint64_t base = at / kSector * kSector, until = std::min(base + kSector, address + bytes);
      auto [found, added] = sectors_.try_emplace(base);
      if (added) std::memcpy(found->second.data(), reinterpret_cast<const void*>(base), kSector);
      std::memcpy(to + (at - address), found->second.data() + (at - base), until - at);
      at = until;
    }
  }
  /// The block itself has put these bytes there, or has seen them by a strong load.
  void refresh(uint64_t address, uint32_t bytes, const std::byte* from) {
    for (uint64_t at = address; at < address + bytes;) {
      const uint64_t base = at / kSector * kSector, until = std::min(base + kSector, address + bytes);
      const auto found = sectors_.find(base);
      if (found != sectors_.end()) std::memcpy(found->second.data() + (at - base), from + (at - address), until - at);
      at = until;
    }
  }
  void forget(uint64_t address, uint32_t bytes) {
    for (uint64_t base = address / kSector * kSector; base < address + bytes; base += kSector) sectors_.erase(base);
  }
  void drop() { sectors_.clear(); }

 private:
  std::unordered_map<uint64_t, std::array<std::byte, kSector>> sectors_;
};

class WeakModel : public Model {
 public:
  explicit WeakModel(Launch& launch) : options_(launch.options), random_(mix(launch.random + 77)) {}

  void load(Warp& warp, const Instruction& in, const Addresses& from, uint32_t bytes, std::byte* to) override {
    BlockState& block = state(*warp.block);
    const bool weak = in.order == Order::weak && options_.stale_loads;
    lanes_down(warp.mask, [&](unsigned i) {
      std::byte* lane = to + size_t{i} * bytes;
      if (weak && !is_shared(warp, from[i])) {
        block.cache.load(from[i], bytes, lane);
      } else {
        copy_pieces(lane, reinterpret_cast<const std::byte*>(from[i]), bytes);
        if (options_.stale_loads) block.cache.refresh(from[i], bytes, lane);
      }
    });
    uint64_t begin = ~uint64_t{0}, end = 0;
    lanes(warp.mask, [&](unsigned i) {
      begin = std::min(begin, from[i]);
      end = std::max(end, from[i] + bytes);
    });
    for (const Buffer* buffer : {&block.buffer, &block.of_warps[warp.index]}) {
      for (const auto& pending : *buffer) {
        if (begin >= pending->end || end <= pending->begin) continue;
        lanes(warp.mask, [&](unsigned i) { pending->overlay(from[i], bytes, to + size_t{i} * bytes); });
      }
    }
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (in.order == Order::acquire && in.reach != Reach::block) block.cache.drop();
  }

  void store(Warp& warp, const Instruction& in, const Addresses& to, uint32_t bytes, const std::byte* from) override {
    BlockState& block = state(*warp.block);
    if (in.order == Order::release) release(warp, in.reach);
    if (options_.stale_loads) lanes(warp.mask, [&](unsigned i) { block.cache.refresh(to[i], bytes, from + size_t{i} * bytes); });
    const uint32_t piece = options_.harsh_vectors ? std::min(bytes, 8u) : bytes;
    Buffer& buffer = block.of_warps[warp.index];
    for (uint32_t at = 0; at < bytes; at += piece) {
      Pending& made = push(buffer, piece);
      lanes(warp.mask, [&](unsigned i) { made.add(to[i] + at, from + size_t{i} * bytes + at); });
    }
    if (!options_.weak_stores) return write_all(block, buffer);
    shrink(block, buffer);
  }

  void before_atomic(Warp& warp, const Instruction& in, const Addresses& at, uint32_t bytes) override {
    BlockState& block = state(*warp.block);
    if (in.order == Order::release || in.order == Order::acquire_release) release(warp, in.reach);
    lanes(warp.mask, [&](unsigned i) {
      for (Buffer* buffer : {&block.buffer, &block.of_warps[warp.index]})
        for (size_t k = 0; k < buffer->size();)
          if ((*buffer)[k]->overlaps(at[i], bytes))
            leave(block, *buffer, k), k = 0;
          else
            k++;
    });
  }

  void after_atomic(Warp& warp, const Instruction& in, const Addresses& at, uint32_t bytes) override {
    BlockState& block = state(*warp.block);
    lanes(warp.mask, [&](unsigned i) { block.cache.forget(at[i], bytes); });
    if ((in.order == Order::acquire || in.order == Order::acquire_release) && in.reach != Reach::block) block.cache.drop();
  }

  void fence(Warp& warp, Order order, Reach reach) override {
    if (order != Order::acquire) release(warp, reach);
    if (order != Order::release && reach != Reach::block) state(*warp.block).cache.drop();
  }

  void warp_barrier(Warp&, uint32_t) override {}
  void barrier_arrive(Warp& warp, uint32_t, uint32_t) override { release(warp, Reach::block); }
  void barrier_release(Block&, uint32_t) override {}

  bool after_slice(Warp& warp) override {
    BlockState& block = state(*warp.block);
    Buffer& own = block.of_warps[warp.index];
    if (warp.live == 0) write_all(block, own);
    if (!own.empty() && random() % 4 == 0) leave(block, own, random() % own.size());
    if (!block.buffer.empty() && random() % 8 == 0) leave(block, block.buffer, random() % block.buffer.size());
    return !own.empty() || !block.buffer.empty();
  }

  void end_block(Block& of) override {
    BlockState& block = state(of);
    write_all(block, block.buffer);
    for (Buffer& buffer : block.of_warps) write_all(block, buffer);
    blocks_.erase(of.number);
  }

 private:
  struct BlockState {
    Buffer buffer;  ///< what the whole block sees
    std::vector<Buffer> of_warps;
    Cache cache;
  };

  BlockState& state(Block& block) {
    BlockState& found = blocks_[block.number];
    if (found.of_warps.empty()) found.of_warps.resize(block.warps.size());
    return found;
  }

  static bool is_shared(const Warp& warp, uint64_t host) {
    return host - reinterpret_cast<uint64_t>(warp.block->shared.get()) < warp.launch->shared_bytes;
  }

  Pending& push(Buffer& buffer, uint32_t bytes) {
    buffer.emplace_back(new Pending);  // its pieces are not set to zero first
    buffer.back()->bytes = bytes;
    return *buffer.back();
  }

  /// The first store in `buffer` that `of` overlaps; that store's own place where it is in the buffer; else the size.
  static size_t older(const Buffer& buffer, const Pending& of) {
    size_t k = 0;
    while (k < buffer.size() && buffer[k].get() != &of && !buffer[k]->overlaps(of)) k++;
    return k;
  }

  /// One store is written to memory; first those before it that it overlaps, for they are older.
  void leave(BlockState& block, Buffer& buffer, size_t which) {
    const Pending& leaving = *buffer[which];
    if (&buffer != &block.buffer) {
      for (size_t k = older(block.buffer, leaving); k < block.buffer.size(); k = older(block.buffer, leaving))
        leave(block, block.buffer, k);
    }
    size_t k = older(buffer, leaving);
    for (; buffer[k].get() != &leaving; k = older(buffer, leaving)) leave(block, buffer, k);
    leaving.write();
    // A sector that was read meanwhile has not seen it.
    for (uint32_t i = 0; i < leaving.count && options_.stale_loads; i++)
      block.cache.refresh(leaving.at[i], leaving.bytes, leaving.data.data() + size_t{i} * leaving.bytes);
    buffer.erase(buffer.begin() + static_cast<long>(k));
  }

  void shrink(BlockState& block, Buffer& buffer) {
    while (buffer.size() > kUnderWay) leave(block, buffer, random() % buffer.size());
  }

  void write_all(BlockState& block, Buffer& buffer) {
    while (!buffer.empty()) leave(block, buffer, random() % buffer.size());
  }

  /// What a release of that scope orders before itself becomes visible there.
  void release(Warp& warp, Reach reach) {
    BlockState& block = state(*warp.block);
    Buffer& own = block.of_warps[warp.index];
    if (reach == Reach::block) {
      for (auto& pending : own) block.buffer.push_back(std::move(pending));
      own.clear();
      shrink(block, block.buffer);
      return;
    }
    write_all(block, block.buffer);
    write_all(block, own);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
  }

  uint32_t random() {
    random_ = random_ * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<uint32_t>(random_ >> 33);
  }

  const Options options_;
  uint64_t random_;
  std::unordered_map<uint32_t, BlockState> blocks_;
};

}  // namespace

std::unique_ptr<Model> make_weak_model(Launch& launch) { return std::make_unique<WeakModel>(launch); }

}  // namespace emu
