// The best that can be packed: over which ways, and at which rate.
#pragma once

#include <span>
#include <vector>

#include "graph/search.h"
#include "graph/way_table.h"

namespace ronde::graph {

struct Packed {
  Ways ways;
  std::vector<Order> orders;  ///< none where there is no way
  int64_t rate = 0;           ///< of each channel
  int64_t bound = 0;          ///< that all channels together cannot exceed
  int64_t steps = 0;

  int64_t total() const { return rate * static_cast<int64_t>(orders.size()) * ways.times; }
};

/// How orders pass the network; of one node alone they do not.
struct Gate {
  bool open = false;
  bool one_rail = false;
  bool over_peers = false;
  int times = 1;
  int outer = 1;
};

/// Through the devices of one node, in the order of the machine. Links between devices alone where buses add nothing.
Packed pack_best(const topo::Machine& machine, std::span<const topo::NodeId> devices, Shape shape, const Limits& limits,
                 const Gate& gate = {});

/// As many orders as fit at one rate, `most` at most.
std::vector<Order> pack_at(const WayTable& table, int64_t rate, int most, int64_t& steps);

}  // namespace ronde::graph
