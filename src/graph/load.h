// What channels load the links of a Machine with: worked out from the channels alone, to check whoever made them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/channel.h"

namespace ronde::graph {

/// A direction of a link that is asked for more than it carries; MB/s.
struct Overload {
  topo::ArcId arc = 0;
  int64_t load = 0;
  int64_t capacity = 0;
};

struct Load {
  std::vector<int64_t> by_arc;      ///< MB/s, by ArcId
  std::vector<Overload> over;       ///< in the order of arcs
  std::vector<std::string> faults;  ///< what makes a channel none: a device left out, a way that does not lead there, no way
  bool fits() const { return over.empty() && faults.empty(); }
};

/// Of all channels together, over `devices` (their ranks are places in it). Channels with faults load nothing.
Load load_of(const topo::Machine& machine, std::span<const topo::NodeId> devices, std::span<const Channel> channels);

/// "gpu 3 to switch 0000:0f:02.0 (PCI): 48000 of 24000 MB/s"
std::string describe(const topo::Machine& machine, const Overload& overload);

/// Whether all hops lead over links between devices alone: NVLink, xGMI, inside a package. The network is left aside.
bool over_near_links(const topo::Machine& machine, std::span<const Channel> channels);

/// The sum of the channels' rates, in MB/s.
int64_t total_rate(std::span<const Channel> channels);
/// What is left of that sum when all rates are lowered alike until every link carries its load, rounded down; 0 with faults.
int64_t fitting_rate(const Load& load, std::span<const Channel> channels);

}  // namespace ronde::graph
