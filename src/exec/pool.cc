// The pool: the process's threads that run host streams, eager messages and non-blocking communicators.
#include <fmt/core.h>
#include <memory>
#include <mutex>
#include <vector>

#include "base/config.h"
#include "base/thread.h"
#include "exec/runner.h"

namespace ronde {
namespace {

struct PoolThread {
  std::mutex mutex;  // guards inbox and runner
  std::vector<std::shared_ptr<Seat>> inbox;
  std::unique_ptr<Runner> runner;
  std::thread thread;
};

/// Lives until the process ends: its threads may be in the middle of a program's last call when static objects are destroyed.
class Pool {
 public:
  static Pool& instance() {
    static Pool* one = new Pool;
    return *one;
  }

  void adopt(Seat& seat) {
    const Result<PoolThread*> thread = pick();
    if (!thread.ok()) {
      Error error = thread.error();
      error.what = fmt::format("starting a thread for host streams: {}", error.what);
      seat.fail(std::move(error));
      return;
    }
    const std::lock_guard lock((*thread)->mutex);
    (*thread)->inbox.push_back(seat.shared_from_this());
    ring((*thread)->runner->bell());
  }

 private:
  /// The next in turn. An error only while there is no thread at all.
  Result<PoolThread*> pick() {
    const std::lock_guard lock(mutex_);
    const auto wanted = static_cast<size_t>(current_config()->integer(Setting::stream_threads));
    if (threads_.size() < wanted) {
      const Result<> started = start();
      if (!started.ok() && threads_.empty()) return started.error();
    }
    return threads_[next_++ % threads_.size()].get();
  }

  Result<> start() {
    RONDE_TRY(BellLease bell, lease_bell());
    auto entry = std::make_unique<PoolThread>();
    entry->runner = std::make_unique<Runner>(std::move(bell));
    PoolThread* const self = entry.get();
    RONDE_TRY(entry->thread, start_thread("ronde-stream", [self] {
      self->runner->run_pool([self](Runner& runner) { return take_inbox(*self, runner); });
    }));
    threads_.push_back(std::move(entry));
    return {};
  }

  static bool take_inbox(PoolThread& self, Runner& runner) {
    std::vector<std::shared_ptr<Seat>> seats;
    {
      const std::lock_guard lock(self.mutex);
      if (self.inbox.empty()) return false;
      seats.swap(self.inbox);
    }
    for (const auto& seat : seats) runner.claim_waiting(*seat);  // a synchronising thread may have been faster
    return true;
  }

  std::mutex mutex_;  // guards threads_ and next_
  std::vector<std::unique_ptr<PoolThread>> threads_;
  size_t next_ = 0;
};

}  // namespace

void give_to_pool(Seat& seat) { Pool::instance().adopt(seat); }

}  // namespace ronde
