#include "topo/copies.h"

#include <algorithm>

#include "base/hash.h"

namespace ronde::topo {
namespace {

/// Where links of a Machine stand: a Machine lists all of one group before those of the next.
enum Group : size_t { to_parent, between_devices, coherent, between_switches, between_numas, to_network, kGroups };

Group group_of(const Machine& m, const Link& link) {
  switch (link.kind) {
    case LinkKind::nvlink:
    case LinkKind::xgmi:
      return between_devices;
    case LinkKind::c2c:
      return coherent;
    case LinkKind::socket:
      return between_numas;
    case LinkKind::network:
      return to_network;
    default:
      return m.node(link.a).parent == link.b ? to_parent : between_switches;
  }
}

class Copier {
 public:
  Copier(const Machine& machine, int n) : from_(machine), n_(n) {}

  Machine run() {
    place_nodes();
    for (int i = 0; i < n_; ++i) details(i);
    nodes();
    for (size_t group = 0; group < kGroups; ++group) {
      for (int i = 0; i < n_; ++i) links(static_cast<Group>(group), i);
    }
    return std::move(to_);
  }

 private:
  static bool shared(const Node& node) { return node.kind == NodeKind::network; }
  /// Nodes in preorder come first, then the switches of NVLink.
  static bool in_tree(const Node& node) { return node.kind != NodeKind::nv_switch && !shared(node); }

  void place_nodes() {
    for (const Node& node : from_.nodes) {
      (in_tree(node) ? tree_ : switches_) += !shared(node);
    }
    for (const Gpu& gpu : from_.gpus) ranks_ = std::max(ranks_, int64_t{gpu.rank} + 1);
    for (const CpuRank& device : from_.cpu_ranks) ranks_ = std::max(ranks_, int64_t{device.rank} + 1);
  }

  NodeId place(NodeId id, int copy) const {
    if (id == kNone) return kNone;
    const Node& node = from_.node(id);
    if (in_tree(node)) return id + copy * tree_;
    if (shared(node)) return n_ * (tree_ + switches_);
    return n_ * tree_ + copy * switches_ + (id - tree_);
  }

  template <class T>
  static void append(std::vector<T>& to, const std::vector<T>& from) {
    to.insert(to.end(), from.begin(), from.end());
  }

  void details(int copy) {
    const auto number = static_cast<uint64_t>(copy);
    for (const Host& host : from_.hosts) to_.hosts.push_back({copy == 0 ? host.hash : fnv1a_u64(number, host.hash)});
    append(to_.numas, from_.numas);
    append(to_.pci, from_.pci);
    append(to_.gpus, from_.gpus);
    append(to_.cpu_ranks, from_.cpu_ranks);
    append(to_.ports, from_.ports);
    for (size_t i = to_.gpus.size() - from_.gpus.size(); i < to_.gpus.size(); ++i) {
      renumber(to_.gpus[i].rank, copy);
      uint64_t& domain = to_.gpus[i].domain;
      if (domain != 0 && copy > 0) domain = std::max<uint64_t>(1, fnv1a_u64(number, domain));
      stated_domains_ = stated_domains_ || domain != 0;
    }
    for (size_t i = to_.cpu_ranks.size() - from_.cpu_ranks.size(); i < to_.cpu_ranks.size(); ++i)
      renumber(to_.cpu_ranks[i].rank, copy);
    for (size_t i = to_.ports.size() - from_.ports.size(); i < to_.ports.size(); ++i) {
      if (to_.ports[i].guid && copy > 0) to_.ports[i].guid = fnv1a_u64(number, *to_.ports[i].guid);
    }
  }

  void renumber(int& rank, int copy) const {
    if (rank >= 0) rank = n_ * ranks_ <= INT32_MAX ? static_cast<int>(rank + copy * ranks_) : -1;
  }

  size_t details_of(NodeKind kind) const {
    switch (kind) {
      case NodeKind::numa:
        return from_.numas.size();
      case NodeKind::gpu:
        return from_.gpus.size();
      case NodeKind::cpu_rank:
        return from_.cpu_ranks.size();
      default:
        return from_.ports.size();
    }
  }

  void nodes() {
    const bool network = static_cast<size_t>(tree_ + switches_) < from_.nodes.size();
    to_.nodes.resize(static_cast<size_t>(n_ * (tree_ + switches_) + network));
    for (int copy = 0; copy < n_; ++copy) {
      for (size_t i = 0; i < from_.nodes.size(); ++i) {
        Node node = from_.nodes[i];
        if (shared(node) && copy > 0) continue;
        // Where there are several hosts, switches of a stated domain are of no single one.
        if (node.kind == NodeKind::nv_switch && stated_domains_) node.host = kNone;
        if (node.host != kNone) node.host += copy * static_cast<int32_t>(from_.hosts.size());
        if (node.pci != kNone) node.pci += copy * static_cast<int32_t>(from_.pci.size());
        if (node.detail != kNone) node.detail += copy * static_cast<int32_t>(details_of(node.kind));
        node.parent = place(node.parent, copy);
        to_.nodes[static_cast<size_t>(place(static_cast<NodeId>(i), copy))] = node;
      }
    }
  }

  void links(Group group, int copy) {
    for (Link link : from_.links) {
      if (group_of(from_, link) != group) continue;
      link.a = place(link.a, copy);
      link.b = place(link.b, copy);
      to_.links.push_back(link);
    }
  }

  const Machine& from_;
  const int n_;
  int32_t tree_ = 0;             ///< how many nodes of a copy stand in preorder
  int32_t switches_ = 0;         ///< how many switches of NVLink
  int64_t ranks_ = 0;            ///< that a copy takes
  bool stated_domains_ = false;  ///< a GPU says in which NVLink domain it is
  Machine to_;
};

}  // namespace

Machine copies(const Machine& machine, int n) { return n <= 1 ? machine : Copier(machine, n).run(); }

}  // namespace ronde::topo
