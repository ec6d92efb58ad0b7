#include "tools/topo/channel_sets.h"

#include <fmt/core.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <set>

#include "graph/load.h"
#include "tools/topo/facts.h"

namespace ronde::topo::tool {
namespace {

/// Devices that a line of text has room for.
constexpr size_t kMostNamed = 128;
constexpr size_t kMostOrders = 16;

/// The devices of a chain, from its root; empty where it branches.
std::vector<int> chain_of(const std::vector<int>& parent) {
  std::vector<int> child(parent.size(), -1);
  int at = -1;
  for (size_t i = 0; i < parent.size(); ++i) {
    int& place = parent[i] < 0 ? at : child[static_cast<size_t>(parent[i])];
    if (place != -1) return {};
    place = static_cast<int>(i);
  }
  std::vector<int> order;
  for (; at != -1 && order.size() < parent.size(); at = child[static_cast<size_t>(at)]) order.push_back(at);
  return order;
}

/// A ring's or chain's devices from the lowest on, round; of any other tree its parents.
std::vector<int> cycle_of(const graph::Channel& channel) {
  std::vector<int> order = channel.ring.empty() ? chain_of(channel.parent) : channel.ring;
  if (order.empty()) return channel.parent;
  std::rotate(order.begin(), std::min_element(order.begin(), order.end()), order.end());
  return order;
}

}  // namespace

ChannelSet channel_set(const Machine& machine, std::vector<NodeId> devices, graph::Shape shape) {
  ChannelSet set;
  set.shape = shape;
  set.devices = std::move(devices);
  const std::clock_t start = std::clock();
  auto found = graph::find_channels(machine, set.devices, shape);
  set.ms = 1000.0 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  if (found.ok()) {
    set.channels = std::move(found->channels);
    set.bound = found->bound;
    set.nodes = found->nodes;
  } else {
    set.why_not = found.error().what;
  }
  return set;
}

std::vector<ChannelSet> channel_sets(const Machine& machine) {
  const auto devices = devices_of(machine);
  if (devices.size() < 2) return {};
  return {channel_set(machine, devices, graph::Shape::ring), channel_set(machine, devices, graph::Shape::chain)};
}

std::string shape_name(graph::Shape shape) { return shape == graph::Shape::ring ? "ring" : "tree"; }

std::string total_of(const ChannelSet& set) {
  if (set.channels.empty()) return "none: " + set.why_not;
  return fmt::format("{} x {} GB/s = {} GB/s", set.channels.size(), gbps(set.channels[0].rate),
                     gbps(graph::total_rate(set.channels)));
}

std::vector<Alike> grouped(const ChannelSet& set) {
  std::vector<Alike> groups;
  std::map<std::vector<int>, size_t> known;
  for (const graph::Channel& channel : set.channels) {
    const auto [place, is_new] = known.emplace(cycle_of(channel), groups.size());
    if (is_new) groups.push_back({channel});
    Alike& group = groups[place->second];
    ++group.count;
    group.turned += group.channel.ring != channel.ring || group.channel.parent != channel.parent;
  }
  return groups;
}

std::string title_of(const Alike& group) {
  std::string text = fmt::format("{} x {} GB/s", group.count, gbps(group.channel.rate));
  if (group.turned > 0)
    text += fmt::format(" ({} of them from another {})", group.turned, group.channel.ring.empty() ? "root" : "start");
  return text;
}

std::vector<int> numbers_of(const Machine& machine, const std::vector<NodeId>& devices) {
  std::vector<int> ranks;
  for (const NodeId id : devices) {
    const bool gpu = machine.node(id).kind == NodeKind::gpu;
    ranks.push_back(gpu ? machine.gpu(id).rank : machine.cpu_rank(id).rank);
  }
  const std::set<int> distinct(ranks.begin(), ranks.end());
  if (distinct.size() == ranks.size() && (distinct.empty() || *distinct.begin() >= 0)) return ranks;
  for (size_t i = 0; i < ranks.size(); ++i) ranks[i] = static_cast<int>(i);
  return ranks;
}

std::string order_of(const graph::Channel& channel, const std::vector<int>& numbers) {
  const auto number = [&](size_t device) { return fmt::format("{}", numbers[device]); };
  const std::vector<int> order = channel.ring.empty() ? chain_of(channel.parent) : channel.ring;
  std::string text;
  for (size_t i = 0; i < order.size() && i < kMostNamed; ++i)
    text.append(i == 0 ? "" : " ").append(number(static_cast<size_t>(order[i])));
  if (order.size() > kMostNamed) text += fmt::format(" ... ({} in all)", order.size());
  if (!order.empty()) return text;
  std::vector<std::vector<size_t>> children(channel.parent.size());
  for (size_t i = 0; i < channel.parent.size(); ++i) {
    if (channel.parent[i] >= 0) children[static_cast<size_t>(channel.parent[i])].push_back(i);
  }
  for (size_t i = 0; i < children.size(); ++i) {
    if (children[i].empty()) continue;
    if (i >= kMostNamed) return text + fmt::format(", ... ({} in all)", children.size());
    text += fmt::format("{}{}:", text.empty() ? "" : ", ", number(i));
    for (const size_t child : children[i]) text.append(" ").append(number(child));
  }
  return text;
}

std::string channels_text(const Machine& machine, const std::vector<ChannelSet>& sets) {
  std::string text;
  for (const ChannelSet& set : sets) {
    text += fmt::format("{}s: {}", shape_name(set.shape), total_of(set));
    if (!set.channels.empty()) text += fmt::format(", at most {} GB/s", gbps(set.bound));
    text += "\n";
    const auto numbers = numbers_of(machine, set.devices);
    const auto groups = grouped(set);
    for (size_t i = 0; i < groups.size() && i < kMostOrders; ++i)
      text += fmt::format("  {}: {}\n", title_of(groups[i]), order_of(groups[i].channel, numbers));
    if (groups.size() > kMostOrders) text += fmt::format("  and {} more orders\n", groups.size() - kMostOrders);
  }
  return sets.empty() ? "no channels: less than two devices\n" : text;
}

}  // namespace ronde::topo::tool
