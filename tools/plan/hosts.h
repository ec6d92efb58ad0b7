// The simulation held against calls between hosts: this process is one of a job that ronde-run --hosts has started.
#pragma once

#include <string>
#include <vector>

#include "tools/plan/compare.h"

namespace ronde::plan::tool {

struct HostsOptions {
  uint64_t least = 65536;
  uint64_t most = 4 << 20;
  int rounds = 3;     ///< of which the median counts
  int64_t mbits = 0;  ///< what the link of each host carries in each direction, Mbit/s; 0: more than cores do
};

/// A job of equally many ranks on each host, in their order: what compare_hosts can simulate.
struct Job {
  int rank = 0;
  int ranks = 1;
  int hosts = 1;
  int cores = 1;  ///< that all ranks share
  uint32_t slot_capacity = 65536;  ///< of the library's slots, bytes
};
/// Hosts by what each rank calls its own. invalid_argument where the ranks are not in order, or not as many on each.
Result<int> hosts_of(const std::vector<uint64_t>& host_of_rank);

/// Whether this process stands in a job of several hosts.
bool in_hosts();
/// Measures the collectives between all ranks and predicts them. All ranks have to call; rows on rank 0 alone. Errors say what failed.
Result<std::vector<Row>> compare_hosts(const HostsOptions& options, const Costs& costs);
/// What the library would choose for `bytes` in the larger buffer of a rank, simulated for the job.
Result<Row> predict_hosts(const Job& job, Coll coll, uint64_t bytes, int64_t mbits, const Costs& costs);

}  // namespace ronde::plan::tool
