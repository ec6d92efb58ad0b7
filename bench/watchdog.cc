#include "bench/watchdog.h"

#include <utility>

namespace ronde::bench {
namespace {

int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

Watchdog::Watchdog(int threads, std::chrono::seconds limit, std::function<void(int thread)> expired)
    : limit_(limit), expired_(std::move(expired)), started_(static_cast<size_t>(threads)) {
  if (limit_.count() > 0) thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Watchdog::watch() {
  const int64_t limit = std::chrono::duration_cast<std::chrono::steady_clock::duration>(limit_).count();
  std::unique_lock lock(mutex_);
  while (!stopping_.wait_for(lock, std::chrono::milliseconds(100), [this] { return stop_; })) {
    for (size_t t = 0; t < started_.size(); ++t) {
      const int64_t started = started_[t].load(std::memory_order_relaxed);
      if (started == 0 || now() - started < limit) continue;
      lock.unlock();
      expired_(static_cast<int>(t));
      return;
    }
  }
}

Watchdog::Step::Step(Watchdog& dog, int thread) : started_(dog.started_[static_cast<size_t>(thread)]) {
  started_.store(now(), std::memory_order_relaxed);
}

Watchdog::Step::~Step() { started_.store(0, std::memory_order_relaxed); }

}  // namespace ronde::bench
