// Where a communicator's ranks lie: the machine of all of them, and the orders in which channels visit them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/result.h"
#include "boot/bootstrap.h"
#include "graph/channel.h"
#include "plan/program.h"
#include "topo/machine.h"

namespace ronde {

/// The same on all ranks.
struct Layout {
  topo::Machine machine;
  std::vector<topo::NodeId> devices;     ///< by rank
  std::vector<graph::Channel> rings;     ///< at least one; the ranks of a node follow each other
  std::vector<graph::Channel> trees;     ///< at least one; without a search of one parent after the other
  std::vector<std::vector<int>> chains;  ///< the trees as orders of all ranks: node after node, each from the head of its chain on
  std::vector<int> node_of;              ///< by rank; a node is what communicates without the network
  NodeShape nodes;
  uint64_t hash = 0;                     ///< of machine, what was asked for, the channels' orders and rates, and nodes

  /// Channel number `index` of an algorithm that walks along a ring or, `tree`, from a root.
  Channel channel(int index, bool tree) const;
};

/// Collective: each rank tells of its host and where it may run; one rank of each host, and those that see another machine than it,
/// give theirs. `gpu`: the PCI address of this rank's GPU, which it is placed on where the machine shows it and no lower rank has it; "": none,
/// or an error that has kept it from being known. Errors: that, the bootstrap's, a topology or graph file that is broken, orders asked for that are
/// none.
Result<std::shared_ptr<const Layout>> lay_out(Bootstrap& bootstrap, const Config& config, const Result<std::string>& gpu);

}  // namespace ronde
