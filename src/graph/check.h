// What is wrong with what a search is asked, and why one found nothing.
#pragma once

#include <span>

#include "graph/search.h"

namespace ronde::graph {

Result<> check_devices(const topo::Machine& machine, std::span<const topo::NodeId> devices, const Limits& limits);
/// Of one node.
Result<> check_size(size_t devices);
/// Two devices without a way, or ways that no single ring or chain can use.
Error no_channel(const topo::Machine& machine, const Ways& ways, Shape shape, const Limits& limits);

}  // namespace ronde::graph
