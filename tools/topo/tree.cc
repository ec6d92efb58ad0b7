#include "tools/topo/tree.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/lists.h"
#include "base/words.h"
#include "tools/topo/facts.h"

namespace ronde::topo::tool {
namespace {

/// The source of a number, so that one that nobody knows stands out.
Piece source_piece(const Link& link) {
  return {fmt::format("({})", to_string(link.source)), link.source == Source::assumed ? Tone::warning : Tone::quiet};
}

class Tree {
 public:
  Tree(const Machine& machine, bool all) : m_(machine), family_(machine), all_(all) {}

  Outline run() {
    out_.add(0, {{summary(m_), Tone::title}});
    if (m_.hosts.size() <= 1) {
      roots(0, 1);
    } else {
      for (const HostGroup& group : alike(m_, family_)) hosts(group);
    }
    for (size_t i = 0; i < m_.nodes.size(); ++i) {
      const NodeKind kind = m_.nodes[i].kind;
      if (kind == NodeKind::nv_switch || kind == NodeKind::network) hub(static_cast<NodeId>(i));
    }
    return std::move(out_);
  }

 private:
  void hosts(const HostGroup& group) {
    for (size_t i = 0; i < group.hosts.size() && (all_ || i == 0); ++i) {
      const int32_t host = group.hosts[i];
      std::vector<Piece> line = {{fmt::format("host {}", host), Tone::title}};
      if (m_.hosts[static_cast<size_t>(host)].hash != 0)
        line.push_back({fmt::format("{:x}", m_.hosts[static_cast<size_t>(host)].hash), Tone::quiet});
      out_.add(1, line);
      roots(host, 2);
    }
    if (all_ || group.hosts.size() == 1) return;
    const std::vector<int> rest(group.hosts.begin() + 1, group.hosts.end());
    out_.add(1, {{fmt::format("{} {}", rest.size() == 1 ? "host" : "hosts", number_list(rest)), Tone::title},
                 {fmt::format("built like host {}; --all shows {}", group.hosts[0], rest.size() == 1 ? "it" : "them")}});
  }

  void roots(int32_t host, int depth) {
    for (size_t i = 0; i < m_.nodes.size(); ++i) {
      if (m_.nodes[i].kind == NodeKind::numa && m_.nodes[i].host == host) node(static_cast<NodeId>(i), depth);
    }
    sockets(host, depth);
  }

  void node(NodeId id, int depth) {
    std::vector<Piece> line = {{plain_name(id), tone_of(id)}};
    details(id, line);
    if (m_.node(id).parent != kNone) up(id, line);
    across(id, line);
    out_.add(depth, std::move(line));
    for (const NodeId child : family_.below(id)) node(child, depth + 1);
  }

  /// Without the host, which stands above.
  std::string plain_name(NodeId id) const {
    std::string name = describe(m_, id);
    return name.substr(0, name.find(" of host "));
  }

  Tone tone_of(NodeId id) const {
    switch (m_.node(id).kind) {
      case NodeKind::numa:
        return Tone::title;
      case NodeKind::gpu:
      case NodeKind::cpu_rank:
        return Tone::device;
      case NodeKind::nic:
      case NodeKind::port:
        return Tone::net;
      default:
        return Tone::plain;
    }
  }

  void details(NodeId id, std::vector<Piece>& line) const {
    const Pci* pci = m_.pci_of(id);
    if (pci != nullptr && plain_name(id).find(to_string(pci->address)) == std::string::npos)
      line.push_back({to_string(pci->address)});
    const std::string text = comma_list(known_of(id));
    if (!text.empty()) line.push_back({text});
  }

  /// What tells this node from others, without what stands elsewhere in its line.
  std::vector<std::string> known_of(NodeId id) const {
    std::vector<std::string> known;
    const auto add = [&](bool is_known, const std::string& text) {
      if (is_known) known.push_back(printable(text));
    };
    switch (m_.node(id).kind) {
      case NodeKind::numa: {
        const Numa& numa = m_.numa(id);
        add(!numa.cpus.empty(), "CPUs " + cpu_list(numa.cpus));
        add(!numa.arch.empty(), numa.arch);
        add(!numa.vendor.empty(), numa.vendor);
        add(numa.family >= 0 && numa.model >= 0, fmt::format("family {} model {}", numa.family, numa.model));
        break;
      }
      case NodeKind::gpu: {
        const Gpu& gpu = m_.gpu(id);
        add(gpu.rank >= 0, fmt::format("rank {}", gpu.rank));
        add(gpu.gcn.empty() && gpu.sm > 0, fmt::format("sm {}", gpu.sm));
        add(!gpu.gcn.empty(), gpu.gcn);
        break;
      }
      case NodeKind::cpu_rank: {
        const CpuRank& rank = m_.cpu_rank(id);
        add(rank.cores > 0, counted(static_cast<size_t>(rank.cores), "core"));
        add(!rank.cpus.empty(), "CPUs " + cpu_list(rank.cpus));
        add(rank.l3_bytes > 0, fmt::format("L3 {:g} MiB", static_cast<double>(rank.l3_bytes) / (1 << 20)));
        break;
      }
      case NodeKind::port:
        add(m_.port(id).rail >= 0, fmt::format("rail {}", m_.port(id).rail));
        break;
      default:
        break;
    }
    return known;
  }

  void up(NodeId id, std::vector<Piece>& line) const {
    const Link& link = m_.link(family_.up[static_cast<size_t>(id)]);
    const Pci* pci = m_.pci_of(id);
    std::string text;
    if (m_.node(id).kind == NodeKind::port && m_.port(id).speed > 0) {
      text = fmt::format("{:g} Gbit/s = ", static_cast<double>(m_.port(id).speed) / 1000);
    } else if (link.kind == LinkKind::pci && pci != nullptr && pci->speed > 0 && pci->width > 0) {
      text = fmt::format("PCI {:g} GT/s x{} = ", static_cast<double>(pci->speed) / 1000, pci->width);
    } else if (link.kind != LinkKind::internal) {
      text = fmt::format("{} ", to_string(link.kind));
    }
    line.push_back({text + rate_of(link), link.source == Source::assumed ? Tone::warning : Tone::plain});
    line.push_back(source_piece(link));
  }

  /// NVLink, xGMI, C2C and PCI links to the side, those of one kind, count and bandwidth as one.
  void across(NodeId id, std::vector<Piece>& line) const {
    std::map<std::tuple<LinkKind, int32_t, int64_t>, std::pair<Link, std::vector<NodeId>>> groups;
    for (const LinkId l : family_.across[static_cast<size_t>(id)]) {
      const Link& link = m_.link(l);
      if (link.kind == LinkKind::network || link.kind == LinkKind::socket) continue;
      if (m_.node(id).kind == NodeKind::numa) continue;  // its GPUs say it
      auto& group = groups[{link.kind, link.count, link.rate}];
      group.first = link;
      group.second.push_back(other_end(link, id));
    }
    for (const auto& [key, group] : groups) {
      const auto& [link, ends] = group;
      line.push_back({fmt::format("{} x{} to {} = {}{}", to_string(link.kind), link.count, names_of(ends), rate_of(link),
                                  ends.size() > 1 ? " each" : ""),
                      link.source == Source::assumed ? Tone::warning : Tone::plain});
      line.push_back(source_piece(link));
    }
  }

  std::string names_of(const std::vector<NodeId>& ids) const {
    std::vector<int> gpus;
    for (const NodeId id : ids) {
      if (m_.node(id).kind == NodeKind::gpu && m_.gpu(id).dev >= 0 && m_.gpu(id).part < 0) gpus.push_back(m_.gpu(id).dev);
    }
    if (gpus.size() == ids.size() && ids.size() > 1 && m_.hosts.size() <= 1) return "gpus " + number_list(gpus);
    std::string text;
    for (const NodeId id : ids) text += (text.empty() ? "" : ", ") + (ids.size() == 1 ? plain_name(id) : describe(m_, id));
    return text;
  }

  /// The links between a host's NUMA nodes, pairs of one bandwidth in one line.
  void sockets(int32_t host, int depth) {
    std::map<std::pair<int64_t, Source>, std::vector<LinkId>> groups;
    for (size_t i = 0; i < m_.links.size(); ++i) {
      const Link& link = m_.links[i];
      if (link.kind == LinkKind::socket && m_.node(link.a).host == host)
        groups[{link.rate, link.source}].push_back(static_cast<LinkId>(i));
    }
    for (const auto& [key, links] : groups) {
      std::string pairs;
      for (const LinkId l : links)
        pairs += fmt::format("{}{}-{}", pairs.empty() ? "" : ", ", numa_number(m_.link(l).a), numa_number(m_.link(l).b));
      const Link& link = m_.link(links[0]);
      out_.add(depth, {{"between NUMA nodes " + pairs, Tone::title},
                       {fmt::format("{}{}", rate_of(link), links.size() > 1 ? " each" : ""),
                        link.source == Source::assumed ? Tone::warning : Tone::plain},
                       source_piece(link)});
    }
  }

  std::string numa_number(NodeId id) const { return m_.numa(id).id >= 0 ? fmt::format("{}", m_.numa(id).id) : "?"; }

  void hub(NodeId id) {
    int64_t total = 0;
    for (const LinkId l : family_.across[static_cast<size_t>(id)]) total += m_.link(l).rate;
    const size_t ends = family_.across[static_cast<size_t>(id)].size();
    const bool network = m_.node(id).kind == NodeKind::network;
    out_.add(1, {{describe(m_, id), Tone::title},
                 {fmt::format("{}, {} GB/s in all", network ? counted(ends, "port") : counted(ends, "GPU"), gbps(total))}});
  }

  const Machine& m_;
  Family family_;
  bool all_;
  Outline out_;
};

}  // namespace

std::string summary(const Machine& machine) {
  const auto many = [&](NodeKind kind) { return machine.of_kind(kind).size(); };
  std::string text = counted(machine.hosts.size(), "host") + ", " + counted(many(NodeKind::numa), "NUMA node");
  if (const size_t n = many(NodeKind::gpu); n > 0) text += ", " + counted(n, "GPU");
  if (const size_t n = many(NodeKind::cpu_rank); n > 0) text += ", " + counted(n, "CPU rank");
  text += ", " + counted(many(NodeKind::port), "port");
  if (many(NodeKind::nv_switch) > 0) text += ", NVSwitch";
  return text;
}

std::string overview(const Machine& machine, const Look& look, bool all) {
  const std::string text = tree(machine, look, all);
  const size_t ends = path_ends(machine).size();
  if (ends > kMostColumns && !all) return text + fmt::format("\npaths between {} devices and ports: --all shows them\n", ends);
  const std::string table = matrix(machine, look);
  return table.empty() ? text : text + "\n" + table;
}

std::string tree(const Machine& machine, const Look& look, bool all) { return Tree(machine, all).run().text(look); }

}  // namespace ronde::topo::tool
