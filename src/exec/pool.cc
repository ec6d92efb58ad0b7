// The pool: the process's threads that run host streams, eager messages and non-blocking communicators.
#include <algorithm>
#include <memory>
#include <mutex>
#include <sched.h>
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
    PoolThread* thread = pick();
    if (thread == nullptr) {
      seat.fail(ronde::fail(Code::system_error, "no thread could be started for host streams; raise `ulimit -u` or the pids limit",
                            Scope::communicator));
      return;
    }
    const std::lock_guard lock(thread->mutex);
    thread->inbox.push_back(seat.shared_from_this());
    ring(thread->runner->bell());
  }

 private:
  PoolThread* pick() {
    const std::lock_guard lock(mutex_);
    const auto wanted = static_cast<size_t>(current_config()->integer(Setting::stream_threads));
    if (threads_.size() < wanted) start();
    return threads_.empty() ? nullptr : threads_[next_++ % threads_.size()].get();
  }

  void start() {
    Result<BellLease> bell = lease_bell();
    if (!bell.ok()) return;
    auto entry = std::make_unique<PoolThread>();
    entry->runner = std::make_unique<Runner>(std::move(bell).value());
    PoolThread* const self = entry.get();
    Result<std::thread> thread = start_thread("ronde-stream", [self] {
      self->runner->run_pool([] { return false; }, [self](Runner& runner) { take_inbox(*self, runner); });
    });
    if (!thread.ok()) return;
    entry->thread = std::move(thread).value();
    threads_.push_back(std::move(entry));
  }

  static void take_inbox(PoolThread& self, Runner& runner) {
    std::vector<std::shared_ptr<Seat>> seats;
    {
      const std::lock_guard lock(self.mutex);
      if (self.inbox.empty()) return;
      seats.swap(self.inbox);
    }
    for (const auto& seat : seats) runner.claim_waiting(*seat);  // a synchronising thread may have been faster
  }

  std::mutex mutex_;  // guards threads_ and next_
  std::vector<std::unique_ptr<PoolThread>> threads_;
  size_t next_ = 0;
};

}  // namespace

void give_to_pool(Seat& seat) { Pool::instance().adopt(seat); }

void wait_until_free(Seat& seat) {
  while (true) {
    {
      const std::lock_guard lock(seat.mutex);
      // `active` is the owner's: it may be looked at only while there is none.
      if (seat.owner != nullptr) {
        ring(seat.owner->bell());
      } else if (seat.incoming.empty() && seat.active.empty()) {
        return;
      }
    }
    sched_yield();  // the owner lets go at its next pass
  }
}

}  // namespace ronde
