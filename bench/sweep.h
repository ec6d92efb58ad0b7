// The measuring itself: each thread of each process goes through the same rows together.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bench/collectives.h"
#include "bench/options.h"
#include "bench/ranks.h"
#include "bench/result.h"
#include "bench/team.h"
#include "bench/verify.h"
#include "bench/watchdog.h"

namespace ronde::bench {

/// What one row measures.
struct RowSpec {
  ncclDataType_t type = ncclFloat32;
  Op op = Op::none;
  int root = 0;  ///< of rooted collectives
  Shape shape;

  size_t element_bytes() const { return type_size(type); }
  size_t bytes() const { return shape.larger() * element_bytes(); }
};

/// The rows of one sweep, in order.
std::vector<RowSpec> rows_of_sweep(const Collective& collective, const Options& options, int nranks);

/// Bytes that the buffers of one rank need for `rows`: send, receive with its guard.
std::pair<size_t, size_t> bytes_for(const std::vector<RowSpec>& rows, const Options& options);

/// Totals over a whole run.
struct Totals {
  uint64_t failed_checks = 0;
  double busbw_sum = 0;
  uint64_t busbw_count = 0;

  double mean_busbw() const { return busbw_count > 0 ? busbw_sum / static_cast<double>(busbw_count) : 0; }
};

/// What the thread that prints is told; all of it is called by thread 0.
struct Listener {
  std::function<void(const RowSpec&)> before_row;
  std::function<void(const Row&)> after_row;
  std::function<void(const std::string&)> wrong_data;  ///< a line about one rank; in every process
};

class Sweep {
 public:
  Sweep(const Collective& collective, const Options& options, const Placement& placement, Ranks& ranks, Team& team, Watchdog& dog,
        Listener listener);

  /// The part of one thread. Throws TestFailure, and Broken when another thread has failed.
  void run(int thread);
  const Totals& totals() const { return totals_; }
  /// What the buffers of each rank must hold: send, receive.
  std::pair<size_t, size_t> buffer_bytes() const { return {send_bytes_, recv_bytes_}; }
  size_t rows() const { return rows_.size(); }

 private:
  struct Timing {
    double seconds = 0;              // of one operation
    std::vector<double> iterations;  // microseconds
  };
  struct Checks {
    double wrong = 0;   // elements, of this thread's ranks
    double failed = 0;  // passes with any
  };

  void table_begins(int thread, const RowSpec& row);
  void warm_up(int thread, const RowSpec& row);
  Half measure(int thread, const RowSpec& row, bool in_place);
  Half combined(int thread, const RowSpec& row, const Timing& timing, const std::optional<Checks>& checks);
  Timing time(int thread, const RowSpec& row, bool in_place);
  double timed_iteration(int thread, const RowSpec& row, bool in_place, size_t number);
  Checks check(int thread, const RowSpec& row, bool in_place);
  void bring_results(int thread, const RowSpec& row, bool in_place);
  static void wait_for(const LocalRank& rank);
  void prepare_check(int thread, const RowSpec& row, bool in_place);
  void start(int thread, const RowSpec& row, bool in_place, size_t number, int operations);
  void start_group(int thread, const RowSpec& row, bool in_place, size_t number, int operations, int step);
  void complete(int thread);
  Call call_of(const LocalRank& rank, const RowSpec& row, bool in_place, size_t number) const;
  Choice chosen(const RowSpec& row);
  std::byte* buffer(void* allocated, const RowSpec& row) const;
  int first_of(int thread) const { return thread * options_.ranks_per_thread; }
  int end_of(int thread) const { return first_of(thread) + options_.ranks_per_thread; }

  const Collective& collective_;
  const Options& options_;
  const Placement& placement_;
  Ranks& ranks_;
  Team& team_;
  Watchdog& dog_;
  Listener listener_;
  std::vector<RowSpec> rows_;
  size_t send_bytes_ = 0;  // of each rank's buffers
  size_t recv_bytes_ = 0;
  Totals totals_;                       // of thread 0
  std::unique_ptr<Inputs> inputs_;      // of the check that runs
  std::unique_ptr<Verifier> verifier_;  // of the check that runs
  uint64_t seed_ = 0;                   // of thread 0
};

}  // namespace ronde::bench
