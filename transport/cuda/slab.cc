#include "transport/cuda/slab.h"

#include <fmt/core.h>

#include <span>

#include "fifo/device_queue.h"

namespace ronde::gpu {
namespace {

constexpr uint64_t kLine = 64;
constexpr uint64_t kUnit = 4096;

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

Slab::~Slab() {
  const device::Current current(*gpu_);
  for (const Peer& peer : peers_) {
    if (peer.handle != 0) gpu_->driver().cuIpcCloseMemHandle(peer.handle);
  }
}

uint64_t Slab::head_at(int peer, int link) const {
  return round_up(uint64_t{shape_.ranks} * shape_.links * sizeof(uint64_t), kLine) + index(peer, link) * kLine;
}
uint64_t Slab::heap_at() const { return round_up(head_at(static_cast<int>(shape_.ranks), 0), kUnit); }
uint64_t Slab::queue_bytes() const { return round_up(kQueueHead + uint64_t{shape_.slots} * (kSlotHead + shape_.slot_capacity), kUnit); }

std::string Slab::describe(int number) const {
  const Peer& peer = peers_[static_cast<size_t>(number)];
  if (!peer.by_host) return std::string(peer.transport);
  return fmt::format("{}, since {}", peer.transport, peer.reason);
}

/// Tells the writer where its queue lies.
Result<> Slab::publish(int writer, int link, uint64_t at) {
  if (!peers_[static_cast<size_t>(writer)].by_host) return gpu_->copy_in(area_.base + entry_at(writer, link), std::as_bytes(std::span(&at, 1)));
  __atomic_store_n(reinterpret_cast<uint64_t*>(host_.data() + entry_at(writer, link)), at, __ATOMIC_RELEASE);  // pairs with the kernel's load
  return {};
}

/// The place of the queue from `writer`, made if need be. With mutex_ held.
Result<uint64_t> Slab::queue_from(int writer, int link) {
  const auto known = queues_.find(index(writer, link));
  if (known != queues_.end()) return known->second;
  const uint64_t bytes = queue_bytes();
  Area& area = area_for(writer);
  const uint64_t at = heap_at() + area.heap_used;
  if (at + bytes > area.bytes) {
    return fail(Code::system_error, fmt::format("connecting rank {} to rank {}: the {} bytes of {} for connections are used up, at {} bytes each; set "
                                                "RONDE_BUFFSIZE smaller or use fewer channels (RONDE_MAX_NCHANNELS)", writer, rank_, area.bytes,
                                                &area == &area_ ? gpu_->name() : "host memory", bytes), Scope::communicator);
  }
  // Host memory is zero, of device memory only what comes before the heap. Done before the table tells the writer.
  if (&area == &area_) RONDE_TRY(gpu_->clear(area.base + at, kQueueHead));
  RONDE_TRY(publish(writer, link, at));
  area.heap_used += bytes;
  queues_[index(writer, link)] = at;
  return at;
}

Result<LinkPlaces> Slab::places(int peer, int link, bool reads) {
  const std::lock_guard lock(mutex_);
  const uint64_t theirs = peers_[static_cast<size_t>(peer)].base;
  const uint64_t mine = area_for(peer).base;
  LinkPlaces places;
  places.out_base = theirs;
  places.out_entry = theirs + entry_at(rank_, link);
  places.out_head = mine + head_at(peer, link);
  const auto known = queues_.find(index(peer, link));
  if (!reads && known == queues_.end()) return places;
  RONDE_TRY(const uint64_t at, queue_from(peer, link));
  places.in_tail = mine + at;
  places.in_slots = places.in_tail + kQueueHead;
  places.in_head = theirs + head_at(rank_, link);
  return places;
}

}  // namespace ronde::gpu
