#include "graph/search.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "graph/check.h"
#include "graph/switched.h"
#include "graph/trials.h"

namespace ronde::graph {
namespace {

using topo::Machine;
using topo::NodeId;

Channel channel_of(const Ways& ways, Shape shape, const Order& order, int64_t rate) {
  Channel channel;
  channel.rate = rate;
  channel.hops.resize(order.devices.size());
  if (shape == Shape::ring) channel.ring = order.devices;
  if (shape == Shape::chain) channel.parent.assign(order.devices.size(), -1);
  for (size_t hop = 0; hop < order.way.size(); ++hop) {
    const int from = order.devices[hop];
    const int to = order.devices[(hop + 1) % order.devices.size()];
    const auto& arcs = ways.from_to(from, to)[static_cast<size_t>(order.way[hop])].arcs;
    if (shape == Shape::ring) {
      channel.hops[hop] = arcs;
      continue;
    }
    channel.parent[static_cast<size_t>(to)] = from;
    auto& up = channel.hops[static_cast<size_t>(to)];
    for (auto arc = arcs.rbegin(); arc != arcs.rend(); ++arc) up.push_back(topo::reverse(*arc));
  }
  return channel;
}

/// A device alone is a ring of its own.
Channels alone(Shape shape, const Limits& limits) {
  Channel channel;
  channel.rate = limits.max_rate;
  channel.hops.resize(1);
  if (shape == Shape::ring) channel.ring = {0};
  if (shape == Shape::chain) channel.parent = {-1};
  return {{channel}, limits.max_rate, 0};
}

/// For two devices or more, in the order of the machine.
Result<Channels> search_sorted(const Machine& machine, std::span<const NodeId> devices, Shape shape, const Limits& limits) {
  const Rules& rules = limits.rules;
  if (rules.p2p && rules.p2p_level >= topo::Distance::nvl) {
    if (auto switched = over_switch(machine, devices, shape, limits)) return std::move(*switched);
  }
  RONDE_TRY(check_size(devices.size()));
  const Packed packed = pack_best(machine, devices, shape, limits);
  if (packed.orders.empty()) return no_channel(machine, packed.ways, shape, limits);
  Channels found{{}, packed.bound, packed.steps};
  for (const Order& order : packed.orders) found.channels.push_back(channel_of(packed.ways, shape, order, packed.rate));
  return found;
}

/// `place[i]` is what device i of the channel is to be called.
void rename(Channel& channel, const std::vector<int>& place) {
  for (int& device : channel.ring) device = place[static_cast<size_t>(device)];
  if (channel.parent.empty()) return;
  const Channel old = channel;
  for (size_t i = 0; i < place.size(); ++i) {
    const auto to = static_cast<size_t>(place[i]);
    channel.parent[to] = old.parent[i] == -1 ? -1 : place[static_cast<size_t>(old.parent[i])];
    channel.hops[to] = old.hops[i];
  }
}

}  // namespace

Result<Channels> search(const Machine& machine, std::span<const NodeId> devices, Shape shape, const Limits& limits) {
  RONDE_TRY(check_devices(machine, devices, limits));
  if (devices.size() == 1) return alone(shape, limits);
  std::vector<int> place(devices.size());
  std::iota(place.begin(), place.end(), 0);
  const auto node_of = [&](int device) { return devices[static_cast<size_t>(device)]; };
  std::sort(place.begin(), place.end(), [&](int a, int b) { return node_of(a) < node_of(b); });
  std::vector<NodeId> sorted;
  for (const int device : place) sorted.push_back(node_of(device));
  RONDE_TRY(Channels found, search_sorted(machine, sorted, shape, limits));
  for (Channel& channel : found.channels) rename(channel, place);
  return found;
}

}  // namespace ronde::graph
