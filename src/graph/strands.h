// What channels do inside one node, from the network and back to it.
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "graph/trials.h"
#include "graph/units.h"

namespace ronde::graph {

/// One channel inside a node of some kind, over the links of the kind's machine.
struct Strand {
  std::vector<int> devices;  ///< places in UnitKind::devices, in the order of travel; of a tree from its head on
  std::vector<std::vector<topo::ArcId>> hops;  ///< one less
  std::vector<topo::ArcId> in;                 ///< from the network to the first device
  std::vector<topo::ArcId> out;                ///< of a ring: from the last device to the network
  int rail = -1;                               ///< of `in`
};

/// The same number of strands in every kind of node, at one rate.
struct Strands {
  std::vector<std::vector<Strand>> of_kind;
  int64_t rate = 0;
  int times = 1;         ///< channels of each strand
  bool turning = false;  ///< every second node passes all rings backwards
  int64_t bound = 0;
  int64_t steps = 0;
  int64_t total() const { return rate * static_cast<int64_t>(of_kind[0].size()) * times; }
};

/// For several nodes, `nodes` in all, each kind with ports. Kinds may be one. Trees of more than two nodes come in pairs.
Result<Strands> search_strands(const Units& units, Shape shape, const Limits& limits);

}  // namespace ronde::graph
