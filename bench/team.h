// The threads of one process, all working on the same row, and through them the threads of all processes.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "bench/failure.h"
#include "bench/job.h"

namespace ronde::bench {

/// Thrown in threads that wait for one that has failed; the failure itself is with the Team.
struct Broken {};

/// Barriers and exchanges of all threads of all processes. The first failure of a thread ends the waits of the others.
class Team {
 public:
  Team(Job& job, int threads) : job_(job), threads_(threads), mine_(static_cast<size_t>(threads)) {}

  int threads() const { return threads_; }

  /// Waits for the threads of this process.
  void local_barrier() {
    meet([] {});
  }
  /// Waits for the threads of all processes.
  void barrier();
  /// The numbers of all threads of all processes, by process, then thread. All threads pass equally many.
  std::vector<std::vector<double>> all_gather(int thread, std::vector<double> numbers);

  /// Notes the first failure, wakes the waiting, and calls what on_failure() has set.
  void fail(const TestFailure& failure);
  bool failed() const;
  /// The first failure, after failed().
  TestFailure failure() const;
  /// Called once, by the thread that fails first: has to free threads that wait inside the library.
  void on_failure(std::function<void()> action) { action_ = std::move(action); }

 private:
  /// Waits for all threads; the last to come does `work` before the others go on.
  void meet(const std::function<void()>& work);

  Job& job_;
  int threads_;
  mutable std::mutex mutex_;
  std::condition_variable turn_;
  int waiting_ = 0;
  uint64_t round_ = 0;
  std::vector<TestFailure> failure_;
  std::function<void()> action_;
  std::vector<std::vector<double>> mine_;
  std::vector<std::vector<double>> all_;
};

}  // namespace ronde::bench
