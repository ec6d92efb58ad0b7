#include "graph/units.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace ronde::graph {
namespace {

using topo::kNone;
using topo::Link;
using topo::Machine;
using topo::Node;
using topo::NodeId;
using topo::NodeKind;

class Splitter {
 public:
  Splitter(const Machine& machine, std::span<const NodeId> devices, bool numbers)
      : m_(machine), devices_(devices), numbers_(numbers) {}

  Units run() {
    find_parts();
    number_units();
    for (size_t i = 0; i < units_.all.size(); ++i) sort_in(i);
    return std::move(units_);
  }

 private:
  bool is_network(NodeId id) const { return m_.node(id).kind == NodeKind::network; }

  NodeId root(NodeId id) {
    while (root_[static_cast<size_t>(id)] != id) {
      NodeId& up = root_[static_cast<size_t>(id)];
      id = up = root_[static_cast<size_t>(up)];
    }
    return id;
  }

  void find_parts() {
    root_.resize(m_.nodes.size());
    std::iota(root_.begin(), root_.end(), 0);
    for (const Link& link : m_.links) {
      if (is_network(link.a) || is_network(link.b)) continue;
      const NodeId a = root(link.a);
      const NodeId b = root(link.b);
      root_[static_cast<size_t>(std::max(a, b))] = std::min(a, b);
    }
  }

  void number_units() {
    rank_of_.assign(m_.nodes.size(), -1);
    for (size_t rank = 0; rank < devices_.size(); ++rank) rank_of_[static_cast<size_t>(devices_[rank])] = static_cast<int>(rank);
    unit_of_.assign(m_.nodes.size(), -1);
    std::vector<int> unit_of_root(m_.nodes.size(), -1);
    for (size_t i = 0; i < m_.nodes.size(); ++i) {
      if (rank_of_[i] == -1) continue;
      int& unit = unit_of_root[static_cast<size_t>(root(static_cast<NodeId>(i)))];
      if (unit == -1) unit = static_cast<int>(units_.all.size());
      if (static_cast<size_t>(unit) == units_.all.size()) units_.all.emplace_back();
      units_.all[static_cast<size_t>(unit)].ranks.push_back(rank_of_[i]);
    }
    nodes_.resize(units_.all.size());
    place_.assign(m_.nodes.size(), kNone);
    for (size_t i = 0; i < m_.nodes.size(); ++i) {
      const int unit = is_network(static_cast<NodeId>(i)) ? -1 : unit_of_root[static_cast<size_t>(root(static_cast<NodeId>(i)))];
      unit_of_[i] = unit;
      if (unit == -1) continue;
      place_[i] = static_cast<NodeId>(nodes_[static_cast<size_t>(unit)].size());
      nodes_[static_cast<size_t>(unit)].push_back(static_cast<NodeId>(i));
    }
    for (size_t i = 0; i < m_.links.size(); ++i) {
      const Link& link = m_.links[i];
      const int unit = unit_of_[static_cast<size_t>(is_network(link.a) ? link.b : link.a)];
      if (unit != -1) units_.all[static_cast<size_t>(unit)].links.push_back(static_cast<topo::LinkId>(i));
    }
  }

  /// Where a node stands in its unit; the network after all others.
  NodeId place(NodeId id, const std::vector<NodeId>& nodes) const {
    if (id == kNone) return kNone;
    return is_network(id) ? static_cast<NodeId>(nodes.size()) : place_[static_cast<size_t>(id)];
  }

  /// All that the channels of a unit depend on.
  std::vector<int64_t> traits(size_t unit) const {
    const std::vector<NodeId>& nodes = nodes_[unit];
    std::vector<int64_t> all = {static_cast<int64_t>(nodes.size())};
    const int32_t first_host = m_.node(nodes[0]).host;
    for (const NodeId id : nodes) {
      const Node& node = m_.node(id);
      all.insert(all.end(), {static_cast<int64_t>(node.kind), place(node.parent, nodes),
                             node.host == kNone ? -1 : node.host - first_host, rank_of_[static_cast<size_t>(id)] != -1});
      if (node.kind == NodeKind::gpu) all.insert(all.end(), {m_.gpu(id).gdr, numbers_ ? m_.gpu(id).dev : 0});
      if (node.kind == NodeKind::port) all.insert(all.end(), {m_.port(id).gdr, m_.port(id).rail, m_.port(id).net});
    }
    for (const topo::LinkId i : units_.all[unit].links) {
      const Link& link = m_.link(i);
      all.insert(all.end(), {place(link.a, nodes), place(link.b, nodes), static_cast<int64_t>(link.kind), link.rate});
    }
    return all;
  }

  void sort_in(size_t unit) {
    const auto [known, is_new] = kind_of_.emplace(traits(unit), static_cast<int>(units_.kinds.size()));
    units_.all[unit].kind = known->second;
    if (!is_new) return;
    UnitKind kind;
    kind.machine = part(unit);
    kind.first = static_cast<int>(unit);
    for (const int rank : units_.all[unit].ranks)
      kind.devices.push_back(place_[static_cast<size_t>(devices_[static_cast<size_t>(rank)])]);
    units_.kinds.push_back(std::move(kind));
  }

  template <class T>
  static int32_t keep(std::vector<T>& to, const std::vector<T>& from, int32_t index) {
    if (index == kNone) return kNone;
    to.push_back(from[static_cast<size_t>(index)]);
    return static_cast<int32_t>(to.size() - 1);
  }

  /// One unit as a Machine.
  Machine part(size_t unit) const {
    const std::vector<NodeId>& nodes = nodes_[unit];
    Machine part;
    std::map<int32_t, int32_t> hosts = {{kNone, kNone}};
    for (const NodeId id : nodes) {
      Node node = m_.node(id);
      const auto [host, is_new] = hosts.emplace(node.host, static_cast<int32_t>(part.hosts.size()));
      if (is_new) part.hosts.push_back(m_.hosts[static_cast<size_t>(node.host)]);
      node.host = host->second;
      node.parent = place(node.parent, nodes);
      node.pci = keep(part.pci, m_.pci, node.pci);
      if (node.kind == NodeKind::numa) node.detail = keep(part.numas, m_.numas, node.detail);
      if (node.kind == NodeKind::gpu) node.detail = keep(part.gpus, m_.gpus, node.detail);
      if (node.kind == NodeKind::cpu_rank) node.detail = keep(part.cpu_ranks, m_.cpu_ranks, node.detail);
      if (node.kind == NodeKind::port) node.detail = keep(part.ports, m_.ports, node.detail);
      part.nodes.push_back(node);
    }
    for (const topo::LinkId i : units_.all[unit].links) {
      Link link = m_.link(i);
      link.a = place(link.a, nodes);
      link.b = place(link.b, nodes);
      part.links.push_back(link);
    }
    if (!part.ports.empty()) part.nodes.push_back({NodeKind::network});
    return part;
  }

  const Machine& m_;
  const std::span<const NodeId> devices_;
  const bool numbers_;
  std::vector<NodeId> root_;
  std::vector<int> rank_of_;                ///< by node, -1 for others than the devices
  std::vector<int> unit_of_;                ///< by node, -1 for the network and what has no device
  std::vector<NodeId> place_;               ///< by node: its place in its unit
  std::vector<std::vector<NodeId>> nodes_;  ///< by unit
  std::map<std::vector<int64_t>, int> kind_of_;
  Units units_;
};

}  // namespace

Units units_of(const Machine& machine, std::span<const NodeId> devices, bool numbers) {
  return Splitter(machine, devices, numbers).run();
}

}  // namespace ronde::graph
