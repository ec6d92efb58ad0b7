// The nodes of a communicator: groups of devices that reach each other without the network.
#pragma once

#include <span>
#include <vector>

#include "topo/machine.h"

namespace ronde::graph {

struct Unit {
  std::vector<int> ranks;           ///< in the order of the Machine
  std::vector<topo::LinkId> links;  ///< by the links of the kind's machine
  int kind = 0;                     ///< index into Units::kinds
};

/// Units that are alike in all that channels depend on.
struct UnitKind {
  topo::Machine machine;              ///< of the first such unit, with the network where it has ports
  std::vector<topo::NodeId> devices;  ///< of that machine, in the order of Unit::ranks
  int first = 0;                      ///< index into Units::all
};

struct Units {
  std::vector<Unit> all;  ///< in the order of the Machine
  std::vector<UnitKind> kinds;
};

/// Parts of the Machine without devices are left out. `numbers`: whether devices with other numbers make another kind.
Units units_of(const topo::Machine& machine, std::span<const topo::NodeId> devices, bool numbers);

}  // namespace ronde::graph
