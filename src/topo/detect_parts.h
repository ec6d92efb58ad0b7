// What the parts of detection hand to each other: CPUs, PCI functions and ports, each as read from a host's files.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "topo/assembly.h"
#include "topo/gpu_driver.h"
#include "topo/sysfs.h"

namespace ronde::topo {

struct CpuNodes {
  std::vector<Numa> numas;        ///< those with CPUs, by id; never empty
  std::vector<CpuMask> all_cpus;  ///< of each of them, those that may not be used too
  std::map<int, size_t> homes;    ///< every NUMA node of the host, those of memory alone too: the nearest of `numas`
  int64_t quota = 0;              ///< of the cgroup, in thousandths of a CPU; 0: none
};
/// `use_affinity`: on the running host, without the CPUs that the calling thread may not use.
CpuNodes read_cpu_nodes(const HostFiles& files, bool use_affinity, Notes& notes);

struct PciFunction {
  Pci facts;  ///< speed and width as they are now
  int32_t max_speed = 0;
  int32_t max_width = 0;
  int numa = -1;
  CpuMask local_cpus;  ///< where there is no numa
  std::optional<PciAddress> parent;
  std::optional<PciAddress> physical;  ///< of a virtual function (SR-IOV) its physical one
  bool gpu = false;
  std::vector<Port> ports;
};
/// By address; the parent of each is in it.
using PciTree = std::map<PciAddress, PciFunction>;
/// Without ports.
PciTree read_pci(const HostFiles& files);

struct FoundPort {
  Port port;
  std::optional<PciAddress> pci;  ///< the function it belongs to
  int numa = -1;                  ///< of a device that is not on PCI
};
/// The ports that are not known to be down: RDMA devices', then those of network interfaces that share no wire with them.
std::vector<FoundPort> read_ports(const HostFiles& files, Notes& notes);

/// What GPUs are among a host's functions.
bool is_gpu(const PciFunction& function);

/// A host as one source has it, in parts.
struct HostFacts {
  CpuNodes cpus;
  PciTree tree;
  std::vector<FoundPort> ports;
  std::vector<DriverGpu> gpus;  ///< each at a function in `tree`
};
/// The Machine that comes of it; `notes` are the first of its notes.
Reading machine_from(HostFacts facts, Notes notes);

/// The last four groups of an address such as "0002:c903:00a0:b0c0"; nothing where they are 0, or for any other text.
std::optional<uint64_t> parse_guid(std::string_view text);
/// The last PCI address among the parts of a path.
std::optional<PciAddress> pci_address_in(std::string_view path);

}  // namespace ronde::topo
