// What both directions of graph files share.
#pragma once

#include <cstdint>
#include <span>

#include "topo/machine.h"

namespace ronde::graph {

/// The number by which files name devices[place].
int64_t number_of(const topo::Machine& machine, std::span<const topo::NodeId> devices, size_t place);

}  // namespace ronde::graph
