#include "topo/merge.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <numeric>
#include <set>

#include <fmt/core.h>

#include "base/hash.h"
#include "topo/merge_parts.h"
#include "topo/text.h"

namespace ronde::topo {
namespace {

/// An item of one of the hosts.
using ItemId = std::pair<int, int>;

class Merger {
 public:
  explicit Merger(Facts::Cpus cpus, bool cpu_ranks = true) : facts_(notes_, cpus), cpu_ranks_(cpu_ranks) {}

  void add(const Machine& machine) {
    const std::vector<ItemId> items = add_nodes(machine);
    int joined = kNone;
    for (const Link& link : machine.links) {
      if (machine.node(link.a).parent == link.b && upwards(link.kind)) continue;
      add_link(machine, link, items, joined);
    }
    ++view_;
  }

  Machine finish() {
    one_device_a_rank();
    name_domains();
    for (HostUnion& host : hosts_) host.emit(assembly_);
    emit_links();
    return assembly_.finish();
  }

  /// About contradictions.
  Notes& notes() { return notes_; }
  /// About what finish() found open.
  Notes& open() { return assembly_.notes(); }

 private:
  /// Links of a GPU to NVLink switches.
  struct Uplink {
    int count = 0;
    bool leads_on = false;  ///< to other hosts
  };

  static bool upwards(LinkKind kind) { return kind == LinkKind::internal || kind == LinkKind::pci || kind == LinkKind::memory; }

  UnionItem& item(const ItemId& id) { return hosts_[static_cast<size_t>(id.first)].item(id.second); }
  bool is(const ItemId& id, NodeKind kind) { return id.second >= 0 && item(id).kind == kind; }

  int host_of(uint64_t hash) {
    const auto [place, is_new] = by_hash_.emplace(hash, static_cast<int>(hosts_.size()));
    if (is_new) {
      hosts_.emplace_back(hash);
      linked_.push_back(place->second);
    }
    return place->second;
  }

  std::vector<ItemId> add_nodes(const Machine& machine);
  void add_link(const Machine& machine, const Link& link, const std::vector<ItemId>& items, int& joined);
  void agree(const char* what, int& mine, int theirs, const ItemId& whom);
  void one_device_a_rank();
  int group_of(int host) const {
    while (linked_[static_cast<size_t>(host)] != host) host = linked_[static_cast<size_t>(host)];
    return host;
  }
  void name_domains();
  void emit_links();

  Notes notes_;
  Facts facts_;
  const bool cpu_ranks_;  ///< or none of them
  Assembly assembly_;
  std::deque<HostUnion> hosts_;
  std::map<uint64_t, int> by_hash_;
  std::vector<int> linked_;  ///< by host: another one that NVLink switches join it with, or itself
  std::map<std::tuple<ItemId, ItemId, LinkKind>, int> peers_;
  std::map<std::pair<ItemId, LinkKind>, Uplink> switches_;
  std::map<std::pair<ItemId, LinkKind>, int> cpus_;
  std::set<std::pair<ItemId, ItemId>> pci_peers_;
  int view_ = 0;
};

std::vector<ItemId> Merger::add_nodes(const Machine& machine) {
  std::vector<int> hosts;
  std::vector<char> is_new;
  for (const Host& host : machine.hosts) {
    is_new.push_back(by_hash_.count(host.hash) == 0 ? 1 : 0);
    hosts.push_back(host_of(host.hash));
  }
  std::vector<int> placed(machine.nodes.size(), HostUnion::kUnplaced);
  for (size_t i = 0; i < machine.nodes.size(); ++i) {
    const Node& node = machine.nodes[i];
    const auto id = static_cast<NodeId>(i);
    if (node.host == kNone || node.kind == NodeKind::nv_switch || node.kind == NodeKind::network) continue;
    if (node.kind == NodeKind::cpu_rank && !cpu_ranks_) continue;
    // What only leads to devices is of use where it leads to one that is not known yet.
    const bool leaf = i + 1 == machine.nodes.size() || machine.nodes[i + 1].parent != id;
    const bool leads = node.kind == NodeKind::pci_switch || (node.kind == NodeKind::nic && !leaf);
    if (is_new[static_cast<size_t>(node.host)] == 0 && leads) continue;
    hosts_[static_cast<size_t>(hosts[static_cast<size_t>(node.host)])].place(machine, id, view_, placed, facts_);
  }
  std::vector<ItemId> items;
  for (size_t i = 0; i < placed.size(); ++i) {
    const int32_t host = machine.nodes[i].host;
    items.emplace_back(host == kNone ? kNone : hosts[static_cast<size_t>(host)], placed[i]);
  }
  return items;
}

void Merger::agree(const char* what, int& mine, int theirs, const ItemId& whom) {
  if (mine != 0 && mine != theirs) {
    const UnionItem& self = item(whom);
    notes_.add(fmt::format("descriptions of a host differ in {}, the smaller number counts", what),
               fmt::format("{}: {} and {}", self.pci ? to_string(self.pci->address) : "a GPU", mine, theirs));
  }
  mine = mine == 0 ? theirs : std::min(mine, theirs);
}

/// `joined`: the last host that this machine's NVLink switches have joined.
void Merger::add_link(const Machine& machine, const Link& link, const std::vector<ItemId>& items, int& joined) {
  const ItemId& a = items[static_cast<size_t>(link.a)];
  const ItemId& b = items[static_cast<size_t>(link.b)];
  if (link.kind == LinkKind::pci) {
    if (is(a, NodeKind::pci_switch) && is(b, NodeKind::pci_switch)) pci_peers_.emplace(std::min(a, b), std::max(a, b));
    return;
  }
  if (!is_peer_link(link.kind)) return;
  if (is(a, NodeKind::gpu) && is(b, NodeKind::gpu)) {
    if (a != b) agree("links between two GPUs", peers_[{std::min(a, b), std::max(a, b), link.kind}], link.count, a);
    return;
  }
  // A CPU stands before its GPUs, a switch after them.
  const bool cpu = machine.node(link.a).kind == NodeKind::numa;
  const ItemId& gpu = cpu ? b : a;
  if (!is(gpu, NodeKind::gpu)) return;
  if (cpu) {
    agree("links of a GPU to its CPU", cpus_[{gpu, link.kind}], link.count, gpu);
  } else if (machine.node(link.b).kind == NodeKind::nv_switch) {
    Uplink& up = switches_[{gpu, link.kind}];
    agree("links of a GPU to NVLink switches", up.count, link.count, gpu);
    if (machine.node(link.b).host != kNone) return;
    up.leads_on = true;
    if (joined != kNone) linked_[static_cast<size_t>(group_of(gpu.first))] = group_of(joined);
    joined = gpu.first;
  }
}

void Merger::one_device_a_rank() {
  std::set<int> seen;
  for (HostUnion& host : hosts_) {
    for (UnionItem& self : host.items()) {
      auto* gpu = std::get_if<Gpu>(&self.detail);
      auto* cpu = std::get_if<CpuRank>(&self.detail);
      if (gpu == nullptr && cpu == nullptr) continue;
      int& rank = gpu != nullptr ? gpu->rank : cpu->rank;
      if (rank < 0 || seen.insert(rank).second) continue;
      notes_.add("rank that several devices have, the first counts", fmt::format("{}", rank));
      rank = -1;
    }
  }
}

/// Switches that join GPUs of several hosts have no name where there are no others.
void Merger::name_domains() {
  std::map<int, uint64_t> names;  // by group: of its lowest host
  for (const auto& [id, up] : switches_) {
    if (!up.leads_on) continue;
    uint64_t& name = names.emplace(group_of(id.first.first), UINT64_MAX).first->second;
    name = std::min(name, fnv1a_u64(hosts_[static_cast<size_t>(id.first.first)].hash(), fnv1a("NVLink")));
  }
  if (names.size() < 2) return;
  for (const auto& [id, up] : switches_) {
    auto& gpu = std::get<Gpu>(item(id.first).detail);
    if (up.leads_on && gpu.domain == 0) gpu.domain = std::max<uint64_t>(1, names.at(group_of(id.first.first)));
  }
}

void Merger::emit_links() {
  const auto peer = [&](const ItemId& from, const ItemId& to, LinkKind kind, int count) {
    Target target;
    target.node = item(to).node;
    assembly_.peer(item(from).node, kind, target, count);
  };
  for (const auto& [ends, count] : peers_) {
    const auto& [a, b, kind] = ends;
    peer(a, b, kind, count);
    peer(b, a, kind, count);
  }
  for (const auto& [gpu, up] : switches_) {
    Target target;
    target.kind = Target::Kind::nv_switch;
    if (!up.leads_on) target.address = PciAddress{};
    assembly_.peer(item(gpu.first).node, gpu.second, target, up.count);
  }
  for (const auto& [gpu, count] : cpus_) {
    Target target;
    target.kind = Target::Kind::cpu;
    assembly_.peer(item(gpu.first).node, gpu.second, target, count);
  }
  for (const auto& [a, b] : pci_peers_) assembly_.pci_peer(item(a).node, item(b).pci->address);
}

/// The lowest rank that a Machine names; of none the highest there is.
int lowest_rank(const Machine& machine) {
  int lowest = std::numeric_limits<int>::max();
  for (const Gpu& gpu : machine.gpus) lowest = gpu.rank >= 0 ? std::min(lowest, gpu.rank) : lowest;
  for (const CpuRank& cpu : machine.cpu_ranks) lowest = cpu.rank >= 0 ? std::min(lowest, cpu.rank) : lowest;
  return lowest;
}

/// By lowest rank, then host, then text, so that the order in which machines came does not matter.
std::vector<const Machine*> in_order(std::span<const Machine> machines) {
  struct Entry {
    int rank;
    uint64_t hash;
    const Machine* machine;
    std::string text;
  };
  std::vector<Entry> entries;
  for (const Machine& m : machines) entries.push_back({lowest_rank(m), m.hosts.empty() ? 0 : m.hosts[0].hash, &m, ""});
  const auto place = [](const Entry& entry) { return std::pair(entry.rank, entry.hash); };
  std::sort(entries.begin(), entries.end(), [&](const Entry& a, const Entry& b) { return place(a) < place(b); });
  std::vector<const Machine*> all;
  for (size_t i = 0; i < entries.size();) {
    size_t end = i + 1;
    bool alike = true;
    for (; end < entries.size() && place(entries[end]) == place(entries[i]); ++end)
      alike &= *entries[end].machine == *entries[i].machine;
    if (!alike) {
      const auto first = entries.begin() + static_cast<std::ptrdiff_t>(i);
      const auto last = entries.begin() + static_cast<std::ptrdiff_t>(end);
      std::for_each(first, last, [](Entry& entry) { entry.text = to_text(*entry.machine); });
      std::sort(first, last, [](const Entry& a, const Entry& b) { return a.text < b.text; });
    }
    for (; i < end; ++i) {
      if (all.empty() || !alike || *entries[i].machine != *all.back()) all.push_back(entries[i].machine);
    }
  }
  return all;
}

}  // namespace

Result<Reading> merge(std::span<const Machine> machines) {
  if (machines.empty()) return fail(Code::invalid_argument, "Merging machines needs at least one.");
  Merger merger(Facts::Cpus::either);
  for (const Machine* machine : in_order(machines)) merger.add(*machine);
  Reading merged;
  merged.machine = merger.finish();
  merged.notes = merger.notes().sentences();
  return merged;
}

Reading complete(const Machine& first, const Machine& more) {
  Merger merger(Facts::Cpus::both);
  merger.add(first);
  merger.add(more);
  Reading merged;
  merged.machine = merger.finish();
  merged.notes = merger.notes().sentences();
  for (std::string& sentence : merger.open().sentences()) merged.notes.push_back(std::move(sentence));
  return merged;
}

Machine without_ranks(Machine machine) {
  for (Gpu& gpu : machine.gpus) gpu.rank = -1;
  Merger merger(Facts::Cpus::either, false);
  merger.add(machine);
  return merger.finish();
}

}  // namespace ronde::topo
