// Ways through a Machine.
#pragma once

#include <span>
#include <vector>

#include "topo/machine.h"

namespace ronde::topo {

/// One direction of a link: 2 * link from a to b, 2 * link + 1 from b to a. What a flow loads, and what a count of loads is
/// indexed by.
using ArcId = int32_t;
constexpr LinkId link_of(ArcId arc) { return arc / 2; }
constexpr ArcId reverse(ArcId arc) { return arc ^ 1; }
constexpr size_t arc_count(const Machine& machine) { return 2 * machine.links.size(); }

/// NCCL's names for how far apart two nodes are, nearest first.
enum class Distance : uint8_t {
  loc,  ///< the same device, or parts of one
  nvl,  ///< NVLink or xGMI, directly or through NVLink switches
  nvb,  ///< NVLink through another GPU
  c2c,  ///< a GPU and the NUMA node that it has coherent links to
  pix,  ///< PCI, through one switch at most
  pxb,  ///< PCI, through several switches
  p2c,  ///< C2C to the CPU, then PCI
  pxn,  ///< NVLink to another GPU, then PCI
  phb,  ///< through a NUMA node
  sys,  ///< through several NUMA nodes
  net,  ///< through the network
  dis,  ///< not connected
};
const char* to_string(Distance distance);

struct Path {
  std::vector<ArcId> arcs;  ///< in the order of travel; empty for the node itself and where there is no path
  int64_t rate = 0;  ///< MB/s that its narrowest arc carries; unbounded (INT64_MAX) for the node itself, 0 where there is no path
  Distance distance = Distance::dis;
  bool found() const { return distance != Distance::dis; }
  bool operator==(const Path&) const = default;
};

/// Which paths count, and which of them is the best. GPUs, CPU ranks and the network do not forward unless allowed to.
struct Routing {
  enum class Prefer : uint8_t {
    widest,    ///< the highest rate, of those the fewest arcs
    shortest,  ///< the fewest arcs, of those the highest rate
  };
  Prefer prefer = Prefer::widest;
  /// How many GPUs may forward what came to them over NVLink or xGMI.
  int forwarding_gpus = 0;
  /// Whether the network may carry it (between hosts it has to).
  bool network = false;
  /// What each arc still carries in MB/s, arc_count() of them; empty: the links' whole rates. Arcs with nothing left are not
  /// used.
  std::span<const int64_t> left;
};

/// A Machine's arcs by the node that they start at. Holds a reference to the Machine.
class Wiring {
 public:
  struct Hop {
    ArcId arc;
    NodeId to;
  };

  explicit Wiring(const Machine& machine);
  const Machine& machine() const { return machine_; }
  /// Those of wider links first, else in the order of links.
  std::span<const Hop> from(NodeId node) const;

 private:
  const Machine& machine_;
  std::vector<size_t> first_;  ///< by node, and the end
  std::vector<Hop> hops_;
};

/// The best path from a node to every node, by node. Of equally good ones always the same: wider links are tried first, then
/// those that come first in the Machine.
std::vector<Path> paths_from(const Wiring& wiring, NodeId from, const Routing& routing = {});
/// The best path to one node.
Path path_between(const Wiring& wiring, NodeId from, NodeId to, const Routing& routing = {});

/// The nodes that a path passes, both ends included.
std::vector<NodeId> nodes_of(const Machine& machine, NodeId from, const Path& path);

}  // namespace ronde::topo
