#include <fmt/core.h>
#include <iterator>

#include "topo/text.h"
#include "topo/text_words.h"

namespace ronde::topo {
namespace {

class Writer {
 public:
  explicit Writer(const Machine& machine) : m_(machine), children_(machine.nodes.size()) {
    for (size_t i = 0; i < m_.nodes.size(); ++i) {
      if (m_.nodes[i].parent != kNone) children_[static_cast<size_t>(m_.nodes[i].parent)].push_back(static_cast<NodeId>(i));
    }
  }

  std::string run() {
    const bool one_unnamed = m_.hosts.size() <= 1 && (m_.hosts.empty() || m_.hosts[0].hash == 0);
    int32_t host = kNone;
    for (const NodeId id : m_.of_kind(NodeKind::numa)) {
      if (!one_unnamed && m_.node(id).host != host) {
        if (host != kNone) end();
        host = m_.node(id).host;
        line("host");
        const uint64_t hash = m_.hosts[static_cast<size_t>(host)].hash;
        if (hash != static_cast<uint64_t>(++hosts_)) word("hash", fmt::format("{:x}", hash));
        begin();
        counting_.begin_host();
      }
      cpu(id);
    }
    if (host != kNone) end();
    links();
    return std::move(out_);
  }

 private:
  void line(std::string_view kind) { fmt::format_to(std::back_inserter(out_), "{:{}}{}", "", depth_ * 2, kind); }
  void word(std::string_view key, std::string_view value) { fmt::format_to(std::back_inserter(out_), " {}={}", key, value); }
  void text(std::string_view key, std::string_view value, std::string_view unsaid = "") {
    if (value == unsaid) return;
    std::string quoted;
    bool plain = !value.empty();
    for (const char c : value) {
      plain &= c > ' ' && std::string_view("\"\\#;{}").find(c) == std::string_view::npos;
      if (c == '"' || c == '\\') quoted += '\\';
      quoted += c == '\n' ? "\\n" : std::string(1, c);
    }
    word(key, plain ? std::string(value) : '"' + quoted + '"');
  }
  /// Where `value` is not what it is without a word; -1 is unknown.
  void number(std::string_view key, int64_t value, int64_t unsaid = -1) {
    if (value != unsaid) word(key, value < 0 ? "-" : fmt::format("{}", value));
  }
  void hex(std::string_view key, int64_t value, int64_t unsaid = -1) {
    if (value != unsaid) word(key, value < 0 ? "-" : fmt::format("0x{:x}", value));
  }
  void begin() {
    out_ += " {\n";
    ++depth_;
  }
  void end() {
    --depth_;
    line("}\n");
  }
  void below(NodeId id) {
    if (children_[static_cast<size_t>(id)].empty()) {
      out_ += '\n';
      return;
    }
    begin();
    for (const NodeId child : children_[static_cast<size_t>(id)]) node(child);
    end();
  }

  void cpu(NodeId id) {
    const Numa& numa = m_.numa(id);
    line("cpu");
    const CpuWord* model = nullptr;
    for (const std::string_view name :
         {"broadwell", "skylake", "icelake", "sapphire", "emerald", "rome", "milan", "genoa", "grace", "power9"}) {
      const CpuWord* row = cpu_word(name);
      if (row->arch == numa.arch && row->vendor == numa.vendor && row->family == numa.family && row->model == numa.model)
        model = row;
    }
    number("numa", numa.id, counting_.numa());
    if (model != nullptr) {
      fmt::format_to(std::back_inserter(out_), " {}", model->word);
    } else {
      text("arch", numa.arch);
      text("vendor", numa.vendor);
      number("family", numa.family);
      number("model", numa.model);
    }
    if (!numa.cpus.empty()) word("cpus", numa.cpus.text());
    below(id);
  }

  void pci(NodeId id, int32_t device_class) {
    const PciAddress counted = counting_.address();
    const Pci* pci = m_.pci_of(id);
    if (pci == nullptr) return;
    if (pci->address != counted) word("busid", to_string(pci->address));
    hex("class", pci->device_class, device_class);
    hex("vendor", pci->vendor);
    hex("device", pci->device);
    hex("subvendor", pci->subsystem_vendor);
    hex("subdevice", pci->subsystem_device);
    int generation = 0;
    for (int i = 1; i <= 7; ++i) {
      if (pci->speed == (i == 1 ? 2500 : i == 2 ? 5000 : 1000 << i)) generation = i;
    }
    if (generation != 0 && pci->width != 0) {
      fmt::format_to(std::back_inserter(out_), " gen{}x{}", generation, pci->width);
    } else {
      number("speed", pci->speed, 0);
      number("width", pci->width, 0);
    }
  }

  void node(NodeId id) {
    switch (m_.node(id).kind) {
      case NodeKind::pci_switch:
        line("switch");
        pci(id, kSwitchClass);
        break;
      case NodeKind::pci_function:
        line("function");
        pci(id, -1);
        break;
      case NodeKind::gpu:
        gpu(id);
        break;
      case NodeKind::cpu_rank:
        cpu_rank(m_.cpu_rank(id));
        break;
      case NodeKind::nic:
        line("nic");
        if (m_.pci_of(id) == nullptr) out_ += " nobus";
        pci(id, kNicClass);
        break;
      default:
        port(m_.port(id));
    }
    below(id);
  }

  void gpu(NodeId id) {
    const Gpu& gpu = m_.gpu(id);
    const bool in_function = m_.node(m_.node(id).parent).kind == NodeKind::pci_function;
    line("gpu");
    if (m_.pci_of(id) == nullptr && !in_function) out_ += " nobus";
    if (m_.pci_of(id) != nullptr && in_function) out_ += " bus";
    pci(id, kGpuClass);
    number("dev", gpu.dev, counting_.gpu());
    number("rank", gpu.rank, counting_.rank());
    number("sm", gpu.sm, 0);
    text("gcn", gpu.gcn);
    number("arch", gpu.arch);
    number("gdr", gpu.gdr);
    number("part", gpu.part);
    number("c2c", gpu.c2c_links, 0);
    number("c2crate", gpu.c2c_rate, 0);
    if (gpu.domain != 0) word("domain", fmt::format("{:x}", gpu.domain));
  }

  void cpu_rank(const CpuRank& cpu) {
    line("cpurank");
    number("rank", cpu.rank, counting_.rank());
    if (!cpu.cpus.empty()) word("cpus", cpu.cpus.text());
    number("cores", cpu.cores, 0);
    number("l2", cpu.l2_bytes, 0);
    number("l3", cpu.l3_bytes, 0);
    number("rate", cpu.rate, 0);
  }

  void port(const Port& port) {
    line("port");
    const int counted = counting_.port();
    text("name", port.name, fmt::format("net{}", counted));
    number("dev", port.dev, counted);
    if (port.speed != 0 && port.speed % 1000 == 0)
      fmt::format_to(std::back_inserter(out_), " {}G", port.speed / 1000);
    else
      number("mbits", port.speed, 0);
    number("port", port.port);
    if (port.latency != 0) word("latency", fmt::format("{}", port.latency));
    if (port.guid) word("guid", fmt::format("{:x}", *port.guid));
    number("maxconn", port.maxconn);
    number("gdr", port.gdr);
    number("coll", port.coll);
    number("net", port.net);
    number("gin", port.gin);
    number("rma", port.rma);
    number("rail", port.rail);
    number("plane", port.plane);
  }

  void links() {
    std::vector<int> ordinal(m_.nodes.size());
    int gpus = 0;
    int switches = 0;
    for (size_t i = 0; i < m_.nodes.size(); ++i) {
      if (m_.nodes[i].kind == NodeKind::gpu) ordinal[i] = gpus++;
      if (m_.nodes[i].kind == NodeKind::pci_switch) ordinal[i] = switches++;
    }
    const auto number_of = [&](NodeId id) { return ordinal[static_cast<size_t>(id)]; };
    for (size_t i = 0; i < m_.links.size(); ++i) {
      const Link& link = m_.links[i];
      if (link.kind == LinkKind::pci && m_.node(link.a).parent != link.b) {
        fmt::format_to(std::back_inserter(out_), "pcilink {} {}\n", number_of(link.a), number_of(link.b));
      }
      if (!is_peer_link(link.kind)) continue;
      // A CPU stands before its GPUs, a switch after them.
      const NodeId gpu = m_.node(link.a).kind == NodeKind::gpu ? link.a : link.b;
      const NodeId other = gpu == link.a ? link.b : link.a;
      std::string from = fmt::format("{}", number_of(gpu));
      std::string to = fmt::format("{}", number_of(other));
      if (m_.node(other).kind == NodeKind::numa) to = "cpu";
      if (m_.node(other).kind == NodeKind::nv_switch) {
        to = m_.node(other).host == kNone ? "domain" : "switch";
        // GPUs that follow each other and have as many links: one line.
        const size_t first = i;
        while (i + 1 < m_.links.size() && m_.links[i + 1].kind == link.kind && m_.links[i + 1].b == link.b &&
               m_.links[i + 1].count == link.count && m_.node(m_.links[i + 1].a).kind == NodeKind::gpu &&
               number_of(m_.links[i + 1].a) == number_of(m_.links[i].a) + 1) {
          ++i;
        }
        if (i > first) from += fmt::format("-{}", number_of(m_.links[i].a));
      }
      fmt::format_to(std::back_inserter(out_), "{} {} {} x{}\n", link.kind == LinkKind::xgmi ? "xgmi" : "nvlink", from, to,
                     link.count);
    }
  }

  const Machine& m_;
  std::vector<std::vector<NodeId>> children_;
  std::string out_;
  Counting counting_;
  int depth_ = 0;
  int hosts_ = 0;
};

}  // namespace

std::string to_text(const Machine& machine) { return Writer(machine).run(); }

}  // namespace ronde::topo
