#include "topo/paths.h"

#include <algorithm>
#include <limits>

namespace ronde::topo {
namespace {

constexpr const char* kDistances[] = {"LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET", "DIS"};

NodeId end_of(const Machine& machine, ArcId arc) {
  const Link& link = machine.link(link_of(arc));
  return arc % 2 == 0 ? link.b : link.a;
}

/// What a path between two nodes meets on its way.
struct Met {
  int switches = 0;
  int numas = 0;  ///< on the way; the ends do not count
  int gpus = 0;
  bool network = false;
  bool peers_only = true;  ///< NVLink and xGMI alone
  bool internal_only = true;
};

Met met_on(const Machine& machine, const std::vector<ArcId>& arcs) {
  Met met;
  for (size_t i = 0; i < arcs.size(); ++i) {
    const LinkKind kind = machine.link(link_of(arcs[i])).kind;
    met.peers_only &= is_peer_link(kind);
    met.internal_only &= kind == LinkKind::internal;
    const NodeKind node = machine.node(end_of(machine, arcs[i])).kind;
    if (i + 1 == arcs.size()) break;
    met.numas += node == NodeKind::numa;
    met.switches += node == NodeKind::pci_switch;
    met.gpus += node == NodeKind::gpu;
    met.network |= node == NodeKind::network;
  }
  return met;
}

Distance distance_of(const Machine& machine, NodeId from, const std::vector<ArcId>& arcs) {
  if (arcs.empty()) return Distance::loc;
  const Met met = met_on(machine, arcs);
  const NodeKind first = machine.node(from).kind;
  const NodeKind last = machine.node(end_of(machine, arcs.back())).kind;
  const int numas = met.numas + (first == NodeKind::numa) + (last == NodeKind::numa);
  const auto is_c2c = [&](ArcId arc) { return machine.link(link_of(arc)).kind == LinkKind::c2c; };
  if (met.network) return Distance::net;
  if (met.internal_only && first == NodeKind::gpu && last == NodeKind::gpu) return Distance::loc;
  if (met.peers_only && met.numas == 0) return met.gpus > 0 ? Distance::nvb : Distance::nvl;
  if (numas > 1) return Distance::sys;
  if (met.gpus > 0) return Distance::pxn;
  if (arcs.size() == 1 && is_c2c(arcs[0])) return Distance::c2c;
  if (numas == 1) {
    const bool one_c2c = is_c2c(arcs.front()) != is_c2c(arcs.back());
    return one_c2c && (first == NodeKind::gpu) != (last == NodeKind::gpu) ? Distance::p2c : Distance::phb;
  }
  return met.switches > 1 ? Distance::pxb : Distance::pix;
}

/// Breadth-first searches from one node. A state is a node together with how many GPUs have forwarded on the way to it.
class Search {
 public:
  Search(const Wiring& wiring, NodeId from, const Routing& routing)
      : wiring_(wiring),
        m_(wiring.machine()),
        from_(from),
        routing_(routing),
        layers_(static_cast<size_t>(routing.forwarding_gpus) + 1) {}

  /// Best paths to all nodes, or to `to` alone where that is a node.
  std::vector<Path> run(NodeId to) {
    std::vector<Path> best(m_.nodes.size());
    const bool widest = routing_.prefer == Routing::Prefer::widest;
    if (!widest) {
      flood(1);
      shortest_ = steps_;
    }
    size_t open = to == kNone ? m_.nodes.size() : 1;
    // Fewer and fewer arcs are ruled out: the first search that reaches a node finds its widest path.
    for (const int64_t rate : rates()) {
      if (open == 0) break;
      flood(rate);
      for (size_t node = to == kNone ? 0 : static_cast<size_t>(to);
           node < (to == kNone ? m_.nodes.size() : static_cast<size_t>(to) + 1); ++node) {
        if (best[node].found() || steps_[node] == kFar) continue;
        if (!widest && steps_[node] != shortest_[node]) continue;
        best[node] = path_to(static_cast<NodeId>(node));
        --open;
      }
    }
    return best;
  }

 private:
  static constexpr int kFar = std::numeric_limits<int>::max();

  int64_t left(ArcId arc) const {
    return routing_.left.empty() ? m_.link(link_of(arc)).rate : routing_.left[static_cast<size_t>(arc)];
  }

  /// The different rates of arcs, highest first. The node itself is reached at any, so there is always one.
  std::vector<int64_t> rates() const {
    std::vector<int64_t> all;
    for (size_t arc = 0; arc < arc_count(m_); ++arc) {
      if (left(static_cast<ArcId>(arc)) > 0) all.push_back(left(static_cast<ArcId>(arc)));
    }
    std::sort(all.begin(), all.end(), std::greater<>());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    if (all.empty()) all.push_back(1);
    return all;
  }

  /// How many GPUs have forwarded when what reached `node` by `arc` leaves it again; -1 where it cannot.
  int forwarded(NodeId node, ArcId arc, int so_far) const {
    switch (m_.node(node).kind) {
      case NodeKind::cpu_rank:
        return -1;
      case NodeKind::network:
        return routing_.network ? so_far : -1;
      case NodeKind::gpu:
        return so_far < routing_.forwarding_gpus && is_peer_link(m_.link(link_of(arc)).kind) ? so_far + 1 : -1;
      default:
        return so_far;
    }
  }

  /// Fills came_by_ and steps_ with shortest paths over arcs of at least `rate`.
  void flood(int64_t rate) {
    came_by_.assign(m_.nodes.size() * layers_, kNone);
    came_from_.assign(m_.nodes.size() * layers_, kNone);
    steps_.assign(m_.nodes.size(), kFar);
    layer_of_.assign(m_.nodes.size(), 0);
    steps_[static_cast<size_t>(from_)] = 0;
    std::vector<size_t> now = {static_cast<size_t>(from_) * layers_};
    for (int step = 1; !now.empty(); ++step) {
      std::vector<size_t> next;
      for (const size_t state : now) leave(state, rate, step, next);
      now = std::move(next);
    }
  }

  void leave(size_t state, int64_t rate, int step, std::vector<size_t>& next) {
    const auto node = static_cast<NodeId>(state / layers_);
    int layer = static_cast<int>(state % layers_);
    if (node != from_) layer = forwarded(node, came_by_[state], layer);
    if (layer < 0) return;
    for (const Wiring::Hop& hop : wiring_.from(node)) {
      const size_t to = static_cast<size_t>(hop.to) * layers_ + static_cast<size_t>(layer);
      if (hop.to == from_ || came_by_[to] != kNone || left(hop.arc) < rate) continue;
      came_by_[to] = hop.arc;
      came_from_[to] = static_cast<int32_t>(state);
      next.push_back(to);
      if (steps_[static_cast<size_t>(hop.to)] != kFar) continue;
      steps_[static_cast<size_t>(hop.to)] = step;
      layer_of_[static_cast<size_t>(hop.to)] = layer;
    }
  }

  Path path_to(NodeId node) const {
    Path path;
    path.rate = std::numeric_limits<int64_t>::max();
    size_t state = static_cast<size_t>(node) * layers_ + static_cast<size_t>(layer_of_[static_cast<size_t>(node)]);
    while (came_by_[state] != kNone) {
      path.arcs.push_back(came_by_[state]);
      path.rate = std::min(path.rate, left(came_by_[state]));
      state = static_cast<size_t>(came_from_[state]);
    }
    std::reverse(path.arcs.begin(), path.arcs.end());
    path.distance = distance_of(m_, from_, path.arcs);
    return path;
  }

  const Wiring& wiring_;
  const Machine& m_;
  const NodeId from_;
  const Routing& routing_;
  const size_t layers_;
  std::vector<ArcId> came_by_;      ///< by state
  std::vector<int32_t> came_from_;  ///< the state before
  std::vector<int> steps_;          ///< by node
  std::vector<int> layer_of_;       ///< of the shortest path's last state
  std::vector<int> shortest_;
};

}  // namespace

const char* to_string(Distance distance) { return kDistances[static_cast<size_t>(distance)]; }

Wiring::Wiring(const Machine& machine) : machine_(machine), first_(machine.nodes.size() + 1) {
  for (const Link& link : machine.links) {
    ++first_[static_cast<size_t>(link.a) + 1];
    ++first_[static_cast<size_t>(link.b) + 1];
  }
  for (size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
  hops_.resize(first_.back());
  std::vector<size_t> place(first_.begin(), first_.end() - 1);
  for (size_t i = 0; i < machine.links.size(); ++i) {
    const Link& link = machine.links[i];
    const auto arc = static_cast<ArcId>(2 * i);
    hops_[place[static_cast<size_t>(link.a)]++] = {arc, link.b};
    hops_[place[static_cast<size_t>(link.b)]++] = {reverse(arc), link.a};
  }
  // Of a GPU's ways to its CPU, the coherent links before the bus.
  for (size_t node = 0; node + 1 < first_.size(); ++node) {
    const auto begin = hops_.begin() + static_cast<std::ptrdiff_t>(first_[node]);
    const auto end = hops_.begin() + static_cast<std::ptrdiff_t>(first_[node + 1]);
    std::stable_sort(begin, end, [&](const Hop& a, const Hop& b) {
      return machine.link(link_of(a.arc)).rate > machine.link(link_of(b.arc)).rate;
    });
  }
}

std::span<const Wiring::Hop> Wiring::from(NodeId node) const {
  const size_t first = first_[static_cast<size_t>(node)];
  return std::span(hops_).subspan(first, first_[static_cast<size_t>(node) + 1] - first);
}

std::vector<Path> paths_from(const Wiring& wiring, NodeId from, const Routing& routing) {
  return Search(wiring, from, routing).run(kNone);
}

Path path_between(const Wiring& wiring, NodeId from, NodeId to, const Routing& routing) {
  return std::move(Search(wiring, from, routing).run(to)[static_cast<size_t>(to)]);
}

std::vector<NodeId> nodes_of(const Machine& machine, NodeId from, const Path& path) {
  std::vector<NodeId> nodes = {from};
  for (const ArcId arc : path.arcs) nodes.push_back(end_of(machine, arc));
  return nodes;
}

}  // namespace ronde::topo
