// The links of a Machine, derived from what is known of its nodes.
#include <fmt/core.h>
#include <algorithm>
#include <map>
#include <tuple>

#include "topo/assembly.h"

namespace ronde::topo {
namespace {

std::string speed_text(const Pci& pci) { return fmt::format("{:g} GT/s x{}", pci.speed / 1000.0, pci.width); }

}  // namespace

// ---- to the parent

void Assembly::parent_links() {
  std::vector<std::vector<NodeId>> children(m_.nodes.size());
  std::vector<Link> links(m_.nodes.size());
  // Children first: what a switch does not state of itself is taken from what hangs below it.
  for (auto id = static_cast<NodeId>(m_.nodes.size()); id-- > 0;) {
    const NodeId parent = m_.node(id).parent;
    if (parent == kNone) continue;
    links[static_cast<size_t>(id)] = parent_link(id, children[static_cast<size_t>(id)], links);
    links[static_cast<size_t>(id)].a = id;
    links[static_cast<size_t>(id)].b = parent;
    children[static_cast<size_t>(parent)].push_back(id);
  }
  for (const Link& link : links) {
    if (link.a != kNone) m_.links.push_back(link);
  }
  for (auto note = link_notes_.rbegin(); note != link_notes_.rend(); ++note) notes_.add(note->first, note->second);
}

Link Assembly::parent_link(NodeId id, const std::vector<NodeId>& children, const std::vector<Link>& links) {
  const Node& node = m_.node(id);
  Link link;
  if (node.kind == NodeKind::port) {
    const int64_t speed = m_.port(id).speed;
    if (speed == 0) link_notes_.emplace_back("port speed unknown, taken as 10 Gbit/s", describe(m_, id));
    link.source = speed == 0 ? Source::assumed : Source::given;
    link.rate = std::max<int64_t>(1, (speed == 0 ? kAssumedPortSpeed : speed) / 8);
  } else if (node.kind == NodeKind::cpu_rank) {
    const int64_t rate = m_.cpu_rank(id).rate;
    if (rate == 0) link_notes_.emplace_back("memory bandwidth of CPU rank unknown, taken as 10 GB/s", describe(m_, id));
    link.kind = LinkKind::memory;
    link.source = rate == 0 ? memory_rate().source : Source::given;
    link.rate = rate == 0 ? memory_rate().rate : rate;
  } else if (node.kind == NodeKind::nic && node.pci == kNone) {
    // No bus is known, so the ports are what limits it.
    link.source = Source::derived;
    for (const NodeId port : children) {
      link.rate += links[static_cast<size_t>(port)].rate;
      if (links[static_cast<size_t>(port)].source == Source::assumed) link.source = Source::assumed;
    }
  } else if (node.kind == NodeKind::gpu && is_part(id)) {
    link.source = part_rate().source;
    link.rate = part_rate().rate;
  } else {
    return node.kind == NodeKind::pci_switch ? switch_link(id, children, links) : function_link(id);
  }
  return link;
}

Link Assembly::function_link(NodeId id) {
  const Pci* pci = m_.pci_of(id);
  const int32_t speed = pci == nullptr ? 0 : pci->speed;
  const int32_t width = pci == nullptr ? 0 : pci->width;
  Link link;
  link.kind = LinkKind::pci;
  link.source = speed == 0 || width == 0 ? Source::assumed : Source::derived;
  link.count = width == 0 ? kAssumedPciWidth : width;
  link.rate = pci_rate(speed == 0 ? kAssumedPciSpeed : speed, link.count);
  if (link.source == Source::assumed) {
    const char* lacking = speed != 0   ? "PCI width unknown, taken as x16"
                          : width != 0 ? "PCI speed unknown, taken as 8 GT/s"
                                       : "PCI link unknown, taken as 8 GT/s x16";
    link_notes_.emplace_back(lacking, describe(m_, id));
  }
  return link;
}

Link Assembly::switch_link(NodeId id, const std::vector<NodeId>& children, const std::vector<Link>& links) {
  const Pci& pci = *m_.pci_of(id);
  Link widest;
  for (const NodeId child : children) {
    const Link& link = links[static_cast<size_t>(child)];
    if (link.kind == LinkKind::pci && link.rate > widest.rate) widest = link;
  }
  // The switches of virtual machines state the least there is, 2.5 GT/s x1, or nothing; behind a real x1 link nothing is wider.
  const bool understated = pci.width == 1 && widest.count > 1;
  if (pci.speed != 0 && pci.width != 0 && !understated) return function_link(id);
  const std::string whom = understated ? fmt::format("{} ({})", describe(m_, id), speed_text(pci)) : describe(m_, id);
  if (widest.rate == 0) return function_link(id);
  link_notes_.emplace_back(understated ? "PCI switch states less than hangs below it, taken to be as fast as its fastest device"
                                       : "PCI switch without link speed or width, taken to be as fast as its fastest device",
                           whom);
  widest.source = Source::assumed;
  return widest;
}

// ---- NVLink, xGMI, C2C

void Assembly::index_gpus() {
  for (const NodeId id : m_.of_kind(NodeKind::gpu)) {
    const NodeId parent = m_.node(id).parent;
    if (is_part(id)) ++parts_[parent];
    // The parts of a GPU have its address; the first stands for all.
    if (const Pci* pci = m_.pci_of(is_part(id) ? parent : id)) by_address_.emplace(std::pair(m_.node(id).host, pci->address), id);
    if (m_.gpu(id).rank >= 0) by_rank_.emplace(m_.gpu(id).rank, id);
  }
}

int Assembly::parts(NodeId gpu) const { return is_part(gpu) ? parts_.at(m_.node(gpu).parent) : 1; }

Assembly::SwitchKey Assembly::switch_of(const Peer& peer) const {
  const int32_t host = m_.node(peer.gpu).host;
  const uint64_t domain = m_.gpu(peer.gpu).domain;
  if (domain != 0) return {m_.hosts.size() == 1 ? host : kNone, domain};
  // Switches that the host sees by address are its own; "the switch" of a file of several hosts joins them all.
  const bool own = m_.hosts.size() == 1 || (peer.target.address && peer.target.address->domain <= 0xffff);
  return {own ? host : kNone, 0};
}

void Assembly::add_switches() {
  // In the order of hosts, whatever the order of the links.
  for (const Peer& peer : peers_) {
    if (peer.target.kind == Target::Kind::nv_switch) nv_switches_.emplace(switch_of(peer), kNone);
  }
  for (auto& [key, id] : nv_switches_) {
    id = add(NodeKind::nv_switch, kNone, std::nullopt, 0);
    m_.nodes.back().host = key.first;
  }
}

NodeId Assembly::other_end(const Peer& peer) {
  const Target& target = peer.target;
  if (target.kind == Target::Kind::cpu) return m_.numa_of(peer.gpu);
  if (target.kind == Target::Kind::nv_switch) return nv_switches_.at(switch_of(peer));
  NodeId other = target.node;
  if (other == kNone && target.address) {
    const auto found = by_address_.find({m_.node(peer.gpu).host, *target.address});
    if (found != by_address_.end()) other = found->second;
  } else if (other == kNone) {
    const auto found = by_rank_.find(target.rank);
    if (found != by_rank_.end()) other = found->second;
  }
  const std::string from = describe(m_, peer.gpu);
  if (other == kNone) {
    const std::string to = target.address ? to_string(*target.address) : fmt::format("rank {}", target.rank);
    notes_.add(fmt::format("{} link to a GPU that is not there ignored", to_string(peer.kind)), from + " to " + to);
  } else if (other == peer.gpu || (is_part(other) && m_.node(other).parent == m_.node(peer.gpu).parent)) {
    notes_.add(fmt::format("{} link of a GPU to itself ignored", to_string(peer.kind)), from);
    other = kNone;
  }
  return other;
}

Rate Assembly::per_link(NodeId node, LinkKind kind) const {
  return kind == LinkKind::nvlink ? nvlink_rate(m_.gpu(node).sm) : xgmi_rate(m_.gpu(node).gcn);
}

Link Assembly::peer_link(LinkKind kind, NodeId low, NodeId high, const Counts& counts) {
  Link link{low, high, kind, Source::table, std::max(counts.low, counts.high), 0};
  const bool both_gpus = m_.node(high).kind == NodeKind::gpu && m_.node(low).kind == NodeKind::gpu;
  const NodeId gpu = m_.node(low).kind == NodeKind::gpu ? low : high;
  Rate rate = per_link(gpu, kind);
  if (both_gpus) {
    const Rate other = per_link(high, kind);
    rate = {std::min(rate.rate, other.rate), std::max(rate.source, other.source)};
    if (counts.low != counts.high) {
      notes_.add(
          fmt::format("{} links that the two GPUs count differently, taken as the smaller number above 0", to_string(kind)),
          fmt::format("{} has {} to {}, which has {}", describe(m_, low), counts.low, describe(m_, high), counts.high));
      if (counts.low != 0 && counts.high != 0) link.count = std::min(counts.low, counts.high);
    }
  }
  if (rate.source == Source::assumed)
    notes_.add(fmt::format("model of GPU unknown, its {} links taken as slow ones", to_string(kind)), describe(m_, gpu));
  link.source = rate.source;
  link.rate = std::max<int64_t>(1, rate.rate * link.count / std::max(parts(gpu), both_gpus ? parts(high) : 1));
  return link;
}

void Assembly::peer_links() {
  index_gpus();
  add_switches();
  std::map<std::tuple<NodeId, NodeId, LinkKind>, Counts> pairs;
  for (const Peer& peer : peers_) {
    const NodeId other = other_end(peer);
    if (other == kNone) continue;
    Counts& counts = pairs[{std::min(peer.gpu, other), std::max(peer.gpu, other), peer.kind}];
    int& count = peer.gpu < other ? counts.low : counts.high;
    count = std::min(count + peer.count, kMaxPeerLinks);
  }
  for (const auto& [ends, counts] : pairs)
    m_.links.push_back(peer_link(std::get<2>(ends), std::get<0>(ends), std::get<1>(ends), counts));
}

void Assembly::c2c_links() {
  for (const NodeId id : m_.of_kind(NodeKind::gpu)) {
    const Gpu& gpu = m_.gpu(id);
    if (gpu.c2c_links == 0) continue;
    const int64_t rate = std::max<int64_t>(1, gpu.c2c_rate * gpu.c2c_links / parts(id));
    m_.links.push_back({id, m_.numa_of(id), LinkKind::c2c, Source::given, gpu.c2c_links, rate});
  }
}

// ---- between switches, NUMA nodes, hosts

void Assembly::pci_peer_links() {
  std::map<NodeId, int64_t> upwards;
  for (const Link& link : m_.links) {
    if (link.kind == LinkKind::pci && m_.node(link.a).parent == link.b) upwards[link.a] = link.rate;
  }
  // kNone: an address that stands several times.
  std::map<std::pair<int32_t, PciAddress>, NodeId> switches;
  const auto place = [&](NodeId id, const PciAddress& address) { return std::pair(m_.node(id).host, address); };
  for (const NodeId id : m_.of_kind(NodeKind::pci_switch)) {
    const auto [first, is_new] = switches.emplace(place(id, m_.pci_of(id)->address), id);
    if (!is_new) first->second = kNone;
  }
  std::map<std::pair<NodeId, NodeId>, int64_t> pairs;
  for (const auto& [from, target] : pci_peers_) {
    const auto found = switches.find(place(from, target));
    const bool clear = switches.at(place(from, m_.pci_of(from)->address)) == from;
    if (!clear || found == switches.end() || found->second == from || found->second == kNone) {
      notes_.add("link between PCI switches of which one is not there, or several, ignored",
                 describe(m_, from) + " to " + to_string(target));
      continue;
    }
    const NodeId to = found->second;
    pairs[{std::min(from, to), std::max(from, to)}] = std::min(upwards[from], upwards[to]);
  }
  for (const auto& [ends, rate] : pairs) {
    notes_.add("link between PCI switches taken to be as fast as the slower one's way up",
               describe(m_, ends.first) + " to " + describe(m_, ends.second));
    m_.links.push_back({ends.first, ends.second, LinkKind::pci, Source::assumed, 1, rate});
  }
}

void Assembly::socket_links() {
  std::vector<std::vector<NodeId>> of_host(m_.hosts.size());
  for (const NodeId id : m_.of_kind(NodeKind::numa)) of_host[static_cast<size_t>(m_.node(id).host)].push_back(id);
  for (const std::vector<NodeId>& numas : of_host) {
    for (size_t i = 0; i < numas.size(); ++i) {
      for (size_t j = i + 1; j < numas.size(); ++j) {
        const Rate rate = socket_rate(m_.numa(numas[i]), m_.numa(numas[j]));
        if (rate.source == Source::assumed) {
          notes_.add("CPU model unknown, links between its NUMA nodes taken as slow ones", describe(m_, numas[i]));
        }
        m_.links.push_back({numas[i], numas[j], LinkKind::socket, rate.source, 1, rate.rate});
      }
    }
  }
}

void Assembly::network_links() {
  const auto ports = m_.of_kind(NodeKind::port);
  if (ports.empty()) return;
  const NodeId network = add(NodeKind::network, kNone, std::nullopt, 0);
  std::map<NodeId, Link> to_nic;
  for (const Link& link : m_.links) {
    if (m_.node(link.a).kind == NodeKind::port) to_nic[link.a] = link;
  }
  for (const NodeId port : ports)
    m_.links.push_back({port, network, LinkKind::network, to_nic[port].source, 1, to_nic[port].rate});
}

}  // namespace ronde::topo
