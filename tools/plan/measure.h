// Measures on this host: what two ranks, as threads of one process or as two processes, take for pieces of work and for calls.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "plan/costs.h"

namespace ronde::plan::tool {

/// What is timed.
enum class Subject : uint8_t {
  work,     ///< CpuWork over buffers of `bytes`, by rank 0 alone or by both
  slots,    ///< a call between the two ranks in lent slots of 64 bytes: `coll` with `bytes` in the larger buffer
  exchange  ///< the same as the library is set
};

struct Task {
  Subject subject = Subject::work;
  CpuWork work = CpuWork::copy;
  bool both = false;
  Coll coll = Coll::all_reduce;
  uint64_t bytes = 0;
  std::vector<double> nanos;  ///< of the slower rank: filled by measure()

  double median() const;
};

/// Runs all tasks one after the other, over and over, and once before without counting, so that what disturbs the host for a
/// while touches one sample of many tasks and not all of one. Ends when each task has `rounds` samples that were all taken while
/// the ranks' cores were equally far apart, at the latest after four times as many. The answer is how far that is: ns for a word
/// from one core to the other. `kind` is process (threads) or shm (two processes). Errors say what failed in which rank; nothing
/// is left behind. Takes five times the largest task's bytes of memory.
Result<double> measure(HopKind kind, int rounds, std::vector<Task>& tasks);

}  // namespace ronde::plan::tool
