#include "topo/assembly.h"

#include <fmt/core.h>
#include <algorithm>

#include "base/words.h"

namespace ronde::topo {

void Notes::add(std::string reason, std::string whom) {
  const auto [place, is_new] = places_.emplace(reason, groups_.size());
  if (is_new) {
    groups_.push_back({std::move(reason), {std::move(whom)}});
    return;
  }
  std::vector<std::string>& known = groups_[place->second].second;
  if (known.back() != whom) known.push_back(std::move(whom));
}

std::vector<std::string> Notes::sentences() const {
  constexpr size_t kShown = 4;
  std::vector<std::string> all;
  for (const auto& [reason, whom] : groups_) {
    std::string text = reason + ": " + whom[0];
    for (size_t i = 1; i < std::min(kShown, whom.size()); ++i) text += ", " + whom[i];
    if (whom.size() > kShown) text += fmt::format(" and {} more", whom.size() - kShown);
    all.push_back(printable(text));  // names come from files
  }
  return all;
}

int FirstLines::address(int32_t host, const PciAddress& address, bool gpu, int line, Notes& notes) {
  const auto [place, is_new] = addresses_.emplace(std::pair(host, address), std::pair(line, gpu));
  if (is_new) return 0;
  if (gpu || place->second.second) return place->second.first;
  notes.add("bus id stands more than once in a host, taken as different functions", to_string(address));
  return 0;
}

NodeId Assembly::add(NodeKind kind, NodeId parent, std::optional<Pci> pci, size_t table_size) {
  const bool detailed = kind == NodeKind::numa || kind == NodeKind::gpu || kind == NodeKind::cpu_rank || kind == NodeKind::port;
  Node node{kind, kNone, parent, kNone, detailed ? static_cast<int32_t>(table_size) - 1 : kNone};
  if (parent != kNone) node.host = m_.node(parent).host;
  if (pci) {
    node.pci = static_cast<int32_t>(m_.pci.size());
    m_.pci.push_back(*pci);
  }
  m_.nodes.push_back(node);
  return static_cast<NodeId>(m_.nodes.size() - 1);
}

int32_t Assembly::host(uint64_t hash) {
  const auto [place, is_new] = hosts_.emplace(hash, static_cast<int32_t>(m_.hosts.size()));
  if (is_new) m_.hosts.push_back({hash});
  return place->second;
}

NodeId Assembly::numa(int32_t host, Numa numa) {
  m_.numas.push_back(std::move(numa));
  const NodeId id = add(NodeKind::numa, kNone, std::nullopt, m_.numas.size());
  m_.nodes.back().host = host;
  return id;
}

NodeId Assembly::pci(NodeKind kind, NodeId parent, Pci pci) { return add(kind, parent, pci, 0); }

NodeId Assembly::gpu(NodeId parent, std::optional<Pci> pci, Gpu gpu) {
  m_.gpus.push_back(std::move(gpu));
  return add(NodeKind::gpu, parent, pci, m_.gpus.size());
}

NodeId Assembly::cpu_rank(NodeId numa, CpuRank rank) {
  m_.cpu_ranks.push_back(std::move(rank));
  return add(NodeKind::cpu_rank, numa, std::nullopt, m_.cpu_ranks.size());
}

NodeId Assembly::nic(NodeId parent, std::optional<Pci> pci) { return add(NodeKind::nic, parent, pci, 0); }

NodeId Assembly::port(NodeId nic, Port port) {
  // Some drivers state kbit/s. No port is that fast, and read as Mbit/s it would look like the best way to everywhere.
  if (port.speed > kMaxPortSpeed) {
    notes_.add(port.speed / 1000 <= kMaxPortSpeed ? "port speed taken as kbit/s" : "port speed impossible, taken as unknown",
               fmt::format("{} states {} Mbit/s", port.name.empty() ? "a port" : port.name, port.speed));
    port.speed = port.speed / 1000 <= kMaxPortSpeed ? port.speed / 1000 : 0;
  }
  m_.ports.push_back(std::move(port));
  return add(NodeKind::port, nic, std::nullopt, m_.ports.size());
}

void Assembly::peer(NodeId gpu, LinkKind kind, Target target, int count) { peers_.push_back({gpu, kind, target, count}); }

void Assembly::pci_peer(NodeId pci_switch, PciAddress target) { pci_peers_.emplace_back(pci_switch, target); }

Machine Assembly::finish() {
  parent_links();
  peer_links();
  c2c_links();
  pci_peer_links();
  socket_links();
  network_links();
  return std::move(m_);
}

}  // namespace ronde::topo
