#include "exec/stream.h"

#include <algorithm>
#include <map>

#include "exec/runner.h"

namespace ronde {
namespace {

/// Submits a batch's works, Seat by Seat. `batch` may be gone when this returns.
void start(Batch& batch) {
  std::vector<std::pair<std::shared_ptr<Seat>, std::vector<Work*>>> by_seat;
  for (const auto& work : batch.works) {
    const auto at = std::find_if(by_seat.begin(), by_seat.end(), [&](const auto& entry) { return entry.first == work->seat; });
    if (at == by_seat.end()) {
      by_seat.push_back({work->seat, {work.get()}});
    } else {
      at->second.push_back(work.get());
    }
  }
  for (auto& [seat, works] : by_seat) submit(*seat, std::move(works), nullptr);
}

std::mutex& enqueue_order() {
  static std::mutex* one = new std::mutex;  // two groups must come onto their common streams in the same order
  return *one;
}

struct Registry {
  std::mutex mutex;
  std::map<uintptr_t, std::shared_ptr<HostStream>> live;
  uintptr_t next = uintptr_t{1} << 40;  // far from the handles 0, 1 and 2, which mean "no stream"
};
Registry& registry() {
  static Registry* one = new Registry;
  return *one;
}

}  // namespace

void HostStream::enqueue(std::shared_ptr<Batch> batch) {
  Batch& b = *batch;
  b.streams_ahead.store(static_cast<int>(b.streams.size()), std::memory_order_relaxed);  // published by the mutexes below
  b.completion.on_done = [&b] {
    const std::vector<std::shared_ptr<HostStream>> streams = b.streams;  // the last pop destroys the batch
    for (const auto& stream : streams) stream->pop();
  };
  const std::vector<std::shared_ptr<HostStream>> streams = b.streams;
  std::vector<HostStream*> at_head;
  {
    const std::lock_guard order(enqueue_order());
    for (const auto& stream : streams) {
      const std::lock_guard lock(stream->mutex_);
      stream->queue_.push_back(batch);
      if (stream->queue_.size() == 1) at_head.push_back(stream.get());
    }
  }
  batch.reset();
  for (HostStream* stream : at_head) stream->begin_head();
}

/// The head of this stream's queue has just become its head.
void HostStream::begin_head() {
  std::shared_ptr<Batch> head;
  {
    const std::lock_guard lock(mutex_);
    if (queue_.empty()) return;
    head = queue_.front();
  }
  if (head->streams_ahead.fetch_sub(1, std::memory_order_acq_rel) == 1) start(*head);
}

void HostStream::pop() {
  std::shared_ptr<Batch> ended;
  std::vector<Completion*> reached;
  bool more = false;
  {
    const std::lock_guard lock(mutex_);
    ended = std::move(queue_.front());
    queue_.pop_front();
    more = !queue_.empty();
    const Result<> result = ended->completion.result();
    if (!result.ok() && !error_.has_value()) error_ = result.error();
    std::erase_if(waiters_, [&](const auto& entry) {
      if (entry.first != ended.get()) return false;
      reached.push_back(entry.second);
      return true;
    });
  }
  if (more) begin_head();
  for (Completion* completion : reached) completion->finish(std::nullopt);
}

Result<> HostStream::synchronize() {
  RONDE_TRY(Runner * runner, Runner::of_this_thread());
  Completion reached(1);
  reached.waiter = &runner->bell();
  {
    const std::lock_guard lock(mutex_);
    if (queue_.empty()) {
      if (error_.has_value()) return *std::exchange(error_, std::nullopt);
      return {};
    }
    waiters_.push_back({queue_.back().get(), &reached});
    for (const auto& batch : queue_) {
      for (const auto& work : batch->works) runner->claim(*work->seat);
    }
  }
  runner->run_until([&] { return reached.done(); }, false);
  const std::lock_guard lock(mutex_);
  if (error_.has_value()) return *std::exchange(error_, std::nullopt);
  return {};
}

Result<bool> HostStream::query() {
  const std::lock_guard lock(mutex_);
  if (error_.has_value()) return *std::exchange(error_, std::nullopt);
  return queue_.empty();
}

uintptr_t create_stream() {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  r.next += 64;
  r.live[r.next] = std::make_shared<HostStream>();
  return r.next;
}

std::shared_ptr<HostStream> find_stream(uintptr_t handle) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  const auto at = r.live.find(handle);
  return at == r.live.end() ? nullptr : at->second;
}

bool forget_stream(uintptr_t handle) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  return r.live.erase(handle) != 0;
}

}  // namespace ronde
