#include <fmt/core.h>
#include <algorithm>

#include "topo/merge_parts.h"

namespace ronde::topo {
namespace {

/// The first part of a Key.
enum Identity { kNumaId, kAddress, kGpuDev, kGpuPart, kNicOf, kPort, kAnyPort, kPortDev, kRank, kUnranked };

int64_t packed(const PciAddress& address) {
  return static_cast<int64_t>(address.domain) << 16 | address.bus << 8 | address.device << 3 | address.function;
}

std::variant<std::monostate, Numa, Gpu, CpuRank, Port> detail_of(const Machine& machine, NodeId id) {
  switch (machine.node(id).kind) {
    case NodeKind::numa:
      return machine.numa(id);
    case NodeKind::gpu:
      return machine.gpu(id);
    case NodeKind::cpu_rank:
      return machine.cpu_rank(id);
    case NodeKind::port:
      return machine.port(id);
    default:
      return std::monostate();
  }
}

/// Whether what a Machine says of a node can be true below an item of that kind.
bool may_hold(NodeKind above, const Machine& machine, NodeId id) {
  const NodeKind kind = machine.node(id).kind;
  if (kind == NodeKind::port) return above == NodeKind::nic;
  if (kind == NodeKind::cpu_rank) return above == NodeKind::numa;
  if (machine.pci_of(id) != nullptr) return true;
  return above == machine.node(machine.node(id).parent).kind;
}

bool is_part(const UnionItem& item, const UnionItem& parent) {
  return item.kind == NodeKind::gpu && !item.pci && parent.kind == NodeKind::pci_function;
}

/// True where a Machine knows no more of a PCI function than that it is one.
bool is_bare(const Machine& machine, NodeId id) {
  const auto next = static_cast<size_t>(id) + 1;
  return machine.node(id).kind == NodeKind::pci_function && (next == machine.nodes.size() || machine.nodes[next].parent != id);
}

}  // namespace

/// Keys that an item made of that node is found by.
std::vector<HostUnion::Key> HostUnion::keys(const Machine& machine, NodeId id, const std::vector<int>& items) const {
  const Node& node = machine.node(id);
  const int parent = node.parent == kNone ? kNone : items[static_cast<size_t>(node.parent)];
  if (const Pci* pci = machine.pci_of(id)) return {{kAddress, packed(pci->address), 0, ""}};
  switch (node.kind) {
    case NodeKind::numa:
      return {{kNumaId, machine.numa(id).id, 0, ""}};
    case NodeKind::gpu:
      if (machine.node(node.parent).kind == NodeKind::pci_function) return {{kGpuPart, parent, machine.gpu(id).part, ""}};
      return {{kGpuDev, machine.gpu(id).dev, 0, ""}};
    case NodeKind::cpu_rank:
      if (machine.cpu_rank(id).rank >= 0) return {{kRank, machine.cpu_rank(id).rank, 0, ""}};
      return {{kUnranked, parent, 0, machine.cpu_rank(id).cpus.text()}};
    case NodeKind::port: {
      const Port& port = machine.port(id);
      if (port.name.empty()) return {{kPortDev, parent, port.dev, ""}};
      return {{kPort, port.port, 0, port.name}, {kAnyPort, 0, 0, port.name}};
    }
    default: {
      // A NIC of unknown place, by its first port.
      const auto next = static_cast<size_t>(id) + 1;
      const bool ports = next < machine.nodes.size() && machine.nodes[next].parent == id;
      return {{kNicOf, parent, 0, ports ? machine.port(static_cast<NodeId>(next)).name : ""}};
    }
  }
}

int HostUnion::take(const Key& key, int view) {
  const auto found = chains_.find(key);
  if (found == chains_.end()) return kNone;
  Chain& chain = found->second;
  if (chain.view != view) chain.next = 0;
  chain.view = view;
  while (chain.next < chain.items.size() && item(chain.items[chain.next]).view == view) ++chain.next;
  return chain.next < chain.items.size() ? chain.items[chain.next] : kNone;
}

int HostUnion::find(const Machine& machine, NodeId id, int view, const std::vector<int>& items) {
  const NodeKind kind = machine.node(id).kind;
  if (kind == NodeKind::port && !machine.port(id).name.empty()) {
    const Port& port = machine.port(id);
    if (port.port < 0) return take({kAnyPort, 0, 0, port.name}, view);
    const int same = take({kPort, port.port, 0, port.name}, view);
    return same != kNone ? same : take({kPort, -1, 0, port.name}, view);
  }
  for (const Key& key : keys(machine, id, items)) {
    if (const int found = take(key, view); found != kNone) return found;
  }
  if (kind != NodeKind::numa || roots_.size() != 1) return kNone;
  // Where both have one node alone, it is the same, also where one of them does not state its number.
  const auto numas = std::count_if(machine.nodes.begin(), machine.nodes.end(), [&](const Node& node) {
    return node.kind == NodeKind::numa && node.host == machine.node(id).host;
  });
  const bool unstated = machine.numa(id).id < 0 || std::get<Numa>(item(roots_[0]).detail).id < 0;
  return numas == 1 && unstated ? roots_[0] : kNone;
}

int HostUnion::root_of(int index) const {
  while (items_[static_cast<size_t>(index)].parent != kNone) index = items_[static_cast<size_t>(index)].parent;
  return index;
}

int HostUnion::create(const Machine& machine, NodeId id, int view, int parent) {
  const auto index = static_cast<int>(items_.size());
  UnionItem added;
  added.kind = machine.node(id).kind;
  added.parent = parent;
  if (const Pci* pci = machine.pci_of(id)) added.pci = *pci;
  added.detail = detail_of(machine, id);
  added.view = view;
  items_.push_back(std::move(added));
  (parent == kNone ? roots_ : item(parent).children).push_back(index);
  return index;
}

int HostUnion::unite(const Machine& machine, NodeId id, int index, Facts& facts) {
  UnionItem& mine = item(index);
  facts.about(machine, id);
  const NodeKind kind = machine.node(id).kind;
  const bool bare = mine.kind == NodeKind::pci_function && mine.children.empty();
  if (mine.kind != kind && !bare && !is_bare(machine, id)) {
    facts.contradiction("what a PCI function is", to_string(mine.kind), to_string(kind));
    return index;
  }
  if (const Pci* theirs = machine.pci_of(id); theirs != nullptr && mine.pci) facts.unite(*mine.pci, *theirs);
  if (mine.kind != kind) {
    if (bare) mine.detail = detail_of(machine, id);
    if (bare) mine.kind = kind;
    return index;
  }
  if (auto* numa = std::get_if<Numa>(&mine.detail)) {
    if (numa->id < 0 && machine.numa(id).id >= 0) chains_[{kNumaId, machine.numa(id).id, 0, ""}].items.push_back(index);
    facts.unite(*numa, machine.numa(id));
  }
  if (auto* gpu = std::get_if<Gpu>(&mine.detail)) facts.unite(*gpu, machine.gpu(id));
  if (auto* rank = std::get_if<CpuRank>(&mine.detail)) facts.unite(*rank, machine.cpu_rank(id));
  if (auto* port = std::get_if<Port>(&mine.detail)) facts.unite(*port, machine.port(id));
  return index;
}

int HostUnion::place(const Machine& machine, NodeId id, int view, std::vector<int>& items, Facts& facts) {
  int& place_of = items[static_cast<size_t>(id)];
  if (place_of != kUnplaced) return place_of;
  if (first_view_ == kNone) first_view_ = view;
  const NodeId above = machine.node(id).parent;
  const bool known_above = above == kNone || items[static_cast<size_t>(above)] != kUnplaced;
  // Parts and nameless ports are found by what is above them.
  const bool nameless = machine.node(id).kind == NodeKind::port && machine.port(id).name.empty();
  if (!known_above && (nameless || machine.node(above).kind == NodeKind::pci_function)) place(machine, above, view, items, facts);
  int index = view == first_view_ ? kNone : find(machine, id, view, items);
  if (index != kNone) {
    item(index).view = view;
    const NodeId numa = machine.numa_of(id);
    const int root = numa == kNone ? kNone : items[static_cast<size_t>(numa)];
    if (machine.pci_of(id) != nullptr && root >= 0 && root != root_of(index)) {
      facts.about(machine, id);
      const auto name = [&](int numa_item) { return fmt::format("{}", std::get<Numa>(item(numa_item).detail).id); };
      facts.contradiction("the NUMA node of a device", name(root_of(index)), name(root));
    }
    return place_of = unite(machine, id, index, facts);
  }
  const int parent = above == kNone ? kNone : place(machine, above, view, items, facts);
  if (above != kNone && (parent == kNone || !may_hold(item(parent).kind, machine, id))) return place_of = kNone;
  index = create(machine, id, view, parent);
  for (Key& key : keys(machine, id, items)) chains_[std::move(key)].items.push_back(index);
  return place_of = index;
}

void HostUnion::emit(Assembly& assembly) {
  const int32_t host = assembly.host(hash_);
  for (const int root : roots_) {
    item(root).node = assembly.numa(host, std::get<Numa>(item(root).detail));
    for (const int child : item(root).children) emit(assembly, child, item(root).node);
  }
}

void HostUnion::emit(Assembly& assembly, int index, NodeId parent) {
  UnionItem& self = item(index);
  switch (self.kind) {
    case NodeKind::gpu:
      self.node = assembly.gpu(parent, self.pci, std::get<Gpu>(self.detail));
      break;
    case NodeKind::cpu_rank:
      self.node = assembly.cpu_rank(parent, std::get<CpuRank>(self.detail));
      break;
    case NodeKind::nic:
      self.node = assembly.nic(parent, self.pci);
      break;
    case NodeKind::port:
      self.node = assembly.port(parent, std::get<Port>(self.detail));
      break;
    default:
      self.node = assembly.pci(self.kind, parent, *self.pci);
  }
  // Ports and parts stand before what else is below.
  const auto first = [&](int child) { return item(child).kind == NodeKind::port || is_part(item(child), self); };
  for (const bool turn : {true, false}) {
    for (const int child : self.children) {
      if (first(child) == turn) emit(assembly, child, self.node);
    }
  }
}

}  // namespace ronde::topo
