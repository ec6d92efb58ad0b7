// Memory in which the queues of a CUDA rank lie, and how its kernels see that of its peers.
//
// A rank's slab lies in device memory. Peers that cannot reach that, or must not, have their queues in a second slab of the same layout, in host
// memory that all processes map.
//
// A slab begins with a table of ranks x links entries (where in this slab the queue of a writer lies; 0: not made yet), followed by as many heads
// (of the queues that this rank writes, each on a cache line of its own), and a heap. A queue is made by its reader when it first needs it; its
// writer's kernel finds it in the table.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "boot/bootstrap.h"
#include "device/shared.h"
#include "transport/process.h"

namespace ronde::gpu {

/// What fixes the layout of every slab of a communicator: equal on all its ranks.
struct SlabShape {
  uint32_t ranks = 1;
  uint32_t links = 1;
  uint32_t slots = 2;
  uint32_t slot_capacity = 64;  ///< bytes, a multiple of 64
};

struct SlabRequest {
  Bootstrap* bootstrap = nullptr;
  std::shared_ptr<const device::Gpu> gpu;
  SlabShape shape;
  size_t heap = 0;  ///< bytes for queues, equal on all ranks
  /// By peer: why neither may reach the other's device memory; "": they may. Empty: all may.
  std::vector<std::string> forbidden;
  /// Why queues may not lie in host memory; "": they may.
  std::string no_host;
  /// Device memory goes to other processes as descriptors, where driver and GPU can; otherwise by legacy handles.
  bool descriptors = true;
  double patience = 0;  ///< seconds for peers to give descriptors; 0: for ever
  const AbortWord* abort = nullptr;
};

/// The addresses, for one rank's kernels, of both directions of a link.
struct LinkPlaces {
  uint64_t in_tail = 0, in_head = 0, in_slots = 0;  ///< 0: nothing comes this way (yet)
  uint64_t out_entry = 0;                           ///< of the table, where the place of the outgoing queue will stand
  uint64_t out_base = 0;                            ///< what that place counts from
  uint64_t out_head = 0;
};

class Slab {
 public:
  /// Collective. An error on one rank is an error on all: two GPUs with no way between them, memory that is short, the bootstrap's.
  static Result<std::unique_ptr<Slab>> make(const SlabRequest& request);
  ~Slab();

  const device::Gpu& gpu() const { return *gpu_; }
  const SlabShape& shape() const { return shape_; }
  /// `reads`: the incoming queue is made if need be. An error names the limit of the heap.
  Result<LinkPlaces> places(int peer, int link, bool reads);
  /// How this rank and `peer` reach each other: "P2P/CUDA" device memory in one process, "P2P/CUMEM" and "P2P/IPC" between processes, as descriptors
  /// and by legacy handles, "SHM/CUDA" host memory.
  std::string_view transport(int peer) const { return peers_[static_cast<size_t>(peer)].transport; }
  /// The same in words, with the reason where it is host memory.
  std::string describe(int peer) const;

 private:
  friend class Connecting;
  struct Peer {
    std::string_view transport;
    std::string reason;  ///< for host memory
    bool by_host = false;
    uint64_t base = 0;  ///< of its slab, for this rank's kernels
    std::shared_ptr<const device::Gpu> gpu;  ///< in this process
    device::ShareableMemory memory;  ///< of another process
    uint64_t handle = 0;             ///< of another process, to be closed; 0: none
    Mapping host;
    device::RegisteredMemory registered;
  };
  /// Of this rank.
  struct Area {
    uint64_t base = 0;  ///< for its kernels
    size_t bytes = 0;
    uint64_t heap_used = 0;
  };
  Slab(std::shared_ptr<const device::Gpu> gpu, const SlabShape& shape, int rank) : gpu_(std::move(gpu)), shape_(shape), rank_(rank), peers_(shape.ranks) {}
  uint64_t entry_at(int peer, int link) const { return index(peer, link) * sizeof(uint64_t); }
  uint64_t head_at(int peer, int link) const;
  uint64_t heap_at() const;
  uint64_t queue_bytes() const;
  uint64_t index(int peer, int link) const { return static_cast<uint64_t>(peer) * shape_.links + static_cast<uint64_t>(link); }
  Area& area_for(int peer) { return peers_[static_cast<size_t>(peer)].by_host ? host_area_ : area_; }
  Result<uint64_t> queue_from(int writer, int link);
  Result<> publish(int writer, int link, uint64_t at);

  std::shared_ptr<const device::Gpu> gpu_;
  SlabShape shape_;
  int rank_ = 0;
  device::DeviceMemory memory_;        // one of these two holds the slab
  device::ShareableMemory shareable_;
  Mapping host_;
  device::RegisteredMemory registered_;
  std::vector<Peer> peers_;
  std::mutex mutex_;  // guards the rest
  Area area_, host_area_;
  std::map<uint64_t, uint64_t> queues_;  ///< places by index(writer, link)
};

}  // namespace ronde::gpu
