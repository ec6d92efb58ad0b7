// Bandwidths that follow from a model, and what is assumed where nothing is known.
#pragma once

#include <cstdint>
#include <string_view>

#include "topo/machine.h"

namespace ronde::topo {

/// A bandwidth in MB/s for each direction, and where it comes from.
struct Rate {
  int64_t rate = 0;
  Source source = Source::assumed;
};

inline constexpr int32_t kAssumedPciSpeed = 8000;    ///< MT/s: the third generation, which every GPU in use has
inline constexpr int32_t kAssumedPciWidth = 16;      ///< lanes: GPUs and fast adapters; virtual machines state 0
inline constexpr int64_t kAssumedPortSpeed = 10000;  ///< Mbit/s
inline constexpr int64_t kMaxPortSpeed = 6400000;    ///< Mbit/s: what is stated beyond is no Mbit/s

/// Payload bandwidth of a PCI link; `speed` in MT/s, `width` in lanes, both above 0.
int64_t pci_rate(int32_t speed, int32_t width);
/// One NVLink of a GPU of that compute capability (0: unknown).
Rate nvlink_rate(int sm);
/// One xGMI link of an AMD GPU of that architecture ("906", "gfx942").
Rate xgmi_rate(std::string_view gcn);
/// Between two NUMA nodes of a host.
Rate socket_rate(const Numa& a, const Numa& b);
/// Between the parts of one GPU.
Rate part_rate();
/// Cores of a NUMA node to its memory, where nobody has measured it.
Rate memory_rate();

}  // namespace ronde::topo
