// Channels between devices that all have links to one NVLink switch: known without a search.
#pragma once

#include <optional>
#include <span>

#include "graph/search.h"

namespace ronde::graph {

/// Two devices or more. Nothing where no one switch joins them all.
std::optional<Channels> over_switch(const topo::Machine& machine, std::span<const topo::NodeId> devices, Shape shape,
                                    const Limits& limits);

}  // namespace ronde::graph
