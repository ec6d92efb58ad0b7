#include "tools/topo/facts.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/words.h"

namespace ronde::topo::tool {
namespace {

/// Collects what is known.
class Facts {
 public:
  /// Numbers below 0 are unknown, with `least` 1 also 0.
  void number(const char* name, int64_t value, int64_t least = 0) {
    if (value >= least) facts_.push_back({name, value});
  }
  void text(const char* name, std::string value) {
    if (!value.empty()) facts_.push_back({name, std::move(value)});
  }
  void hex(const char* name, int64_t value, int digits) {
    if (value >= 0) text(name, fmt::format("0x{:0{}x}", value, digits));
  }
  void cpus(const CpuMask& cpus) {
    if (!cpus.empty()) text("cpus", cpu_list(cpus));
  }
  void real(const char* name, double value) {
    if (value > 0) facts_.push_back({name, value});
  }
  std::vector<Fact> take() { return std::move(facts_); }

 private:
  std::vector<Fact> facts_;
};

void add(Facts& facts, const Pci& pci) {
  facts.text("address", to_string(pci.address));
  facts.hex("class", pci.device_class, 6);
  facts.hex("vendor", pci.vendor, 4);
  facts.hex("device", pci.device, 4);
  facts.hex("subsystem_vendor", pci.subsystem_vendor, 4);
  facts.hex("subsystem_device", pci.subsystem_device, 4);
  facts.number("pci_MTps", pci.speed, 1);
  facts.number("pci_lanes", pci.width, 1);
}

void add(Facts& facts, const Numa& numa) {
  facts.number("numa", numa.id);
  facts.cpus(numa.cpus);
  facts.text("arch", numa.arch);
  facts.text("cpu_vendor", numa.vendor);
  facts.number("cpu_family", numa.family);
  facts.number("cpu_model", numa.model);
}

void add(Facts& facts, const Gpu& gpu) {
  facts.number("dev", gpu.dev);
  facts.number("rank", gpu.rank);
  facts.number("sm", gpu.sm, 1);
  facts.text("gcn", gpu.gcn);
  facts.number("arch", gpu.arch);
  facts.number("gdr", gpu.gdr);
  facts.number("part", gpu.part);
  facts.number("c2c_links", gpu.c2c_links, 1);
  facts.number("c2c_link_MBps", gpu.c2c_rate, 1);
}

void add(Facts& facts, const CpuRank& rank) {
  facts.number("rank", rank.rank);
  facts.cpus(rank.cpus);
  facts.number("cores", rank.cores, 1);
  facts.number("l2_bytes", rank.l2_bytes, 1);
  facts.number("l3_bytes", rank.l3_bytes, 1);
  facts.number("memory_MBps", rank.rate, 1);
}

void add(Facts& facts, const Port& port) {
  facts.text("name", port.name);
  facts.number("dev", port.dev);
  facts.number("speed_Mbps", port.speed, 1);
  facts.number("port", port.port);
  facts.real("latency_us", port.latency);
  if (port.guid) facts.text("guid", fmt::format("0x{:x}", *port.guid));
  facts.number("maxconn", port.maxconn);
  facts.number("gdr", port.gdr);
  facts.number("coll", port.coll);
  facts.number("net", port.net);
  facts.number("gin", port.gin);
  facts.number("rma", port.rma);
  facts.number("rail", port.rail);
  facts.number("plane", port.plane);
}

/// What hosts of one build have in common: all but what tells one from the other.
std::string build_of(const Machine& m, const Family& family, const std::vector<NodeId>& nodes) {
  static const std::vector<std::string> own = {"address", "numa", "cpus", "dev", "rank", "name", "guid", "port"};
  std::map<NodeId, size_t> place;
  for (size_t i = 0; i < nodes.size(); ++i) place[nodes[i]] = i;
  // A node of no host is the same for all.
  const auto place_of = [&](NodeId id) {
    return place.count(id) != 0 ? fmt::format("{}", place[id]) : m.node(id).host == kNone ? to_string(m.node(id).kind) : "beyond";
  };
  const auto link_text = [&](const Link& link) {
    return fmt::format(" {}x{}:{}{}", to_string(link.kind), link.count, link.rate, to_string(link.source));
  };
  std::string text;
  for (const NodeId id : nodes) {
    const Node& node = m.node(id);
    text += to_string(node.kind);
    if (node.parent != kNone)
      text += fmt::format("<{}{}", place_of(node.parent), link_text(m.link(family.up[static_cast<size_t>(id)])));
    for (const Fact& fact : facts_of(m, id)) {
      if (std::find(own.begin(), own.end(), fact.name) == own.end()) text += fmt::format(" {}={}", fact.name, text_of(fact));
    }
    for (const LinkId l : family.across[static_cast<size_t>(id)])
      text += fmt::format(">{}{}", place_of(other_end(m.link(l), id)), link_text(m.link(l)));
    text += "\n";
  }
  return text;
}

}  // namespace

std::string text_of(const Fact& fact) {
  if (const auto* text = std::get_if<std::string>(&fact.value)) return *text;
  if (const auto* number = std::get_if<int64_t>(&fact.value)) return fmt::format("{}", *number);
  return fmt::format("{:g}", std::get<double>(fact.value));
}

std::vector<Fact> facts_of(const Machine& machine, NodeId id) {
  Facts facts;
  if (const Pci* pci = machine.pci_of(id)) add(facts, *pci);
  switch (machine.node(id).kind) {
    case NodeKind::numa:
      add(facts, machine.numa(id));
      break;
    case NodeKind::gpu:
      add(facts, machine.gpu(id));
      break;
    case NodeKind::cpu_rank:
      add(facts, machine.cpu_rank(id));
      break;
    case NodeKind::port:
      add(facts, machine.port(id));
      break;
    default:
      break;
  }
  return facts.take();
}

Family::Family(const Machine& machine)
    : children(machine.nodes.size()), up(machine.nodes.size(), kNone), across(machine.nodes.size()) {
  for (size_t i = 0; i < machine.nodes.size(); ++i) {
    if (machine.nodes[i].parent != kNone)
      children[static_cast<size_t>(machine.nodes[i].parent)].push_back(static_cast<NodeId>(i));
  }
  for (size_t i = 0; i < machine.links.size(); ++i) {
    const Link& link = machine.links[i];
    const auto id = static_cast<LinkId>(i);
    // C2C may join a GPU and its parent a second time.
    if (machine.node(link.a).parent == link.b && up[static_cast<size_t>(link.a)] == kNone) {
      up[static_cast<size_t>(link.a)] = id;
    } else {
      across[static_cast<size_t>(link.a)].push_back(id);
      across[static_cast<size_t>(link.b)].push_back(id);
    }
  }
}

std::vector<HostGroup> alike(const Machine& machine, const Family& family) {
  std::vector<std::vector<NodeId>> nodes(machine.hosts.size());
  for (size_t i = 0; i < machine.nodes.size(); ++i) {
    if (machine.nodes[i].host != kNone) nodes[static_cast<size_t>(machine.nodes[i].host)].push_back(static_cast<NodeId>(i));
  }
  std::map<std::string, size_t> known;
  std::vector<HostGroup> groups;
  for (size_t host = 0; host < nodes.size(); ++host) {
    const auto [place, is_new] = known.emplace(build_of(machine, family, nodes[host]), groups.size());
    if (is_new) groups.push_back({});
    groups[place->second].hosts.push_back(static_cast<int32_t>(host));
  }
  return groups;
}

std::vector<NodeId> devices_of(const Machine& machine) {
  auto gpus = machine.of_kind(NodeKind::gpu);
  return gpus.empty() ? machine.of_kind(NodeKind::cpu_rank) : gpus;
}

std::string short_name(const Machine& machine, NodeId id) {
  const Node& node = machine.node(id);
  std::string name;
  if (node.kind == NodeKind::gpu && machine.gpu(id).dev >= 0) {
    name = fmt::format("gpu{}", machine.gpu(id).dev);
    if (machine.gpu(id).part >= 0) name += fmt::format(".{}", machine.gpu(id).part);
  } else if (node.kind == NodeKind::cpu_rank && machine.cpu_rank(id).rank >= 0) {
    name = fmt::format("cpu{}", machine.cpu_rank(id).rank);
  } else if (node.kind == NodeKind::port && !machine.port(id).name.empty()) {
    name = printable(machine.port(id).name);
  } else if (const Pci* pci = machine.pci_of(id)) {
    name = fmt::format("{}@{}", to_string(node.kind), to_string(pci->address));
  } else {
    name = fmt::format("{}#{}", to_string(node.kind), id);
  }
  return machine.hosts.size() > 1 && node.host != kNone ? fmt::format("h{}:{}", node.host, name) : name;
}

std::string gbps(int64_t rate) { return fmt::format("{:.6g}", static_cast<double>(rate) / 1000); }

std::string rate_of(const Link& link) { return gbps(link.rate) + (link.source == Source::assumed ? "? GB/s" : " GB/s"); }

std::string number_list(const std::vector<int>& numbers) {
  std::vector<int> sorted = numbers;
  std::sort(sorted.begin(), sorted.end());
  std::string text;
  for (size_t i = 0; i < sorted.size();) {
    size_t end = i + 1;
    while (end < sorted.size() && sorted[end] == sorted[end - 1] + 1) ++end;
    if (!text.empty()) text += ", ";
    text += fmt::format("{}", sorted[i]);
    if (end - i > 1) text += fmt::format("-{}", sorted[end - 1]);
    i = end;
  }
  return text;
}

std::string counted(size_t count, const std::string& one, const std::string& plural) {
  return fmt::format("{} {}", count, count == 1 ? one : plural.empty() ? one + "s" : plural);
}

std::string cpu_list(const CpuMask& cpus) {
  std::vector<int> numbers;
  for (int cpu = 0, left = cpus.count(); left > 0; ++cpu) {
    if (!cpus.test(cpu)) continue;
    numbers.push_back(cpu);
    --left;
  }
  return number_list(numbers);
}

}  // namespace ronde::topo::tool
