// Host streams: calls that return at once and run in order.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "exec/work.h"

namespace ronde {

class HostStream;

/// What one group put on one or more host streams. It starts when it has come to the head of each of them.
struct Batch {
  explicit Batch(int works) : completion(works) {}
  std::vector<std::unique_ptr<Work>> works;
  Completion completion;
  std::vector<std::shared_ptr<HostStream>> streams;
  std::atomic<int> streams_ahead{0};  ///< streams at whose head it is not yet (acq_rel: the last one starts it)
};

class HostStream {
 public:
  /// Puts the batch on all its streams, in one order for all threads.
  static void enqueue(std::shared_ptr<Batch> batch);

  /// Waits for everything queued now; the calling thread runs what nobody has begun. The first error since the last report.
  Result<> synchronize();
  /// True when nothing is queued or running; the first error since the last report.
  Result<bool> query();

 private:
  void begin_head();
  void pop();

  std::mutex mutex_;  // guards the rest
  std::deque<std::shared_ptr<Batch>> queue_;
  std::vector<std::pair<const Batch*, Completion*>> waiters_;
  std::optional<Error> error_;
};

/// The handle of a new stream: a number that is never reused and never dereferenced.
uintptr_t create_stream();
/// The live stream of a handle; nullptr for any other number.
std::shared_ptr<HostStream> find_stream(uintptr_t handle);
/// Forgets the handle. False for one that is not live.
bool forget_stream(uintptr_t handle);

}  // namespace ronde
