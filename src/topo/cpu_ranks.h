// The cores and caches of a host, and the CPU ranks that share them out.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "topo/machine.h"

namespace ronde::topo {

/// The CPUs of one core: several with SMT.
struct Core {
  int numa = -1;
  CpuMask cpus;
  bool operator==(const Core&) const = default;
};

/// A cache of level 2 or 3 that holds data.
struct Cache {
  int level = 0;
  int64_t bytes = 0;  ///< 0: unknown
  CpuMask cpus;       ///< that share it
  bool operator==(const Cache&) const = default;
};

/// What a host has to compute with: plain data.
struct HostCpus {
  std::vector<Core> cores;    ///< by NUMA node and first CPU; without CPUs that are off or outside the cgroup's cpuset
  std::vector<Cache> caches;  ///< each once
  /// Of each NUMA node of which it is known, what its cores read from or write to its memory, the lesser, in MB/s.
  std::map<int, int64_t> memory_rates;
  /// CPUs that the cgroup may keep busy at once (cpu.max), in thousandths; 0: no limit.
  int64_t quota = 0;
  bool operator==(const HostCpus&) const = default;
};

/// Reads `root`/sys and `root`/proc as detect() does, but whatever the calling thread's affinity: ranks on one host find the
/// same.
Result<HostCpus> detect_cpus(const std::string& root);

/// The CPUs that the calling thread may use; empty where that cannot be known.
CpuMask calling_thread_affinity();

/// A CPU rank to be placed.
struct RankAffinity {
  int rank = -1;
  CpuMask cpus;  ///< that it may use; empty: all (unknown, or to be ignored)
};

/// Adds a CpuRank to `host`, a Machine of one host, or of several of which one has the hash `identity`, for each of `ranks`, all
/// of that host: on the NUMA node, of those that its CPUs are in, where each core serves the fewest ranks. Ranks that may use the
/// same CPUs of a node share its cores out, each at least one; beyond that cores serve several. `cpus` is that host's; where it
/// is empty every CPU of `host` counts as a core. Equal inputs give equal Machines, whatever the order of `ranks`. CPU ranks that
/// `host` has are left out, a GPU of one of `ranks` loses its own. Where `host` has no NUMA node it gets one.
Reading with_cpu_ranks(const Machine& host, const HostCpus& cpus, std::span<const RankAffinity> ranks, uint64_t identity = 0);

}  // namespace ronde::topo
