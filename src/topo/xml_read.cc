#include <fmt/core.h>
#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <map>
#include <set>
#include <tuple>

#include "topo/assembly.h"
#include "topo/hwloc_parts.h"
#include "topo/xml.h"
#include "topo/xml_dom.h"

namespace ronde::topo {
namespace {

using pugi::xml_node;

constexpr int64_t kMaxNumber = 0x7fffffff;
constexpr int kMaxNumasPerHost = 256;    // their links are quadratic in number
constexpr int64_t kMaxRate = 100000000;  // MB/s of one link

bool is(xml_node element, std::string_view name) { return element.name() == name; }

int count_children(xml_node element, std::initializer_list<std::string_view> names) {
  int count = 0;
  for (const xml_node child : element.children()) count += std::count(names.begin(), names.end(), std::string_view(child.name()));
  return count;
}

/// "16.0 GT/s PCIe", "16 GT/s", "Unknown", "": the transfers per second and lane in millions, 0 for unknown; nothing for any
/// other text.
std::optional<int32_t> parse_speed(std::string_view text) {
  if (text.empty() || text.substr(0, 7) == "Unknown") return 0;
  double gts = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), gts);
  const std::string_view rest(end, static_cast<size_t>(text.data() + text.size() - end));
  if (error != std::errc() || !(gts >= 0 && gts <= 1024)) return std::nullopt;
  if (rest != "" && rest != " GT/s" && rest != " GT/s PCIe") return std::nullopt;
  return static_cast<int32_t>(gts * 1000 + 0.5);
}

class Reader {
 public:
  explicit Reader(const XmlDocument& document) : doc_(document) {}

  Result<Reading> run() {
    const xml_node root = doc_.root();
    RONDE_TRY(check_root(root));
    RONDE_TRY(doc_.no_text());
    known(root, {"version"});
    for (const xml_node element : root.children()) {
      if (!is(element, "cpu"))
        ignore(element);
      else
        RONDE_TRY(cpu(element));
    }
    Reading result;
    result.machine = assembly_.finish();
    if (result.machine.nodes.empty())
      assembly_.notes().add("no <cpu>: the machine is empty", fmt::format("line {}", doc_.line(root)));
    result.notes = assembly_.notes().sentences();
    return result;
  }

 private:
  Result<> check_root(xml_node root);
  Result<> cpu(xml_node element);
  Result<> cpu_rank(xml_node element, NodeId numa);
  /// What a <cpu> holds.
  Result<> children(xml_node element, NodeId parent);
  Result<> pci(xml_node element, NodeId parent);
  Result<Pci> pci_facts(xml_node element);
  Result<> gpu(xml_node element, NodeId parent, std::optional<Pci> pci);
  Result<> peer(xml_node element, NodeId gpu, LinkKind kind);
  Result<Target> target(xml_node element);
  Result<> c2c(xml_node element, Gpu& gpu);
  Result<> pci_link(xml_node element, NodeId pci_switch);
  /// `nic` is kNone where no PCI function is known: the first port then makes one, below `parent`.
  Result<> nic(xml_node element, NodeId parent, NodeId nic);
  Result<> net(xml_node element, NodeId parent, NodeId& nic);
  Result<int> rank(xml_node element);

  /// An integer attribute for a field of an int, -1 where it is absent.
  Result<int> number(xml_node element, const char* attribute, int64_t low = -1, int64_t high = kMaxNumber) {
    RONDE_TRY(const int64_t value, doc_.integer(element, attribute, -1, low, high));
    return static_cast<int>(value);
  }

  void ignore(xml_node element) {
    assembly_.notes().add(fmt::format("<{}> in <{}> is not known and was ignored", name_of(element), name_of(element.parent())),
                          at(element));
  }

  /// Notes the attributes that are not among the known ones. "keep" is NCCL's own mark for elements that it must not drop.
  void known(xml_node element, std::initializer_list<std::string_view> names) {
    for (const pugi::xml_attribute attribute : element.attributes()) {
      const std::string_view name = attribute.name();
      if (name == "keep" || std::find(names.begin(), names.end(), name) != names.end()) continue;
      assembly_.notes().add(fmt::format("attribute {} of <{}> is not known and was ignored", name, name_of(element)),
                            at(element));
    }
  }

  static std::string_view name_of(xml_node element) { return element.name(); }
  std::string at(xml_node element) const { return fmt::format("line {}", doc_.line(element)); }
  int32_t host_of(NodeId id) const { return assembly_.so_far().node(id).host; }

  const XmlDocument& doc_;
  Assembly assembly_;
  std::map<int32_t, int> numas_;  ///< per host
  FirstLines first_lines_;
  std::set<std::tuple<int32_t, std::string, int, uint64_t>> virtual_ports_;
};

Result<> Reader::check_root(xml_node root) {
  if (is(root, "graphs"))
    return doc_.error(root,
                      "this is a graph file (NCCL_GRAPH_FILE), not a topology file; expected <system>, or hwloc's <topology>");
  if (!is(root, "system"))
    return doc_.error(root, "expected <system>, the root of a topology file, or <topology>, that of hwloc's files");
  if (!root.attribute("version")) {
    assembly_.notes().add("<system> without version, read as version 1", at(root));
    return Done{};
  }
  RONDE_TRY(doc_.integer(root, "version", 1, 1, 2));
  return Done{};
}

Result<> Reader::cpu(xml_node element) {
  known(element, {"numaid", "affinity", "arch", "vendor", "familyid", "modelid", "host_hash"});
  RONDE_TRY(const auto hash, doc_.hexadecimal(element, "host_hash"));
  Numa numa;
  RONDE_TRY(numa.id, number(element, "numaid", -1, 65535));
  const auto mask = CpuMask::parse(doc_.text(element, "affinity"));
  if (!mask)
    return doc_.error(element, "affinity",
                      fmt::format("expected hexadecimal words with commas, for at most {} CPUs", CpuMask::kMaxCpus));
  numa.cpus = *mask;
  numa.arch = doc_.text(element, "arch");
  numa.vendor = doc_.text(element, "vendor");
  RONDE_TRY(numa.family, number(element, "familyid"));
  RONDE_TRY(numa.model, number(element, "modelid"));
  const int32_t host = assembly_.host(hash.value_or(0));
  if (++numas_[host] > kMaxNumasPerHost)
    return doc_.error(element, fmt::format("more than {} NUMA nodes in one host", kMaxNumasPerHost));
  if (numa.id < 0) {
    assembly_.notes().add("NUMA node of a <cpu> not stated", at(element));
  } else if (const int first = first_lines_.numa(host, numa.id, doc_.line(element)); first != 0) {
    return doc_.error(element, "numaid", fmt::format("this NUMA node of the host stands in line {} already", first));
  }
  return children(element, assembly_.numa(host, std::move(numa)));
}

Result<> Reader::children(xml_node element, NodeId parent) {
  for (const xml_node child : element.children()) {
    if (is(child, "pci")) {
      RONDE_TRY(pci(child, parent));
    } else if (is(child, "gpu") || is(child, "apu")) {
      RONDE_TRY(gpu(child, parent, std::nullopt));
    } else if (is(child, "nic")) {
      RONDE_TRY(nic(child, parent, kNone));
    } else if (is(child, "net")) {
      NodeId self = kNone;
      RONDE_TRY(net(child, parent, self));
    } else if (is(child, "cpurank") && is(element, "cpu")) {
      RONDE_TRY(cpu_rank(child, parent));
    } else {
      ignore(child);
    }
  }
  return Done{};
}

Result<> Reader::cpu_rank(xml_node element, NodeId numa) {
  known(element, {"rank", "affinity", "cores", "l2", "l3", "bw"});
  CpuRank cpu;
  RONDE_TRY(cpu.rank, rank(element));
  const auto mask = CpuMask::parse(doc_.text(element, "affinity"));
  if (!mask)
    return doc_.error(element, "affinity",
                      fmt::format("expected hexadecimal words with commas, for at most {} CPUs", CpuMask::kMaxCpus));
  cpu.cpus = *mask;
  RONDE_TRY(const int64_t cores, doc_.integer(element, "cores", 0, 0, CpuMask::kMaxCpus));
  cpu.cores = static_cast<int>(cores);
  RONDE_TRY(cpu.l2_bytes, doc_.integer(element, "l2", 0, 0, INT64_MAX));
  RONDE_TRY(cpu.l3_bytes, doc_.integer(element, "l3", 0, 0, INT64_MAX));
  RONDE_TRY(cpu.rate, doc_.integer(element, "bw", 0, 0, kMaxRate));
  assembly_.cpu_rank(numa, std::move(cpu));
  return Done{};
}

// ---- PCI

Result<Pci> Reader::pci_facts(xml_node element) {
  known(element, {"busid", "class", "vendor", "device", "subsystem_vendor", "subsystem_device", "link_speed", "link_width"});
  Pci pci;
  const auto address = parse_pci_address(doc_.text(element, "busid"));
  if (!address) return doc_.error(element, "busid", "expected domain:bus:device.function");
  pci.address = *address;
  RONDE_TRY(pci.device_class, number(element, "class", 0, 0xffffff));
  RONDE_TRY(pci.vendor, number(element, "vendor", 0, 0xffff));
  RONDE_TRY(pci.device, number(element, "device", 0, 0xffff));
  RONDE_TRY(pci.subsystem_vendor, number(element, "subsystem_vendor", 0, 0xffff));
  RONDE_TRY(pci.subsystem_device, number(element, "subsystem_device", 0, 0xffff));
  const auto speed = parse_speed(doc_.text(element, "link_speed"));
  if (!speed) return doc_.error(element, "link_speed", "expected a speed such as \"16.0 GT/s PCIe\"");
  pci.speed = *speed;
  RONDE_TRY(const int64_t width, doc_.integer(element, "link_width", 0, 0, kMaxNumber));
  // Linux states 63 or 255 lanes where it does not know.
  pci.width = width <= 32 ? static_cast<int32_t>(width) : 0;
  if (width > 32)
    assembly_.notes().add("impossible PCI link width, taken as unknown",
                          fmt::format("{} lanes in line {}", width, doc_.line(element)));
  return pci;
}

Result<> Reader::pci(xml_node element, NodeId parent) {
  RONDE_TRY(const Pci facts, pci_facts(element));
  const int gpus = count_children(element, {"gpu", "apu"});
  const int nics = count_children(element, {"nic", "net"});
  const bool bridge = facts.device_class >> 8 == 0x0604 || count_children(element, {"pci"}) > 0;
  const int first = first_lines_.address(host_of(parent), facts.address, gpus > 0, doc_.line(element), assembly_.notes());
  if (first != 0) return doc_.error(element, "busid", fmt::format("a GPU's address stands twice, first in line {}", first));
  if (gpus > 0 && nics > 0) return doc_.error(element, "one PCI function cannot be a GPU and a NIC");
  NodeId self = kNone;
  if (nics > 0)
    self = assembly_.nic(parent, facts);
  else if (gpus != 1)
    self = assembly_.pci(bridge && gpus == 0 ? NodeKind::pci_switch : NodeKind::pci_function, parent, facts);
  if (self != kNone && assembly_.so_far().node(self).kind == NodeKind::pci_function && gpus == 0) {
    assembly_.notes().add("PCI function without <gpu> or <nic>: only detection on its host can tell what it is",
                          to_string(facts.address));
  }
  for (const xml_node child : element.children()) {
    if (is(child, "gpu") || is(child, "apu")) {
      if (gpus == 1) self = static_cast<NodeId>(assembly_.so_far().nodes.size());
      RONDE_TRY(gpu(child, gpus == 1 ? parent : self, gpus == 1 ? std::optional(facts) : std::nullopt));
    }
  }
  // Ports before the functions below, as the Machine is written again.
  for (const xml_node child : element.children()) {
    if (is(child, "nic"))
      RONDE_TRY(nic(child, parent, self));
    else if (is(child, "net"))
      RONDE_TRY(net(child, parent, self));
  }
  for (const xml_node child : element.children()) {
    if (is(child, "pci"))
      RONDE_TRY(pci(child, self));
    else if (is(child, "pcilink") && assembly_.so_far().node(self).kind == NodeKind::pci_switch)
      RONDE_TRY(pci_link(child, self));
    else if (!is(child, "gpu") && !is(child, "apu") && !is(child, "nic") && !is(child, "net"))
      ignore(child);
  }
  return Done{};
}

Result<> Reader::pci_link(xml_node element, NodeId pci_switch) {
  known(element, {"target"});
  const auto address = parse_pci_address(doc_.text(element, "target"));
  if (!address) return doc_.error(element, "target", "expected the bus id of a PCI switch");
  assembly_.pci_peer(pci_switch, *address);
  return Done{};
}

// ---- GPUs

Result<int> Reader::rank(xml_node element) {
  RONDE_TRY(const int rank, number(element, "rank"));
  if (rank < 0) return rank;
  const int first = first_lines_.rank(rank, doc_.line(element));
  if (first != 0) return doc_.error(element, "rank", fmt::format("a device of this rank stands in line {} already", first));
  return rank;
}

Result<> Reader::gpu(xml_node element, NodeId parent, std::optional<Pci> pci) {
  known(element, {"dev", "sm", "rank", "gdr", "gcn", "arch", "mlopart", "domain"});
  Gpu gpu;
  RONDE_TRY(gpu.dev, number(element, "dev"));
  RONDE_TRY(gpu.rank, rank(element));
  RONDE_TRY(const int64_t sm, doc_.integer(element, "sm", 0, 0, kMaxNumber));
  gpu.sm = static_cast<int>(sm);
  if (sm == 0) assembly_.notes().add("model (sm) of a GPU not stated", at(element));
  gpu.gcn = doc_.text(element, "gcn");
  RONDE_TRY(gpu.arch, number(element, "arch"));
  RONDE_TRY(gpu.gdr, number(element, "gdr", -1, 1));
  RONDE_TRY(gpu.part, number(element, "mlopart"));
  RONDE_TRY(const auto domain, doc_.hexadecimal(element, "domain"));
  gpu.domain = domain.value_or(0);
  if (count_children(element, {"c2c"}) > 1) return doc_.error(element, "holds more than one <c2c>");
  if (const xml_node link = element.child("c2c")) RONDE_TRY(c2c(link, gpu));
  const NodeId self = assembly_.gpu(parent, pci, std::move(gpu));
  for (const xml_node child : element.children()) {
    if (is(child, "nvlink"))
      RONDE_TRY(peer(child, self, LinkKind::nvlink));
    else if (is(child, "xgmi"))
      RONDE_TRY(peer(child, self, LinkKind::xgmi));
    else if (!is(child, "c2c"))
      ignore(child);
  }
  return Done{};
}

Result<> Reader::c2c(xml_node element, Gpu& gpu) {
  known(element, {"bw", "count"});
  RONDE_TRY(gpu.c2c_rate, doc_.integer(element, "bw", 0, 0, kMaxRate));
  RONDE_TRY(const int64_t count, doc_.integer(element, "count", 1, 0, kMaxPeerLinks));
  gpu.c2c_links = static_cast<int>(count);
  if (gpu.c2c_rate != 0 && count != 0) return Done{};
  assembly_.notes().add("C2C link without bandwidth or count ignored", at(element));
  gpu.c2c_rate = gpu.c2c_links = 0;
  return Done{};
}

Result<Target> Reader::target(xml_node element) {
  RONDE_TRY(const int device_class, number(element, "tclass", 0, 0xffffff));
  Target target;
  target.address = parse_pci_address(doc_.text(element, "target"));
  if (!target.address) {
    RONDE_TRY(target.rank, number(element, "target", 0));
    if (target.rank < 0) return doc_.error(element, "target", "expected the bus id of the other end");
  }
  const bool the_switch = device_class < 0 && target.address && target.address->domain == 0xfffffff;
  if (device_class == 0x068000 || the_switch) target.kind = Target::Kind::nv_switch;
  if (device_class == 0x068001) target.kind = Target::Kind::cpu;
  return target;
}

Result<> Reader::peer(xml_node element, NodeId gpu, LinkKind kind) {
  known(element, {"target", "count", "tclass"});
  RONDE_TRY(const Target to, target(element));
  RONDE_TRY(const int64_t count, doc_.integer(element, "count", 1, 0, kMaxPeerLinks));
  if (count == 0) {
    assembly_.notes().add(fmt::format("{} of 0 links ignored", to_string(kind)), at(element));
  } else {
    assembly_.peer(gpu, kind, to, static_cast<int>(count));
  }
  return Done{};
}

// ---- adapters

Result<> Reader::nic(xml_node element, NodeId parent, NodeId nic) {
  known(element, {});
  for (const xml_node child : element.children()) {
    if (is(child, "net"))
      RONDE_TRY(net(child, parent, nic));
    else
      ignore(child);
  }
  return Done{};
}

Result<> Reader::net(xml_node element, NodeId parent, NodeId& nic) {
  known(element,
        {"name", "dev", "speed", "port", "latency", "guid", "maxconn", "gdr", "coll", "net", "gin", "rma", "rail", "plane"});
  Port port;
  port.name = doc_.text(element, "name");
  RONDE_TRY(port.dev, number(element, "dev"));
  RONDE_TRY(port.speed, doc_.integer(element, "speed", 0, 0, INT64_MAX));
  RONDE_TRY(port.port, number(element, "port"));
  RONDE_TRY(port.latency, doc_.real(element, "latency"));
  RONDE_TRY(port.guid, doc_.hexadecimal(element, "guid"));
  RONDE_TRY(port.maxconn, number(element, "maxconn"));
  RONDE_TRY(port.gdr, number(element, "gdr", -1, 1));
  RONDE_TRY(port.coll, number(element, "coll", -1, 1));
  RONDE_TRY(port.net, number(element, "net", -1, 1));
  RONDE_TRY(port.gin, number(element, "gin", -1, 1));
  RONDE_TRY(port.rma, number(element, "rma", -1, 1));
  RONDE_TRY(port.rail, number(element, "rail"));
  RONDE_TRY(port.plane, number(element, "plane"));
  // Files that were merged from several ranks list a virtual port under each CPU.
  const bool is_virtual = nic == kNone || assembly_.so_far().node(nic).pci == kNone;
  if (is_virtual && port.dev >= 0 &&
      !virtual_ports_.emplace(host_of(parent), port.name, port.dev, port.guid.value_or(0)).second) {
    assembly_.notes().add("port that stands under several CPUs of a host counted once",
                          fmt::format("{} in line {}", port.name, doc_.line(element)));
    return Done{};
  }
  if (nic == kNone) nic = assembly_.nic(parent, std::nullopt);
  assembly_.port(nic, std::move(port));
  return Done{};
}

}  // namespace

Result<Reading> from_xml(std::string_view text, const std::string& file) {
  RONDE_TRY(const std::unique_ptr<XmlDocument> document, XmlDocument::parse(text, file));
  if (!is(document->root(), "topology")) return Reader(*document).run();
  Notes notes;
  RONDE_TRY(HostFacts facts, read_hwloc(*document, notes));
  return machine_from(std::move(facts), std::move(notes));
}

}  // namespace ronde::topo
