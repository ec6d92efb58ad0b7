// The processes of one benchmark run: they meet, exchange texts and wait for each other, without the library that they measure.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "bench/launch_env.h"
#include "bench/wire.h"

namespace ronde::bench {

/// Process 0 is the hub: it listens at the meeting place until all have come, and carries every exchange. Every member function
/// that exchanges must be called by all processes in the same order, by one thread at a time. All waits end: when a process is
/// gone (the error names it), or after the patience (the error names those that are missing). Errors are TestFailures; process 0
/// tells the others why.
class Job {
 public:
  /// Meets the other processes of `launch`; they must run the same `program` (a name). A process alone meets nobody.
  static std::unique_ptr<Job> join(const Launch& launch, const std::string& program, std::chrono::milliseconds patience);

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// The texts of all processes, in rank order.
  std::vector<std::string> all_gather(const std::string& mine);
  /// Returns when all processes have called it.
  void barrier();
  /// How long an exchange may wait for the others, who may still be checking data; 30 minutes at first.
  void set_patience(std::chrono::milliseconds patience) { patience_ = patience; }

 private:
  Job(int rank, int size) : rank_(rank), size_(size) {}
  void gather_at_hub(std::vector<std::string>& texts);
  [[noreturn]] void fail_all(const std::string& why, bool timed_out);

  int rank_;
  int size_;
  std::chrono::milliseconds patience_ = std::chrono::minutes(30);
  std::vector<Descriptor> peers_;  // of process 0: by rank; of others: the hub alone

  friend class Meeting;
};

/// "rank 3", "ranks 1, 2, 5".
std::string ranks_text(const std::vector<int>& ranks);

}  // namespace ronde::bench
