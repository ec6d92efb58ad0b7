// The monitor: one thread that sleeps on descriptors, here the sockets to peer processes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "base/result.h"
#include "boot/fork.h"

namespace ronde {

class Monitor {
 public:
  /// Called by the thread; what it needs must be kept alive by itself.
  using Ready = std::function<void()>;
  /// Called by the thread after every wake; true: call again within 2 ms, something could not be finished.
  using After = std::function<bool()>;

  static Result<std::shared_ptr<Monitor>> start(After after);

  /// Calls `ready` whenever `fd` has something to read or its other end is gone, until unwatch.
  Result<> watch(int fd, Ready ready);
  /// To be called before `fd` is closed. A call of `ready` that has begun may still be running.
  void unwatch(int fd);
  void wake();
  /// Ends the thread. When it returns the thread has ended, unless it is the thread itself that calls.
  void stop();

 private:
  struct Source {
    int fd;
    Ready ready;
  };
  Monitor() = default;
  void run();
  void dispatch(uint64_t key);

  BootFd epoll_;
  BootFd event_;
  After after_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
  std::mutex mutex_;  // guards what follows
  std::map<uint64_t, Source> sources_;
  uint64_t next_key_ = 1;  // 0 is event_; keys are never used twice, unlike descriptor numbers
};

}  // namespace ronde
