// Channels for the devices of any number of hosts.
#pragma once

#include <span>
#include <vector>

#include "graph/search.h"

namespace ronde::graph {

/// A node here is what communicates without the network: a host, or the hosts of one NVLink domain.
struct Joined {
  std::vector<Channel> channels;  ///< of all devices, all of one rate; at least one
  int64_t bound = 0;              ///< MB/s that no set of channels exceeds in total
  int64_t steps = 0;              ///< of all searches
  int nodes = 1;
  std::vector<int> node_of;  ///< by rank; in the order of the Machine
};

/// Rings, or for Shape::chain trees: a chain inside each node, and between nodes binary trees, in pairs so that a node with
/// children in one tree has none in the other. Channels of several nodes hold the ways of all hops, with the ports that they take
/// and the network. Each kind of node is searched once; unlike nodes agree on the least number of channels and the least rate.
/// For one node this is search(). devices[r] is the device of rank r; other devices and hosts of the Machine do not take part.
/// Errors: those of search(), a node without a port, orders asked for that are none.
Result<Joined> find_channels(const topo::Machine& machine, std::span<const topo::NodeId> devices, Shape shape,
                             const Limits& limits = {});

}  // namespace ronde::graph
