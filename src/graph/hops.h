// The ways that channels may take between devices, and the most that all channels together could carry over them.
#pragma once

#include <span>
#include <vector>

#include "graph/channel.h"

namespace ronde::graph {

/// A way from one device to another.
struct Way {
  std::vector<topo::ArcId> arcs;
  topo::Distance distance = topo::Distance::dis;
};

/// How far a channel may go.
enum class Reach : uint8_t {
  near,  ///< over links between devices alone: NVLink, xGMI, inside a package
  far,   ///< over PCI, CPUs and C2C as well, where a near way is not there or full
};

/// All ways between the devices of a communicator, and what their arcs carry.
struct Ways {
  int devices = 0;
  std::vector<std::vector<Way>> between;  ///< by from * devices + to: near ways first
  std::vector<int64_t> capacity;          ///< MB/s by arc, 0 for arcs on no way
  std::vector<topo::NodeId> nodes;        ///< of the devices

  const std::vector<Way>& from_to(int from, int to) const { return between[static_cast<size_t>(from * devices + to)]; }
};

Ways ways_between(const topo::Machine& machine, std::span<const topo::NodeId> devices, Reach reach);

/// What is least of what can flow from a device to any other, where arc i carries capacity[i] in any unit: rings and trees pass
/// every cut between devices, so there are no more of them. 0 where a device cannot be reached.
int64_t least_flow(const topo::Machine& machine, std::span<const topo::NodeId> devices, std::span<const int64_t> capacity);
/// The sum over all devices of what can flow from each to the others.
int64_t leaving_flow(const topo::Machine& machine, std::span<const topo::NodeId> devices, std::span<const int64_t> capacity);

}  // namespace ronde::graph
