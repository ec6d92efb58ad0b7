#include "graph/search.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "graph/load.h"
#include "graph/switched.h"

namespace ronde::graph {
namespace {

using topo::ArcId;
using topo::Machine;
using topo::NodeId;
using topo::NodeKind;

/// How many ways of dividing a link are tried. Eight: of four chains that start at four devices, one loads each link once and
/// three load it twice, so that a seventh of the link is the best rate.
constexpr int64_t kMostPerLink = 8;

/// A rate, and how many channels of it there could be, or are.
struct Candidate {
  int64_t rate = 0;
  int count = 0;
  int64_t total() const { return rate * count; }
};
bool better(const Candidate& a, const Candidate& b) { return a.total() != b.total() ? a.total() > b.total() : a.count < b.count; }

int64_t divided_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// How many channels of a rate each arc carries.
std::vector<int64_t> room_at(const Ways& ways, int64_t rate) {
  std::vector<int64_t> room;
  for (const int64_t capacity : ways.capacity) room.push_back(capacity / rate);
  return room;
}

/// What buses carry: everything but the links between devices.
std::vector<int64_t> buses_of(const Machine& machine, const Ways& ways) {
  std::vector<int64_t> capacity = ways.capacity;
  for (size_t i = 0; i < machine.links.size(); ++i) {
    const topo::LinkKind kind = machine.links[i].kind;
    if (kind == topo::LinkKind::nvlink || kind == topo::LinkKind::xgmi) capacity[2 * i] = capacity[2 * i + 1] = 0;
  }
  return capacity;
}

/// The most that channels can carry together, in the unit of `room`.
int64_t bound_of(const Machine& machine, const Ways& ways, Shape shape, const std::vector<int64_t>& room) {
  const int64_t flow = least_flow(machine, ways.nodes, room);
  // Every hop of a chain leaves two devices.
  return shape == Shape::ring ? flow : std::min(flow, leaving_flow(machine, ways.nodes, room) / (2 * (ways.devices - 1)));
}

/// The rates worth trying: what links carry, divided. The most promising first, of equals the highest rate.
std::vector<Candidate> candidates(const Machine& machine, const Ways& ways, Shape shape, const Limits& limits, int64_t bound) {
  const int64_t cap = std::max(limits.max_rate, divided_up(bound, limits.max_channels));
  std::vector<int64_t> whole = ways.capacity;
  whole.push_back(bound);
  std::sort(whole.begin(), whole.end());
  whole.erase(std::unique(whole.begin(), whole.end()), whole.end());
  std::vector<int64_t> rates;
  for (const int64_t capacity : whole) {
    const int64_t least = std::max<int64_t>(1, divided_up(capacity, cap));
    for (int64_t parts = least; parts < least + kMostPerLink; ++parts) rates.push_back(capacity / parts);
  }
  std::sort(rates.begin(), rates.end());
  rates.erase(std::unique(rates.begin(), rates.end()), rates.end());
  std::vector<Candidate> all;
  for (const int64_t rate : rates) {
    if (rate == 0) continue;
    const int64_t most = std::min<int64_t>(limits.max_channels, bound_of(machine, ways, shape, room_at(ways, rate)));
    if (most > 0) all.push_back({rate, static_cast<int>(most)});
  }
  std::sort(all.begin(), all.end(), better);
  return all;
}

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

/// Tries one rate after the other and keeps the best.
class Trials {
 public:
  Trials(const Ways& ways, Shape shape, const Limits& limits) : ways_(ways), shape_(shape), limits_(limits) {}

  bool none() const { return orders_.empty(); }
  bool could_improve(const Candidate& candidate) const { return better(candidate, found_); }
  int64_t steps() const { return steps_; }

  void attempt(const Candidate& candidate, int64_t steps) {
    std::vector<int32_t> room;
    for (const int64_t channels : room_at(ways_, candidate.rate)) {
      room.push_back(static_cast<int32_t>(std::min<int64_t>(channels, limits_.max_channels)));
    }
    int64_t left = steps;
    std::vector<Order> packed = pack(ways_, shape_, room, candidate.count, left);
    steps_ += steps - std::max<int64_t>(left, 0);
    const Candidate now{candidate.rate, static_cast<int>(packed.size())};
    if (!better(now, found_)) return;
    found_ = now;
    orders_ = std::move(packed);
  }

  std::vector<Channel> channels() const {
    std::vector<Channel> all;
    for (const Order& order : orders_) all.push_back(channel_of(ways_, shape_, order, found_.rate));
    return all;
  }

 private:
  const Ways& ways_;
  const Shape shape_;
  const Limits& limits_;
  Candidate found_;
  std::vector<Order> orders_;
  int64_t steps_ = 0;
};

/// A rate at which any order fits, as each hop takes an arc once at most.
Candidate safe(const Ways& ways, const Limits& limits) {
  int64_t narrowest = std::numeric_limits<int64_t>::max();
  for (const int64_t capacity : ways.capacity) narrowest = capacity > 0 ? std::min(narrowest, capacity) : narrowest;
  return {std::clamp<int64_t>(narrowest / ways.devices, 1, limits.max_rate), 1};
}

/// The best channels over the given ways; none where there are no such.
Channels search_ways(const Machine& machine, const Ways& ways, Shape shape, const Limits& limits) {
  Channels best;
  best.bound = bound_of(machine, ways, shape, ways.capacity);
  if (best.bound == 0) return best;
  Trials trials(ways, shape, limits);
  const int64_t reserved = std::min(limits.steps, int64_t{ways.devices} * ways.devices);
  const int64_t some = int64_t{50} * ways.devices * ways.devices;
  for (const Candidate& candidate : candidates(machine, ways, shape, limits, best.bound)) {
    const int64_t left = limits.steps - reserved - trials.steps();
    if (left <= 0) break;
    // The most promising rates get most of the steps, and some are left for the others.
    if (trials.could_improve(candidate)) trials.attempt(candidate, std::min(left, std::max(left / 4, some)));
  }
  if (trials.none()) trials.attempt(safe(ways, limits), reserved);
  best.channels = trials.channels();
  best.steps = trials.steps();
  return best;
}

Result<> check_devices(const Machine& machine, std::span<const NodeId> devices, const Limits& limits) {
  if (devices.empty()) return fail(Code::invalid_argument, "A channel search needs at least one device.");
  if (limits.max_channels < 1 || limits.max_rate < 1) {
    return fail(Code::invalid_argument, fmt::format("A channel search may find {} channels of {} MB/s: both have to be above 0.",
                                                    limits.max_channels, limits.max_rate));
  }
  std::vector<size_t> rank_of(machine.nodes.size(), devices.size());
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    const NodeId node = devices[rank];
    if (node < 0 || static_cast<size_t>(node) >= machine.nodes.size()) {
      return fail(Code::invalid_argument,
                  fmt::format("Rank {} has device {}, but the machine has {} nodes.", rank, node, machine.nodes.size()));
    }
    const NodeKind kind = machine.node(node).kind;
    if (kind != NodeKind::gpu && kind != NodeKind::cpu_rank) {
      return fail(Code::invalid_argument,
                  fmt::format("Rank {} cannot run on {}: it is no device.", rank, topo::describe(machine, node)));
    }
    size_t& first = rank_of[static_cast<size_t>(node)];
    if (first != devices.size()) {
      return fail(Code::invalid_usage,
                  fmt::format("Ranks {} and {} both run on {}.", first, rank, topo::describe(machine, node)));
    }
    first = rank;
  }
  return {};
}

/// Why there is no channel: two devices without a way, or ways that no single ring or chain can use.
Error no_channel(const Machine& machine, const Ways& ways, Shape shape, const Limits& limits) {
  for (int to = 1; to < ways.devices; ++to) {
    if (!ways.from_to(0, to).empty()) continue;
    return fail(
        Code::invalid_usage,
        fmt::format("There is no way from {} to {} inside the machine; devices that only a network joins are "
                    "searched host by host.",
                    topo::describe(machine, ways.nodes[0]), topo::describe(machine, ways.nodes[static_cast<size_t>(to)])));
  }
  return fail(Code::internal_error, fmt::format("No {} through {} devices was found in {} steps.",
                                                shape == Shape::ring ? "ring" : "chain", ways.devices, limits.steps));
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
  if (auto switched = over_switch(machine, devices, shape, limits)) return std::move(*switched);
  if (devices.size() > kMostDevices) {
    return fail(Code::invalid_usage,
                fmt::format("Channels through {} devices cannot be searched at once, only through {}: search "
                            "those of one host and join hosts.",
                            devices.size(), kMostDevices));
  }
  Limits some = limits;
  some.steps /= 2;
  Channels near = search_ways(machine, ways_between(machine, devices, Reach::near), shape, some);
  const Ways ways = ways_between(machine, devices, Reach::far);
  // Buses are not worth a hop where the links between devices carry more than all of them.
  const int64_t buses = bound_of(machine, ways, shape, buses_of(machine, ways));
  if (!near.channels.empty() && total_rate(near.channels) >= buses) return near;
  some.steps = limits.steps - near.steps;
  Channels far = search_ways(machine, ways, shape, some);
  far.steps += near.steps;
  if (total_rate(far.channels) > total_rate(near.channels)) return far;
  if (near.channels.empty()) return no_channel(machine, ways, shape, limits);
  return near;
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
