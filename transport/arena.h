// A rank's arena: the memory of one communicator that the rank owns and all peers map. It holds the control block, the table of
// the connections that end here, and a heap which only grows, from which their writers take the FIFOs.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/config.h"
#include "base/fd.h"
#include "base/result.h"
#include "fifo/control.h"
#include "fifo/fifo.h"

namespace ronde {

/// What fixes the layout of every arena of a communicator: equal on all its ranks.
struct ArenaShape {
  uint32_t ranks = 1;
  uint32_t links = 1;
  uint32_t slots = 2;
  uint32_t slot_capacity = 64;  ///< bytes, a multiple of 64
  bool operator==(const ArenaShape&) const = default;
};

/// RONDE_BUFFSIZE / RONDE_SLOTS, less where `ranks` x `links` connections of that size would exceed kArenaRoom; a connection
/// takes at most 256 KiB unless RONDE_BUFFSIZE is set.
ArenaShape arena_shape(const Config& config, int ranks, int links);

/// Bytes of FIFOs in one arena when every peer uses every link (4 KiB slots are the floor, which many ranks may exceed it for).
inline constexpr size_t kArenaRoom = size_t{8} << 20;
inline constexpr size_t kConnectionRoom = size_t{256} << 10;

struct ArenaHeader;

class Arena {
 public:
  /// A new arena. `shareable`: in a memfd whose descriptor stays open until close_descriptor; otherwise for this process alone.
  static Result<std::shared_ptr<Arena>> create(const ArenaShape& shape, bool shareable);
  /// One of this process alone that stands for a peer's towards one rank: it has room for what `writer` writes.
  static Result<std::shared_ptr<Arena>> mirror(const ArenaShape& shape, int writer);
  /// Maps an arena that a peer has made; `fd` may be closed afterwards. internal_error if it is not of this shape.
  static Result<std::shared_ptr<Arena>> open(int fd, const ArenaShape& shape);

  const ArenaShape& shape() const { return shape_; }
  size_t bytes() const { return memory_.size(); }
  int descriptor() const { return fd_.get(); }
  void close_descriptor() { fd_.reset(); }

  ControlBlock& control() const;
  /// Set by the owner when it leaves in order.
  void mark_closed();
  bool closed() const;

  /// The FIFO of (writer, link), made if need be. Only the writer's own rank calls this, for one (writer, link) from one thread
  /// at a time. An error leaves the arena as it was, so that a later call may succeed.
  Result<FifoView> make_fifo(int writer, int link);
  /// A null view until the writer has made it.
  FifoView find_fifo(int writer, int link) const;

 private:
  struct Writers {
    int first = 0;
    uint32_t count = 0;
  };
  static Writers all_ranks(const ArenaShape& shape) { return {0, shape.ranks}; }
  static Result<std::shared_ptr<Arena>> create(const ArenaShape& shape, Writers writers, bool shareable);
  Arena(const ArenaShape& shape, Writers writers, Mapping memory) : shape_(shape), writers_(writers), memory_(std::move(memory)) {}
  size_t heap() const;
  ArenaHeader& header() const;
  std::atomic<uint64_t>& entry(int writer, int link) const;
  FifoView view_at(uint64_t offset) const;

  ArenaShape shape_;
  Writers writers_;  // of the table's rows
  Mapping memory_;
  UniqueFd fd_;
};

}  // namespace ronde
