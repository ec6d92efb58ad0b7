// A Machine as a drawing.
#pragma once

#include <string>
#include <vector>

#include "tools/topo/channel_sets.h"
#include "topo/machine.h"

namespace ronde::topo::tool {

/// An SVG: NUMA nodes on top, below them switches, GPUs, CPU ranks and adapters with their ports, then the links between GPUs,
/// switches of NVLink and the network, all with GB/s in each direction, and the orders of `sets` in colours. Of hosts of one
/// build one is drawn.
std::string drawing(const Machine& machine, const std::vector<ChannelSet>& sets);

}  // namespace ronde::topo::tool
