#include "tools/plan/machine.h"

#include <algorithm>

#include "graph/channels.h"
#include "graph/load.h"
#include "topo/copies.h"

namespace ronde::plan::tool {
namespace {

constexpr int kMostCopies = 4096;

/// What the channels' hops lead over, the network aside.
HopKind kind_of(const topo::Machine& machine, const std::vector<graph::Channel>& channels) {
  return graph::over_near_links(machine, channels) ? HopKind::nvlink : HopKind::pci;
}

}  // namespace

Result<MachineRanks> ranks_of(const topo::Machine& one, int copies, int most_channels) {
  if (copies < 1 || copies > kMostCopies) return fail(Code::invalid_argument, "copies of a machine are 1 to 4096");
  const topo::Machine machine = topo::copies(one, copies);
  std::vector<topo::NodeId> devices = machine.of_kind(topo::NodeKind::gpu);
  const bool gpus = !devices.empty();
  if (!gpus) devices = machine.of_kind(topo::NodeKind::cpu_rank);
  if (devices.empty()) return fail(Code::invalid_argument, "the machine has neither GPUs nor CPU ranks; name a machine file that has some (docs/topology.md: gpu, cpurank)");
  MachineRanks it;
  it.ranks = static_cast<int>(devices.size());
  if (it.ranks == 1) return it;
  graph::Limits limits;
  limits.max_channels = most_channels;
  RONDE_TRY(const graph::Joined all, graph::find_channels(machine, devices, graph::Shape::ring, limits));
  it.nodes = node_shape(all.node_of);
  if (it.nodes.several()) it.links.network = graph::total_rate(all.channels);
  if (!gpus) return it;
  it.links.channels = static_cast<int>(all.channels.size());
  std::vector<topo::NodeId> first;
  for (size_t r = 0; r < devices.size(); ++r) {
    if (all.node_of[r] == all.node_of[0]) first.push_back(devices[r]);
  }
  it.links.inside = graph::total_rate(all.channels);
  if (!it.nodes.several()) it.links.kind = kind_of(machine, all.channels);
  if (!it.nodes.several() || first.size() == 1) return it;
  RONDE_TRY(const graph::Joined inside, graph::find_channels(machine, first, graph::Shape::ring, limits));
  it.links.inside = graph::total_rate(inside.channels);
  it.links.kind = kind_of(machine, inside.channels);
  return it;
}

}  // namespace ronde::plan::tool
