// Streams: a thread each, which runs what was put into it in order; events between them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "gpu-emulator/driver/entries.h"

namespace emu::driver {

struct Context;
class Stream;
struct Capture;
struct Node;

/// Work for a device. A failure is the context's from then on.
using Work = std::function<CUresult()>;

/// A place in a stream's order: passed when the first `number` works have ended.
struct Point {
  std::shared_ptr<Stream> stream;
  uint64_t number = 0;

  bool passed() const;
  void wait() const;
};

/// What a stream is asked to do: at once, or, while it is captured, as a node of the graph.
struct Op {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  std::shared_ptr<Context> context;
  Work run;
};

/// Thread safe. The thread is there from the first work until the stream is closed and empty.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(std::shared_ptr<Context> context, unsigned flags, int priority);

  /// Adds work that begins after all earlier works and all `after`. Works are skipped once the context has failed.
  Point enqueue(Work work, std::vector<Point> after);
  /// After everything that was added until now.
  Point tail();
  bool passed(uint64_t number);
  void wait(uint64_t number);
  /// No work comes any more.
  void close();

  const std::shared_ptr<Context>& context() const { return context_; }
  /// Waits for the legacy stream and is waited for by it.
  bool blocking() const { return (flags_ & CU_STREAM_NON_BLOCKING) == 0; }
  unsigned flags() const { return flags_; }
  int priority() const { return priority_; }
  uint64_t id() const { return id_; }

  /// The capture that the stream is part of, and the nodes that its next one follows. Guarded by the driver's capture lock.
  std::shared_ptr<Capture> capture;
  std::vector<Node*> frontier;

 private:
  struct Item {
    Work work;
    std::vector<Point> after;
  };
  void run();

  const std::shared_ptr<Context> context_;
  const unsigned flags_;
  const int priority_;
  const uint64_t id_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
  uint64_t added_ = 0;
  uint64_t ended_ = 0;
  bool running_ = false;  // it has a thread
  bool closed_ = false;
};

/// The moment when a stream passed a record, in nanoseconds of the steady clock; 0: not yet.
using Stamp = std::shared_ptr<std::atomic<int64_t>>;

struct Event {
  std::shared_ptr<Context> context;
  unsigned flags = 0;
  std::mutex mutex;
  Point last;  ///< of the last record; without a stream: never recorded
  Stamp stamp;
  /// Where it was recorded into a capture, until it is recorded elsewhere. Guarded by the driver's capture lock.
  std::shared_ptr<Capture> capture;
  std::vector<Node*> nodes;

  Point place() {
    std::lock_guard lock(mutex);
    return last;
  }
};

/// Threads of streams that are running something now.
int busy_streams();

}  // namespace emu::driver
