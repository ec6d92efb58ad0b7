#include <fmt/core.h>
#include <algorithm>
#include <iterator>

#include "topo/xml.h"

namespace ronde::topo {
namespace {

/// For between quotes; control characters would come back as blanks.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '"')
      out += "&quot;";
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("&#{};", static_cast<int>(c));
    else
      out += c;
  }
  return out;
}

class Writer {
 public:
  explicit Writer(const Machine& machine) : m_(machine), children_(machine.nodes.size()), links_(machine.nodes.size()) {
    for (size_t i = 0; i < m_.nodes.size(); ++i) {
      if (m_.nodes[i].parent != kNone) children_[static_cast<size_t>(m_.nodes[i].parent)].push_back(static_cast<NodeId>(i));
    }
    for (const Link& link : m_.links) {
      const bool peers = m_.node(link.a).parent != link.b && (is_peer_link(link.kind) || link.kind == LinkKind::pci);
      if (!peers) continue;
      links_[static_cast<size_t>(link.a)].push_back(&link);
      links_[static_cast<size_t>(link.b)].push_back(&link);
    }
  }

  std::string run() {
    const bool amd = std::any_of(m_.gpus.begin(), m_.gpus.end(), [](const Gpu& gpu) { return !gpu.gcn.empty(); }) ||
                     std::any_of(m_.links.begin(), m_.links.end(), [](const Link& link) { return link.kind == LinkKind::xgmi; });
    open("system");
    attribute("version", amd ? "2" : "1");
    begin();
    for (const NodeId id : m_.of_kind(NodeKind::numa)) numa(id);
    end("system");
    return std::move(out_);
  }

 private:
  // Elements: open, attributes, then begin, children and end, or close.
  void open(std::string_view name) { fmt::format_to(std::back_inserter(out_), "{:{}}<{}", "", depth_ * 2, name); }
  void attribute(std::string_view name, std::string_view value) {
    fmt::format_to(std::back_inserter(out_), " {}=\"{}\"", name, escaped(value));
  }
  void text(std::string_view name, std::string_view value) {
    if (!value.empty()) attribute(name, value);
  }
  void number(std::string_view name, int64_t value, int64_t unknown = -1) {
    if (value != unknown) attribute(name, fmt::format("{}", value));
  }
  void hex(std::string_view name, int32_t value, int digits) {
    if (value >= 0) attribute(name, fmt::format("0x{:0{}x}", value, digits));
  }
  void begin() {
    out_ += ">\n";
    ++depth_;
  }
  void end(std::string_view name) {
    --depth_;
    fmt::format_to(std::back_inserter(out_), "{:{}}</{}>\n", "", depth_ * 2, name);
  }
  void close() { out_ += "/>\n"; }

  void numa(NodeId id) {
    const Numa& numa = m_.numa(id);
    const uint64_t hash = m_.hosts[static_cast<size_t>(m_.node(id).host)].hash;
    open("cpu");
    if (hash != 0) attribute("host_hash", fmt::format("0x{:016x}", hash));
    attribute("numaid", fmt::format("{}", numa.id));
    if (!numa.cpus.empty()) attribute("affinity", numa.cpus.text());
    text("arch", numa.arch);
    text("vendor", numa.vendor);
    number("familyid", numa.family);
    number("modelid", numa.model);
    begin();
    for (const NodeId child : children_[static_cast<size_t>(id)]) node(child);
    end("cpu");
  }

  void node(NodeId id) {
    const Pci* pci = m_.pci_of(id);
    if (pci != nullptr) open_pci(*pci);
    switch (m_.node(id).kind) {
      case NodeKind::gpu:
        gpu(id);
        break;
      case NodeKind::cpu_rank:
        cpu_rank(m_.cpu_rank(id));
        break;
      case NodeKind::nic:
        nic(id);
        break;
      case NodeKind::pci_switch:
        pci_links(id);
        break;
      default:
        break;
    }
    if (m_.node(id).kind != NodeKind::nic) {
      for (const NodeId child : children_[static_cast<size_t>(id)]) node(child);
    }
    if (pci != nullptr) end("pci");
  }

  void open_pci(const Pci& pci) {
    open("pci");
    attribute("busid", to_string(pci.address));
    hex("class", pci.device_class, 6);
    hex("vendor", pci.vendor, 4);
    hex("device", pci.device, 4);
    hex("subsystem_vendor", pci.subsystem_vendor, 4);
    hex("subsystem_device", pci.subsystem_device, 4);
    // Also as an empty text and 0: NCCL wants both attributes.
    attribute("link_speed",
              pci.speed == 0 ? "" : fmt::format("{:.{}f} GT/s PCIe", pci.speed / 1000.0, pci.speed % 100 == 0 ? 1 : 3));
    attribute("link_width", fmt::format("{}", pci.width));
    begin();
  }

  void pci_links(NodeId id) {
    for (const Link* link : links_[static_cast<size_t>(id)]) {
      open("pcilink");
      attribute("target", to_string(m_.pci_of(link->a == id ? link->b : link->a)->address));
      close();
    }
  }

  void gpu(NodeId id) {
    const Gpu& gpu = m_.gpu(id);
    open("gpu");
    number("dev", gpu.dev);
    number("sm", gpu.sm, 0);
    text("gcn", gpu.gcn);
    number("arch", gpu.arch);
    number("mlopart", gpu.part);
    number("rank", gpu.rank);
    number("gdr", gpu.gdr);
    if (gpu.domain != 0) attribute("domain", fmt::format("0x{:x}", gpu.domain));
    if (links_[static_cast<size_t>(id)].empty() && gpu.c2c_links == 0) return close();
    begin();
    for (const Link* link : links_[static_cast<size_t>(id)]) peer(*link, id, link->a == id ? link->b : link->a);
    if (gpu.c2c_links != 0) {
      open("c2c");
      number("bw", gpu.c2c_rate);
      number("count", gpu.c2c_links);
      close();
    }
    end("gpu");
  }

  /// How a GPU names another one: by address on its own host, else by rank; "" where neither can. Of the parts of a GPU, which
  /// share an address, that means the first.
  std::string name_for(NodeId from, NodeId other) const {
    const Node& node = m_.node(other);
    const bool part = node.pci == kNone && m_.node(node.parent).kind == NodeKind::pci_function;
    const bool by_rank = m_.gpu(other).rank >= 0 && (part || node.pci == kNone || node.host != m_.node(from).host);
    if (by_rank) return fmt::format("{}", m_.gpu(other).rank);
    if (node.host != m_.node(from).host) return "";
    if (node.pci != kNone) return to_string(m_.pci_of(other)->address);
    return part && other == node.parent + 1 ? to_string(m_.pci_of(node.parent)->address) : "";
  }

  void peer(const Link& link, NodeId self, NodeId other) {
    const Node& node = m_.node(other);
    const bool xgmi = link.kind == LinkKind::xgmi;
    std::string target = "ffff:ff:ff.0";
    std::string_view target_class = xgmi ? "0x038000" : "0x030200";
    if (node.kind == NodeKind::nv_switch) {
      // In a machine of several hosts an address of 16 bits' domain is a host's own switch; which of them means nothing.
      if (node.host == kNone || m_.hosts.size() == 1) target = "fffffff:ff:ff.0";
      target_class = "0x068000";
    } else if (node.kind == NodeKind::numa) {
      target_class = "0x068001";
    } else {
      target = name_for(self, other);
    }
    if (target.empty()) return;
    open(xgmi ? "xgmi" : "nvlink");
    attribute("target", target);
    number("count", link.count);
    attribute("tclass", target_class);
    close();
  }

  void cpu_rank(const CpuRank& cpu) {
    open("cpurank");
    number("rank", cpu.rank);
    if (!cpu.cpus.empty()) attribute("affinity", cpu.cpus.text());
    number("cores", cpu.cores, 0);
    number("l2", cpu.l2_bytes, 0);
    number("l3", cpu.l3_bytes, 0);
    number("bw", cpu.rate, 0);
    close();
  }

  void nic(NodeId id) {
    open("nic");
    begin();
    for (const NodeId child : children_[static_cast<size_t>(id)]) {
      if (m_.node(child).kind == NodeKind::port) port(m_.port(child));
    }
    end("nic");
    for (const NodeId child : children_[static_cast<size_t>(id)]) {
      if (m_.node(child).kind != NodeKind::port) node(child);
    }
  }

  void port(const Port& port) {
    open("net");
    text("name", port.name);
    number("dev", port.dev);
    number("speed", port.speed, 0);
    number("port", port.port);
    if (port.latency != 0) attribute("latency", fmt::format("{}", port.latency));
    if (port.guid) attribute("guid", fmt::format("0x{:x}", *port.guid));
    number("maxconn", port.maxconn);
    number("gdr", port.gdr);
    number("coll", port.coll);
    number("net", port.net);
    number("gin", port.gin);
    number("rma", port.rma);
    number("rail", port.rail);
    number("plane", port.plane);
    close();
  }

  const Machine& m_;
  std::vector<std::vector<NodeId>> children_;
  std::vector<std::vector<const Link*>> links_;  ///< to peers, by node
  std::string out_;
  int depth_ = 0;
};

}  // namespace

std::string to_xml(const Machine& machine) { return Writer(machine).run(); }

}  // namespace ronde::topo
