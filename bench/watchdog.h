// -T: a step of the library that takes too long ends the test.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace ronde::bench {

/// Watches the steps of some threads. Without a limit it does nothing.
class Watchdog {
 public:
  /// `expired(thread)` is called, once, by the watchdog's own thread when a step of `thread` has taken longer than `limit` (0: no
  /// limit).
  Watchdog(int threads, std::chrono::seconds limit, std::function<void(int thread)> expired);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Marks a step of `thread` from its construction to its end.
  class Step {
   public:
    Step(Watchdog& dog, int thread);
    ~Step();
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

   private:
    std::atomic<int64_t>& started_;
  };

 private:
  void watch();
  std::chrono::seconds limit_;
  std::function<void(int)> expired_;
  std::vector<std::atomic<int64_t>> started_;  // steady clock's nanoseconds, by thread; 0: in no step
  std::mutex mutex_;
  std::condition_variable stopping_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace ronde::bench
