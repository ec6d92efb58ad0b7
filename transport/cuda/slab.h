// Device memory in which the queues of a CUDA rank lie, and how its kernels see that of its peers.
//
// A slab begins with a table of ranks x links entries (where in this slab the queue of a writer lies; 0: not made yet), followed by as many heads
// (of the queues that this rank writes, each on a cache line of its own), and a heap. A queue is made by its reader when it first needs it; its
// writer's kernel finds it in the table.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "boot/bootstrap.h"
#include "device/gpu.h"
#include "transport/process.h"

namespace ronde::gpu {

/// What fixes the layout of every slab of a communicator: equal on all its ranks.
struct SlabShape {
  uint32_t ranks = 1;
  uint32_t links = 1;
  uint32_t slots = 2;
  uint32_t slot_capacity = 64;  ///< bytes, a multiple of 64
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
  /// Collective. An error on one rank is an error on all: GPUs that cannot reach each other, memory that is short, the bootstrap's.
  static Result<std::unique_ptr<Slab>> make(Bootstrap& bootstrap, std::shared_ptr<const device::Gpu> gpu, const SlabShape& shape, size_t heap);
  ~Slab();

  const device::Gpu& gpu() const { return *gpu_; }
  const SlabShape& shape() const { return shape_; }
  /// `reads`: the incoming queue is made if need be. An error names the limit of the heap.
  Result<LinkPlaces> places(int peer, int link, bool reads);
  /// How this rank's kernels reach `peer`: "the same GPU", "peer memory", "peer memory of another process".
  std::string_view way(int peer) const { return peers_[static_cast<size_t>(peer)].way; }

 private:
  struct Peer {
    uint64_t base = 0;
    bool opened = false;  ///< by a handle of another process, to be closed
    std::string_view way;
    std::shared_ptr<const device::Gpu> gpu;  ///< in this process
  };
  Slab(std::shared_ptr<const device::Gpu> gpu, const SlabShape& shape, device::DeviceMemory memory, int rank);
  uint64_t entry_at(int peer, int link) const { return index(peer, link) * sizeof(uint64_t); }
  uint64_t head_at(int peer, int link) const;
  uint64_t heap_at() const;
  uint64_t index(int peer, int link) const { return static_cast<uint64_t>(peer) * shape_.links + static_cast<uint64_t>(link); }
  Result<uint64_t> queue_from(int writer, int link);
  Result<> open(int peer, const void* told, const Id& process);

  std::shared_ptr<const device::Gpu> gpu_;
  SlabShape shape_;
  device::DeviceMemory memory_;
  int rank_ = 0;
  std::vector<Peer> peers_;
  std::mutex mutex_;  // guards the rest
  uint64_t heap_used_ = 0;
  std::map<uint64_t, uint64_t> queues_;  ///< places by index(writer, link)
};

}  // namespace ronde::gpu
