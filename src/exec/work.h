// Work: one call of one rank, ready to be executed: its lanes over its ports and blocks.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/bell.h"
#include "base/result.h"
#include "plan/blocks.h"
#include "exec/call.h"
#include "exec/seat.h"
#include "plan/program.h"

namespace ronde {

/// Counts the Works of a call or group down and keeps their first error.
class Completion {
 public:
  explicit Completion(int works) : remaining_(works) {}
  /// One Work has ended. The last one rings `waiter` or calls `on_done`, after which the Completion may be gone.
  void finish(std::optional<Error> error);
  bool done() const { return remaining_.load(std::memory_order_seq_cst) == 0; }  // pairs with finish(), by the Bell's rule
  Result<> result() const;

  Bell* waiter = nullptr;
  std::function<void()> on_done;

 private:
  std::atomic<int> remaining_;
  mutable std::mutex mutex_;
  std::optional<Error> error_;
};

/// A Program whose peers have become ports. Made once per plan and kept.
struct BoundProgram {
  const Program* program = nullptr;
  std::vector<Port*> ports;  ///< by Program::peers
};

/// Where a lane is. A lane runs its Moves for slice 0, then for slice 1, ...
struct Lane {
  const std::vector<Move>* moves = nullptr;
  uint32_t slice = 0;
  uint32_t move = 0;
  uint32_t piece = 0;              ///< block within the Move (not merged)
  const Port* waits_for = nullptr; ///< after a step that could not go on
  bool done = false;
};

/// The share of a call on one channel.
struct Part {
  const BoundProgram* bound = nullptr;
  BlockTable table;
  Slicing slicing;
  std::vector<Lane> lanes;
};

struct Work {
  std::shared_ptr<Seat> seat;        ///< kept, since a Work may still wait on a stream when its communicator has been aborted
  Call call;
  uint64_t fingerprint = 0;          ///< call.fingerprint(), computed once
  std::vector<Part> parts;
  CallBuffers buffers;               ///< with `rule`, what the parts' tables and slicing came from
  SlicingRule rule;
  Scale scale;                       ///< factor of a pre-multiplied sum; divisor of an average
  uintptr_t factor_at = 0;           ///< of a rank on a GPU: device memory that holds the factor when the call runs; 0: `scale` has it
  bool may_lend = true;              ///< false: everything is copied into slots
  bool started = false;
  uint64_t progress_ns = 0;          ///< when it last moved
  bool warned = false;
  std::string stand;                 ///< of a kernel that stands still: where, and what for
  Completion* completion = nullptr;
  std::shared_ptr<const void> keeps; ///< plan, and whatever else must outlive it
  std::vector<std::byte> copy;       ///< an eager message's data
};

enum class Step : uint8_t { moved, blocked, done };

/// Runs `lane` until it cannot go on, is done, or has moved as many pieces as are one turn. An Error breaks the communicator.
Result<Step> advance(Work& work, Part& part, Lane& lane);

/// Executes one piece of a Move whose inputs are there and whose outputs have room.
Result<> execute(Work& work, Part& part, const Lane& lane, const Move& move);

}  // namespace ronde
