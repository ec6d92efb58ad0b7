#include "graph/switched.h"

#include <algorithm>
#include <limits>

namespace ronde::graph {
namespace {

using topo::ArcId;
using topo::Machine;
using topo::NodeId;

/// By device the arc to a switch; empty where one has none, or links to other devices besides.
std::vector<ArcId> arcs_to(const Machine& machine, std::span<const NodeId> devices, NodeId nv_switch) {
  std::vector<ArcId> to(machine.nodes.size(), topo::kNone);
  std::vector<int> near(machine.nodes.size(), 0);
  for (size_t i = 0; i < machine.links.size(); ++i) {
    const topo::Link& link = machine.links[i];
    const auto arc = static_cast<ArcId>(2 * i);
    near[static_cast<size_t>(link.a)] += is_near_link(link.kind);
    near[static_cast<size_t>(link.b)] += is_near_link(link.kind);
    if (link.b == nv_switch) to[static_cast<size_t>(link.a)] = arc;
    if (link.a == nv_switch) to[static_cast<size_t>(link.b)] = topo::reverse(arc);
  }
  std::vector<ArcId> arcs;
  for (const NodeId device : devices) {
    if (to[static_cast<size_t>(device)] == topo::kNone || near[static_cast<size_t>(device)] > 1) return {};
    arcs.push_back(to[static_cast<size_t>(device)]);
  }
  return arcs;
}

/// A number of channels and what each carries.
struct Split {
  int count = 0;
  int64_t rate = 0;
  int64_t total() const { return rate * count; }
};

/// Each ring leaves each device once.
Split split_rings(int64_t width, int64_t cap, int max_channels) {
  const auto count = static_cast<int>(std::clamp<int64_t>((width + cap - 1) / cap, 1, max_channels));
  return {count, std::min(cap, width / count)};
}

/// Each chain leaves a device inside it twice, and those at its ends once. Chain i starts at device i and ends before it, so that
/// of `count` chains every device is an end of at least as many as are whole rounds.
Split split_chains(int64_t width, int64_t cap, int max_channels, int devices) {
  Split best;
  for (int count = 1; count <= max_channels; ++count) {
    int least_ends = std::numeric_limits<int>::max();
    for (int device = 0; device < devices; ++device) {
      const auto turns = [&](int first) { return first < count ? (count - first - 1) / devices + 1 : 0; };
      least_ends = std::min(least_ends, turns(device) + turns((device + 1) % devices));
    }
    const Split now{count, std::min(cap, width / (2 * count - least_ends))};
    if (now.total() > best.total()) best = now;
  }
  return best;
}

Channel channel(const std::vector<ArcId>& up, Shape shape, int start, int64_t rate) {
  const auto n = static_cast<int>(up.size());
  Channel made;
  made.rate = rate;
  made.hops.resize(up.size());
  if (shape == Shape::chain) made.parent.assign(up.size(), -1);
  for (int i = 0; i < n; ++i) {
    const auto device = static_cast<size_t>((start + i) % n);
    const auto next = static_cast<size_t>((start + i + 1) % n);
    if (shape == Shape::ring) {
      made.ring.push_back(static_cast<int>(device));
      made.hops[static_cast<size_t>(i)] = {up[device], topo::reverse(up[next])};
    } else if (i + 1 < n) {
      made.parent[next] = static_cast<int>(device);
      made.hops[next] = {up[next], topo::reverse(up[device])};
    }
  }
  return made;
}

}  // namespace

std::optional<Channels> over_switch(const Machine& machine, std::span<const NodeId> devices, Shape shape, const Limits& limits) {
  for (const NodeId nv_switch : machine.of_kind(topo::NodeKind::nv_switch)) {
    const std::vector<ArcId> up = arcs_to(machine, devices, nv_switch);
    if (up.empty()) continue;
    int64_t width = std::numeric_limits<int64_t>::max();
    for (const ArcId arc : up) width = std::min(width, machine.link(topo::link_of(arc)).rate);
    const auto n = static_cast<int>(devices.size());
    const int64_t cap = std::max(limits.max_rate, width / limits.max_channels + 1);
    const bool rings = shape == Shape::ring;
    const Split split = rings ? split_rings(width, cap, limits.max_channels) : split_chains(width, cap, limits.max_channels, n);
    if (split.total() == 0) continue;
    Channels found;
    // Of all that leaves the devices together, each chain takes 2 * (n - 1).
    found.bound = rings ? width : std::min<int64_t>(width, width * n / (2 * (n - 1)));
    for (int i = 0; i < split.count; ++i) found.channels.push_back(channel(up, shape, rings ? 0 : i % n, split.rate));
    return found;
  }
  return std::nullopt;
}

}  // namespace ronde::graph
