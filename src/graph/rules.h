// What channels may use and how they pass from node to node, as users ask for it.
#pragma once

#include <cstdint>
#include <string>

#include "topo/paths.h"

namespace ronde::graph {

/// Whether a ring may leave a node by another rail than that by which it came.
enum class CrossNic : uint8_t {
  never,   ///< in and out by one rail, on all nodes
  free,    ///< by any
  faster,  ///< by another only where that carries more; then every second node passes all rings backwards, so that both ends of
           ///< each network hop are on one rail
};

struct Rules {
  CrossNic cross_nic = CrossNic::faster;
  /// Ports that are further from a GPU reach its memory through the CPU, as do those that cannot otherwise.
  topo::Distance gdr_level = topo::Distance::pxb;
  /// GPUs further apart do not access each other's memory; `loc`: none do but parts of one.
  topo::Distance p2p_level = topo::Distance::sys;
  bool p2p = true;
  bool shm = true;  ///< through memory of the CPU where there is no direct access; else such devices have the network alone
  bool pxn = true;  ///< out by a port near another GPU, over NVLink
  bool nvb = true;  ///< over NVLink through one other GPU, where two have no links of their own
  /// Orders to take instead of a search, of all channels: numbers between blanks, channels between bars: "0 1 2 3 | 3 2 1 0".
  /// Each has either all ranks, or the numbers of the devices of one node for all nodes. A chain begins at its root. Empty:
  /// search.
  std::string asked;
};

}  // namespace ronde::graph
