#include "graph/channels.h"

namespace ronde::graph {

Result<Joined> find_channels(const topo::Machine& machine, std::span<const topo::NodeId> devices, Shape shape,
                             const Limits& limits) {
  RONDE_TRY(Channels found, search(machine, devices, shape, limits));
  Joined joined;
  joined.channels = std::move(found.channels);
  joined.bound = found.bound;
  joined.steps = found.steps;
  joined.node_of.assign(devices.size(), 0);
  return joined;
}

}  // namespace ronde::graph
