// The ways that channels may take between devices, and the most that all channels together could carry over them.
#pragma once

#include <span>
#include <vector>

#include "graph/channel.h"
#include "graph/rules.h"

namespace ronde::graph {

/// A way from one device to another.
struct Way {
  std::vector<topo::ArcId> arcs;
  topo::Distance distance = topo::Distance::dis;
  int rail = -1;         ///< of the port that leads to the network; -1 between devices
  bool returns = false;  ///< passes some link in both directions: to the CPU and back
};

/// How far a channel may go.
enum class Reach : uint8_t {
  near,  ///< over links between devices alone: NVLink, xGMI, inside a package
  far,   ///< over PCI, CPUs and C2C as well, where a near way is not there or full
};

/// One of the ways between a device and the network.
struct Door {
  int device = 0;
  int way = 0;
};

/// All ways between the devices of a communicator, and what their arcs carry.
struct Ways {
  int devices = 0;
  std::vector<std::vector<Way>> between;  ///< by from * devices + to: near ways first
  std::vector<int64_t> capacity;          ///< MB/s by arc, 0 for arcs on no way
  std::vector<topo::NodeId> nodes;        ///< of the devices

  // Of a node among several, the network is one more device, the last, at which every order begins.
  bool gated = false;
  bool one_rail = false;  ///< a ring leaves by the rail by which it came
  int times = 1;          ///< as many channels are made of each order,
  int outer = 1;          ///< and so many pass its port in each direction
  bool wheel = false;     ///< an NVLink switch joins all devices, so that orders are best when each begins one device later
  std::vector<Door> in;   ///< nearest first
  std::vector<Door> out;

  int gate() const { return gated ? devices - 1 : -1; }
  const std::vector<Way>& from_to(int from, int to) const { return between[static_cast<size_t>(from * devices + to)]; }
};

Ways ways_between(const topo::Machine& machine, std::span<const topo::NodeId> devices, Reach reach, const Rules& rules);

/// Adds the network and the ways to it through the machine's ports. `over_peers`: also out over NVLink to another GPU.
void add_gate(const topo::Machine& machine, const Rules& rules, bool over_peers, Ways& ways);

/// What is least of what can flow from a device to any other, where arc i carries capacity[i] in any unit: rings and trees pass
/// every cut between devices, so there are no more of them. 0 where a device cannot be reached; never more than `enough`.
int64_t least_flow(const topo::Wiring& wiring, std::span<const topo::NodeId> devices, std::span<const int64_t> capacity,
                   int64_t enough);
/// What can flow from one node to all others of `targets` together.
int64_t flow_from(const topo::Wiring& wiring, topo::NodeId from, std::span<const topo::NodeId> targets,
                  std::span<const int64_t> capacity);
/// The sum over all devices of what can flow from each to the others.
int64_t leaving_flow(const topo::Wiring& wiring, std::span<const topo::NodeId> devices, std::span<const int64_t> capacity);

}  // namespace ronde::graph
