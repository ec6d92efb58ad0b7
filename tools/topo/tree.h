// A Machine as a tree, and as a table of paths.
#pragma once

#include <string>
#include <vector>

#include "tools/topo/outline.h"
#include "topo/machine.h"

namespace ronde::topo::tool {

/// "1 host, 2 NUMA nodes, 8 GPUs, 8 ports, NVSwitch".
std::string summary(const Machine& machine);

/// NUMA nodes with what is below them, then switches of NVLink, the links between NUMA nodes and the network. Each bandwidth with
/// its source. Of hosts of one build the first is shown, unless `all`.
std::string tree(const Machine& machine, const Look& look, bool all);

/// What paths are shown between: GPUs, CPU ranks, ports.
std::vector<NodeId> path_ends(const Machine& machine);
/// As many devices and ports are a table for the eye.
inline constexpr size_t kMostColumns = 40;
/// Type and GB/s of the best path from each device or port to each other, in tables as wide as `look` allows, and what the types
/// mean. Empty with less than two of them.
std::string matrix(const Machine& machine, const Look& look);

/// Both; of more than kMostColumns paths only with `all`.
std::string overview(const Machine& machine, const Look& look, bool all);

}  // namespace ronde::topo::tool
