// The machine as its operating system describes it.
#pragma once

#include <string>

#include "base/result.h"
#include "topo/gpu_driver.h"
#include "topo/hwloc.h"
#include "topo/machine.h"

namespace ronde::topo {

struct DetectOptions {
  bool ignore_affinity = false;         ///< the calling thread's, on the running host: CPUs are those that it could ask for
  const GpuDrivers* drivers = nullptr;  ///< to be asked too, of the running host; nullptr: none
  const HwlocApi* hwloc = nullptr;      ///< the same; asked where files and drivers leave something open
};

/// Reads a Linux host from `root`/sys and `root`/proc; "" or "/" is the running host, any other folder a copy of some host's.
/// NUMA nodes (with the CPUs that the caller may use, by cgroup and, on the running host, by the calling thread's affinity), GPUs
/// by PCI class, network adapters with their ports, and the PCI switches above both. Numbers and models of GPUs, and the links
/// between them, are the drivers': without them they are not known. What is missing or broken there is unknown; the one error is
/// a root that is no folder. The host's hash is 0. docs/topology.md has the rules.
Result<Reading> detect(const std::string& root, const DetectOptions& options = {});

}  // namespace ronde::topo
