#include "graph/load.h"

#include <fmt/core.h>

#include <algorithm>

namespace ronde::graph {
namespace {

using topo::ArcId;
using topo::Link;
using topo::Machine;
using topo::NodeId;

NodeId start_of(const Machine& machine, ArcId arc) {
  const Link& link = machine.link(topo::link_of(arc));
  return arc % 2 == 0 ? link.a : link.b;
}

/// Adds the loads of one channel after the other.
class Meter {
 public:
  Meter(const Machine& machine, std::span<const NodeId> devices) : machine_(machine), devices_(devices), wiring_(machine) {
    load_.by_arc.assign(topo::arc_count(machine), 0);
    for (const Link& link : machine.links) {
      near_.insert(near_.end(), 2, is_near_link(link.kind) ? link.rate : 0);
    }
  }

  void add(size_t number, const Channel& channel) {
    name_ = fmt::format("channel {}", number);
    added_.assign(load_.by_arc.size(), 0);
    const size_t faults = load_.faults.size();
    if (channel.rate <= 0) fault(fmt::format("its rate is {} MB/s", channel.rate));
    if (channel.ring.empty() == channel.parent.empty()) {
      fault("it has to be either a ring or a tree");
    } else if (channel.parent.empty()) {
      ring(channel);
    } else {
      tree(channel);
    }
    if (load_.faults.size() > faults) return;
    for (size_t arc = 0; arc < added_.size(); ++arc) load_.by_arc[arc] += added_[arc];
  }

  Load finish() {
    for (size_t arc = 0; arc < load_.by_arc.size(); ++arc) {
      const int64_t capacity = machine_.link(topo::link_of(static_cast<ArcId>(arc))).rate;
      if (load_.by_arc[arc] > capacity) load_.over.push_back({static_cast<ArcId>(arc), load_.by_arc[arc], capacity});
    }
    return std::move(load_);
  }

 private:
  void fault(const std::string& what) { load_.faults.push_back(fmt::format("{}: {}", name_, what)); }

  bool is_device(int device) const { return device >= 0 && static_cast<size_t>(device) < devices_.size(); }
  std::string name_of(int device) const { return topo::describe(machine_, devices_[static_cast<size_t>(device)]); }

  void ring(const Channel& channel) {
    std::vector<int> sorted = channel.ring;
    std::sort(sorted.begin(), sorted.end());
    bool all = sorted.size() == devices_.size();
    for (size_t i = 0; all && i < sorted.size(); ++i) all = sorted[i] == static_cast<int>(i);
    if (!all) return fault(fmt::format("its ring does not pass each of {} devices once", devices_.size()));
    if (!channel.hops.empty() && channel.hops.size() != channel.ring.size()) return fault("its ways are not as many as its hops");
    for (size_t i = 0; i < channel.ring.size() && channel.ring.size() > 1; ++i) {
      const int to = channel.ring[(i + 1) % channel.ring.size()];
      for (const ArcId arc : way(channel, i, channel.ring[i], to)) added_[static_cast<size_t>(arc)] += channel.rate;
    }
  }

  void tree(const Channel& channel) {
    if (channel.parent.size() != devices_.size()) return fault(fmt::format("its tree is not one of {} devices", devices_.size()));
    if (!channel.hops.empty() && channel.hops.size() != channel.parent.size())
      return fault("its ways are not as many as its devices");
    if (std::count(channel.parent.begin(), channel.parent.end(), -1) != 1) return fault("its tree has not one root");
    for (size_t i = 0; i < channel.parent.size(); ++i) {
      if (!climbs_to_root(channel.parent, static_cast<int>(i)))
        return fault(fmt::format("rank {} is not below its tree's root", i));
    }
    for (size_t i = 0; i < channel.parent.size(); ++i) {
      if (channel.parent[i] == -1) continue;
      for (const ArcId arc : way(channel, i, static_cast<int>(i), channel.parent[i])) {
        added_[static_cast<size_t>(arc)] += channel.rate;
        added_[static_cast<size_t>(topo::reverse(arc))] += channel.rate;
      }
    }
  }

  bool climbs_to_root(const std::vector<int>& parent, int device) const {
    for (size_t i = 0; i < parent.size(); ++i) {
      if (device == -1) return true;
      if (!is_device(device)) return false;
      device = parent[static_cast<size_t>(device)];
    }
    return device == -1;
  }

  /// The stated way of a hop if it leads there, else the best one.
  std::vector<ArcId> way(const Channel& channel, size_t hop, int from, int to) {
    const NodeId start = devices_[static_cast<size_t>(from)];
    const NodeId end = devices_[static_cast<size_t>(to)];
    if (channel.hops.empty()) {
      topo::Path path = best(start, end);
      if (!path.found()) fault(fmt::format("there is no way from {} to {}", name_of(from), name_of(to)));
      return path.arcs;
    }
    NodeId at = start;
    bool connected = true;
    for (const ArcId arc : channel.hops[hop]) {
      connected = connected && arc >= 0 && static_cast<size_t>(arc) < load_.by_arc.size() && start_of(machine_, arc) == at;
      if (connected) at = start_of(machine_, topo::reverse(arc));
    }
    if (connected && at == end) return channel.hops[hop];
    fault(fmt::format("its way from {} does not lead to {}", name_of(from), name_of(to)));
    return {};
  }

  /// Over the links between devices where there are any, even where a bus is wider.
  topo::Path best(NodeId from, NodeId to) const {
    topo::Routing near;
    near.left = near_;
    topo::Path path = topo::path_between(wiring_, from, to, near);
    return path.found() ? path : topo::path_between(wiring_, from, to);
  }

  const Machine& machine_;
  std::span<const NodeId> devices_;
  topo::Wiring wiring_;
  std::vector<int64_t> near_;  ///< by arc: the rates of links between devices, 0 for others
  Load load_;
  std::string name_;            ///< of the channel at hand
  std::vector<int64_t> added_;  ///< its loads
};

}  // namespace

Load load_of(const Machine& machine, std::span<const NodeId> devices, std::span<const Channel> channels) {
  Meter meter(machine, devices);
  for (size_t i = 0; i < channels.size(); ++i) meter.add(i, channels[i]);
  return meter.finish();
}

std::string describe(const Machine& machine, const Overload& overload) {
  return fmt::format("{} to {} ({}): {} of {} MB/s", topo::describe(machine, start_of(machine, overload.arc)),
                     topo::describe(machine, start_of(machine, topo::reverse(overload.arc))),
                     topo::to_string(machine.link(topo::link_of(overload.arc)).kind), overload.load, overload.capacity);
}

bool over_near_links(const Machine& machine, std::span<const Channel> channels) {
  for (const Channel& channel : channels) {
    for (const std::vector<ArcId>& hop : channel.hops) {
      if (std::any_of(hop.begin(), hop.end(), [&](ArcId arc) { return !is_near_link(machine.link(topo::link_of(arc)).kind); })) return false;
    }
  }
  return true;
}

int64_t total_rate(std::span<const Channel> channels) {
  int64_t total = 0;
  for (const Channel& channel : channels) total += channel.rate;
  return total;
}

int64_t fitting_rate(const Load& load, std::span<const Channel> channels) {
  if (!load.faults.empty()) return 0;
  const int64_t total = total_rate(channels);
  int64_t fitting = total;
  // Rates are below 2^40 and channels below 2^10, so the products could pass 2^63.
  for (const Overload& over : load.over) {
    fitting = std::min(fitting, static_cast<int64_t>(static_cast<__int128>(total) * over.capacity / over.load));
  }
  return fitting;
}

}  // namespace ronde::graph
