#include <algorithm>
#include <utility>

#include "graph/hops.h"

namespace ronde::graph {
namespace {

using topo::ArcId;
using topo::Distance;
using topo::LinkKind;
using topo::Machine;
using topo::NodeId;
using topo::NodeKind;

/// The rates of arcs that are near, or of those that are not; inside packages both count.
std::vector<int64_t> rates(const Machine& machine, bool near) {
  std::vector<int64_t> by_arc;
  for (const topo::Link& link : machine.links) {
    const bool counts = link.kind == LinkKind::internal || is_peer_link(link.kind) == near;
    by_arc.insert(by_arc.end(), 2, counts ? link.rate : 0);
  }
  return by_arc;
}

std::vector<ArcId> backwards(const std::vector<ArcId>& arcs) {
  std::vector<ArcId> back;
  for (auto arc = arcs.rbegin(); arc != arcs.rend(); ++arc) back.push_back(topo::reverse(*arc));
  return back;
}

bool returns(const std::vector<ArcId>& arcs) {
  return std::any_of(arcs.begin(), arcs.end(),
                     [&](ArcId arc) { return std::find(arcs.begin(), arcs.end(), topo::reverse(arc)) != arcs.end(); });
}

/// Ways that pass the memory of CPUs.
class ThroughMemory {
 public:
  explicit ThroughMemory(const topo::Wiring& wiring) : wiring_(wiring), from_(wiring.machine().nodes.size()) {}

  /// From a device to another, or to a port. `paths`: the device's own.
  Way between(NodeId from, NodeId to, const std::vector<topo::Path>& paths) {
    const Machine& m = wiring_.machine();
    const NodeId near = m.numa_of(from);
    const NodeId far = m.node(to).kind == NodeKind::port ? to : m.numa_of(to);
    Way way;
    if (near == topo::kNone || far == topo::kNone || !paths[static_cast<size_t>(near)].found()) return way;
    const topo::Path& across = paths_of(near)[static_cast<size_t>(far)];
    if (!across.found()) return way;
    way.arcs = paths[static_cast<size_t>(near)].arcs;
    way.arcs.insert(way.arcs.end(), across.arcs.begin(), across.arcs.end());
    if (far != to) {
      const topo::Path& last = paths_of(far)[static_cast<size_t>(to)];
      way.arcs.insert(way.arcs.end(), last.arcs.begin(), last.arcs.end());
    }
    way.distance = m.numa_of(to) == near ? Distance::phb : Distance::sys;
    way.returns = returns(way.arcs);
    return way;
  }

 private:
  const std::vector<topo::Path>& paths_of(NodeId node) {
    std::vector<topo::Path>& known = from_[static_cast<size_t>(node)];
    if (known.empty()) known = topo::paths_from(wiring_, node);
    return known;
  }

  const topo::Wiring& wiring_;
  std::vector<std::vector<topo::Path>> from_;
};

void note_capacity(const Machine& machine, const Way& way, Ways& ways) {
  for (const ArcId arc : way.arcs) ways.capacity[static_cast<size_t>(arc)] = machine.link(topo::link_of(arc)).rate;
}

void add(const Machine& machine, Way way, size_t pair, Ways& ways) {
  std::vector<Way>& known = ways.between[pair];
  if (std::any_of(known.begin(), known.end(), [&](const Way& other) { return other.arcs == way.arcs; })) return;
  note_capacity(machine, way, ways);
  known.push_back(std::move(way));
}

/// Whether one device may access the other's memory over a path.
bool direct(const Machine& machine, NodeId a, NodeId b, Distance distance, const Rules& rules) {
  if (distance == Distance::loc) return true;
  const bool gpus = machine.node(a).kind == NodeKind::gpu && machine.node(b).kind == NodeKind::gpu;
  return gpus && rules.p2p && distance <= rules.p2p_level;
}

void near_ways(const topo::Wiring& wiring, const Rules& rules, Ways& ways) {
  const Machine& m = wiring.machine();
  const std::vector<int64_t> left = rates(m, true);
  topo::Routing routing;
  routing.left = left;
  for (const bool over_gpu : {false, true}) {
    if (over_gpu && !rules.nvb) break;
    routing.forwarding_gpus = over_gpu;
    for (size_t from = 0; from < ways.nodes.size(); ++from) {
      const auto known = ways.between.begin() + static_cast<std::ptrdiff_t>(from * ways.nodes.size());
      const auto lacking = std::count_if(known, known + ways.devices, [](const auto& some) { return some.empty(); });
      if (over_gpu && lacking <= 1) continue;
      const auto paths = topo::paths_from(wiring, ways.nodes[from], routing);
      for (size_t to = 0; to < ways.nodes.size(); ++to) {
        const topo::Path& path = paths[static_cast<size_t>(ways.nodes[to])];
        if (from == to || !path.found() || !known[static_cast<std::ptrdiff_t>(to)].empty()) continue;
        if (!direct(m, ways.nodes[from], ways.nodes[to], path.distance, rules)) continue;
        add(m, {path.arcs, path.distance}, from * ways.nodes.size() + to, ways);
      }
    }
  }
}

void far_ways(const topo::Wiring& wiring, const Rules& rules, Ways& ways) {
  const Machine& m = wiring.machine();
  const std::vector<int64_t> left = rates(m, false);
  topo::Routing routing;
  routing.left = left;
  ThroughMemory memory(wiring);
  for (size_t from = 0; from < ways.nodes.size(); ++from) {
    const auto paths = topo::paths_from(wiring, ways.nodes[from], routing);
    for (size_t to = 0; to < ways.nodes.size(); ++to) {
      const topo::Path& path = paths[static_cast<size_t>(ways.nodes[to])];
      if (from == to || !path.found()) continue;
      const size_t pair = from * ways.nodes.size() + to;
      if (direct(m, ways.nodes[from], ways.nodes[to], path.distance, rules)) {
        add(m, {path.arcs, path.distance}, pair, ways);
      } else if (rules.shm) {
        Way way = memory.between(ways.nodes[from], ways.nodes[to], paths);
        if (!way.arcs.empty()) add(m, std::move(way), pair, ways);
      }
    }
  }
}

/// A port and its link to the network.
struct Exit {
  NodeId port;
  ArcId arc;
  int rail;
};

std::vector<Exit> exits_of(const Machine& machine) {
  std::vector<Exit> exits;
  for (size_t i = 0; i < machine.links.size(); ++i) {
    const topo::Link& link = machine.links[i];
    if (link.kind != LinkKind::network) continue;
    const int rail = machine.port(link.a).rail;
    exits.push_back({link.a, static_cast<ArcId>(2 * i), rail >= 0 ? rail : static_cast<int>(exits.size())});
  }
  return exits;
}

/// By device the direct ways to each exit, empty where there is none.
std::vector<std::vector<Way>> ways_out(const topo::Wiring& wiring, const std::vector<NodeId>& devices,
                                       const std::vector<Exit>& exits, const Rules& rules) {
  const Machine& m = wiring.machine();
  ThroughMemory memory(wiring);
  std::vector<std::vector<Way>> all;
  for (const NodeId device : devices) {
    const auto paths = topo::paths_from(wiring, device);
    std::vector<Way>& own = all.emplace_back();
    for (const Exit& exit : exits) {
      const topo::Path& path = paths[static_cast<size_t>(exit.port)];
      Way way{path.arcs, path.distance};
      const bool gpu = m.node(device).kind == NodeKind::gpu;
      const bool access = path.distance <= rules.gdr_level && m.port(exit.port).gdr != 0 && (!gpu || m.gpu(device).gdr != 0);
      // Whatever passes the CPU anyway needs no access by the port.
      if (path.found() && path.distance <= Distance::pxb && !access) way = memory.between(device, exit.port, paths);
      if (!way.arcs.empty()) way.arcs.push_back(exit.arc);
      way.rail = exit.rail;
      own.push_back(std::move(way));
    }
  }
  return all;
}

/// For devices without any other way to each other: out by the port nearest to one, in by that nearest to the other.
void network_ways(const topo::Wiring& wiring, const Rules& rules, Ways& ways) {
  const auto lacks = [&](size_t pair) {
    return ways.between[pair].empty() && pair % ways.nodes.size() != pair / ways.nodes.size();
  };
  bool any = false;
  for (size_t pair = 0; pair < ways.between.size(); ++pair) any = any || lacks(pair);
  const std::vector<Exit> exits = exits_of(wiring.machine());
  if (!any || exits.empty()) return;
  const auto out = ways_out(wiring, ways.nodes, exits, rules);
  const auto nearest = [&](size_t device) {
    return *std::min_element(out[device].begin(), out[device].end(), [](const Way& a, const Way& b) {
      return std::pair(a.arcs.empty(), a.distance) < std::pair(b.arcs.empty(), b.distance);
    });
  };
  for (size_t pair = 0; pair < ways.between.size(); ++pair) {
    if (!lacks(pair)) continue;
    Way way = nearest(pair / ways.nodes.size());
    const std::vector<ArcId> in = backwards(nearest(pair % ways.nodes.size()).arcs);
    if (way.arcs.empty() || in.empty()) continue;
    way.arcs.insert(way.arcs.end(), in.begin(), in.end());
    way = {way.arcs, Distance::net, -1, returns(way.arcs)};
    add(wiring.machine(), std::move(way), pair, ways);
  }
}

constexpr int kMostPeers = 2;  ///< through as many other GPUs a device reaches a port

/// From `device` over NVLink to those GPUs that are nearest to an exit.
void over_peers(const Machine& machine, size_t device, size_t exit, const std::vector<std::vector<Way>>& out, Ways& ways) {
  const auto n = static_cast<size_t>(ways.devices);
  std::vector<size_t> peers;
  const Way& own = out[device][exit];
  for (size_t peer = 0; peer + 1 < n; ++peer) {
    const auto& between = ways.between[device * n + peer];
    const bool linked = peer != device && !between.empty() && between[0].distance == Distance::nvl;
    const Way& way = out[peer][exit];
    if (linked && !way.arcs.empty() && way.distance < Distance::pxn && (own.arcs.empty() || way.distance < own.distance))
      peers.push_back(peer);
  }
  std::stable_sort(peers.begin(), peers.end(), [&](size_t a, size_t b) { return out[a][exit].distance < out[b][exit].distance; });
  for (size_t i = 0; i < std::min<size_t>(kMostPeers, peers.size()); ++i) {
    Way way{ways.between[device * n + peers[i]][0].arcs, Distance::pxn, own.rail};
    const Way& rest = out[peers[i]][exit];
    way.arcs.insert(way.arcs.end(), rest.arcs.begin(), rest.arcs.end());
    add(machine, std::move(way), device * n + n - 1, ways);
  }
}

std::vector<Door> doors(const Ways& ways, bool in) {
  std::vector<Door> all;
  const auto way = [&](const Door& door) -> const Way& {
    const auto& known = in ? ways.from_to(ways.gate(), door.device) : ways.from_to(door.device, ways.gate());
    return known[static_cast<size_t>(door.way)];
  };
  for (int device = 0; device < ways.gate(); ++device) {
    const auto& known = in ? ways.from_to(ways.gate(), device) : ways.from_to(device, ways.gate());
    for (size_t i = 0; i < known.size(); ++i) all.push_back({device, static_cast<int>(i)});
  }
  std::stable_sort(all.begin(), all.end(), [&](const Door& a, const Door& b) { return way(a).distance < way(b).distance; });
  return all;
}

/// Whether each two devices have a way over one NVLink switch.
bool over_one_switch(const Ways& ways) {
  for (int from = 0; from < ways.gate(); ++from) {
    for (int to = 0; to < ways.gate(); ++to) {
      if (from == to) continue;
      const auto& between = ways.from_to(from, to);
      if (between.empty() || between[0].distance != Distance::nvl || between[0].arcs.size() != 2) return false;
    }
  }
  return true;
}

}  // namespace

Ways ways_between(const Machine& machine, std::span<const NodeId> devices, Reach reach, const Rules& rules) {
  const topo::Wiring wiring(machine);
  Ways ways;
  ways.devices = static_cast<int>(devices.size());
  ways.nodes.assign(devices.begin(), devices.end());
  ways.between.resize(devices.size() * devices.size());
  ways.capacity.assign(topo::arc_count(machine), 0);
  near_ways(wiring, rules, ways);
  if (reach == Reach::far) {
    far_ways(wiring, rules, ways);
    network_ways(wiring, rules, ways);
  }
  return ways;
}

void add_gate(const Machine& machine, const Rules& rules, bool to_peers, Ways& ways) {
  const topo::Wiring wiring(machine);
  const std::vector<Exit> exits = exits_of(machine);
  const auto out = ways_out(wiring, ways.nodes, exits, rules);
  const size_t k = ways.nodes.size();
  const size_t n = k + 1;
  std::vector<std::vector<Way>> between(n * n);
  for (size_t i = 0; i < k * k; ++i) between[i / k * n + i % k] = std::move(ways.between[i]);
  ways.between = std::move(between);
  ways.devices = static_cast<int>(n);
  ways.gated = true;
  ways.nodes.push_back(static_cast<NodeId>(machine.nodes.size() - 1));
  for (size_t device = 0; device < k; ++device) {
    // A way in has the number of the same way out.
    for (const Way& way : out[device]) {
      if (way.arcs.empty()) continue;
      Way back = way;
      back.arcs = backwards(way.arcs);
      add(machine, std::move(back), k * n + device, ways);
      add(machine, way, device * n + k, ways);
    }
    for (size_t exit = 0; exit < exits.size() && to_peers; ++exit) {
      const bool gpu = machine.node(ways.nodes[device]).kind == NodeKind::gpu;
      if (gpu) over_peers(machine, device, exit, out, ways);
    }
  }
  ways.wheel = over_one_switch(ways);
  ways.in = doors(ways, true);
  ways.out = doors(ways, false);
}

}  // namespace ronde::graph
