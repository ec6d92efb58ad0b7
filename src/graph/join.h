// Channels through several nodes, of what they do inside each.
#pragma once

#include <vector>

#include "graph/channel.h"
#include "graph/strands.h"

namespace ronde::graph {

/// Appends arcs of the machine of a unit's kind as those of the unit itself; `backwards`: the way back.
void append_arcs(const Unit& unit, const std::vector<topo::ArcId>& arcs, bool backwards, std::vector<topo::ArcId>& to);

/// Rings in the order of nodes; or trees, two of each strand where the strands say so.
std::vector<Channel> join(const Units& units, const Strands& strands, Shape shape, int ranks);

}  // namespace ronde::graph
