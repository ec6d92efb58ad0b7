// Channels in orders that a user asks for.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/channels.h"
#include "graph/units.h"

namespace ronde::graph {

/// The lists of numbers in "0 1 2 3 | 3 2 1 0": at least one list, none empty. Errors are invalid_argument and say where.
Result<std::vector<std::vector<int>>> parse_orders(const std::string& text);

/// Channels in the orders of limits.rules.asked, over the ways that the rules leave, at the highest common rate that all links
/// carry. No search: `bound` is what they carry. `units`: of the same machine and devices.
Result<Joined> asked_channels(const topo::Machine& machine, std::span<const topo::NodeId> devices, const Units& units,
                              Shape shape, const Limits& limits);

}  // namespace ronde::graph
