// A timer of the process that wakes who waits for peers which may be dead. Asleep while nobody does.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "base/result.h"
#include "boot/fork.h"

namespace ronde::net {

/// Thread-safe.
class Pulse {
 public:
  static constexpr uint64_t kPause = 5 * kSecond;

  /// The process's, made if nobody holds it.
  static Result<std::shared_ptr<Pulse>> of_process();

  /// Shows something (edge-triggered) up to kPause after ask().
  int descriptor() const { return timer_.get(); }
  void ask();

 private:
  BootFd timer_;
  std::atomic<uint64_t> due_{0};  // now_ns of the next beat; in the past: none is to come
};

}  // namespace ronde::net
