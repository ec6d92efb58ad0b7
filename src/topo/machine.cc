#include "topo/machine.h"

#include <fmt/core.h>
#include <algorithm>
#include <bit>
#include <charconv>

#include "base/words.h"

namespace ronde::topo {
namespace {

constexpr const char* kNodeKinds[] = {"NUMA node", "switch", "function", "gpu", "cpu", "nic", "port", "NVSwitch", "network"};
constexpr const char* kLinkKinds[] = {"internal", "PCI", "NVLink", "xGMI", "C2C", "socket", "memory", "network"};
constexpr const char* kSources[] = {"given", "derived", "table", "assumed"};

/// A hexadecimal number of 1 to `digits` digits that is the whole text.
std::optional<uint32_t> hex(std::string_view text, size_t digits) {
  uint32_t value = 0;
  if (text.empty() || text.size() > digits) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

const char* to_string(NodeKind kind) { return kNodeKinds[static_cast<size_t>(kind)]; }
const char* to_string(LinkKind kind) { return kLinkKinds[static_cast<size_t>(kind)]; }
const char* to_string(Source source) { return kSources[static_cast<size_t>(source)]; }

std::optional<PciAddress> parse_pci_address(std::string_view text) {
  const size_t dot = text.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const size_t second = text.rfind(':', dot);
  if (second == std::string_view::npos) return std::nullopt;
  const size_t first = second == 0 ? std::string_view::npos : text.rfind(':', second - 1);
  const size_t bus_at = first == std::string_view::npos ? 0 : first + 1;
  const auto domain = first == std::string_view::npos ? std::optional<uint32_t>(0) : hex(text.substr(0, first), 8);
  const auto bus = hex(text.substr(bus_at, second - bus_at), 2);
  const auto device = hex(text.substr(second + 1, dot - second - 1), 2);
  const auto function = hex(text.substr(dot + 1), 1);
  if (!domain || !bus || !device || !function) return std::nullopt;
  return PciAddress{*domain, static_cast<uint8_t>(*bus), static_cast<uint8_t>(*device), static_cast<uint8_t>(*function)};
}

std::string to_string(const PciAddress& address) {
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", address.domain, address.bus, address.device, address.function);
}

std::optional<CpuMask> CpuMask::parse(std::string_view text) {
  CpuMask mask;
  if (text.empty()) return mask;
  for (;;) {
    const size_t comma = text.find(',');
    const auto word = hex(text.substr(0, comma), 8);
    if (!word || mask.words_.size() == kMaxCpus / 32) return std::nullopt;
    mask.words_.push_back(*word);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  std::reverse(mask.words_.begin(), mask.words_.end());
  mask.trim();
  return mask;
}

std::string CpuMask::text() const {
  if (words_.empty()) return "0";
  std::string out = fmt::format("{:x}", words_.back());
  for (size_t i = words_.size() - 1; i-- > 0;) out += fmt::format(",{:08x}", words_[i]);
  return out;
}

void CpuMask::set(int cpu) {
  const auto word = static_cast<size_t>(cpu) / 32;
  if (words_.size() <= word) words_.resize(word + 1);
  words_[word] |= uint32_t{1} << (cpu % 32);
}

bool CpuMask::test(int cpu) const {
  const auto word = static_cast<size_t>(cpu) / 32;
  return word < words_.size() && (words_[word] >> (cpu % 32) & 1) != 0;
}

int CpuMask::count() const {
  int sum = 0;
  for (const uint32_t word : words_) sum += std::popcount(word);
  return sum;
}

std::vector<int> CpuMask::list() const {
  std::vector<int> cpus;
  for (size_t i = 0; i < words_.size(); ++i) {
    for (uint32_t word = words_[i]; word != 0; word &= word - 1)
      cpus.push_back(static_cast<int>(i) * 32 + std::countr_zero(word));
  }
  return cpus;
}

CpuMask CpuMask::operator&(const CpuMask& other) const {
  CpuMask both;
  both.words_.resize(std::min(words_.size(), other.words_.size()));
  for (size_t i = 0; i < both.words_.size(); ++i) both.words_[i] = words_[i] & other.words_[i];
  both.trim();
  return both;
}

CpuMask CpuMask::operator|(const CpuMask& other) const {
  CpuMask either = words_.size() < other.words_.size() ? other : *this;
  const CpuMask& shorter = words_.size() < other.words_.size() ? *this : other;
  for (size_t i = 0; i < shorter.words_.size(); ++i) either.words_[i] |= shorter.words_[i];
  return either;
}

void CpuMask::trim() {
  while (!words_.empty() && words_.back() == 0) words_.pop_back();
}

std::vector<NodeId> Machine::of_kind(NodeKind kind) const {
  std::vector<NodeId> found;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].kind == kind) found.push_back(static_cast<NodeId>(i));
  }
  return found;
}

NodeId Machine::numa_of(NodeId id) const {
  while (node(id).parent != kNone) id = node(id).parent;
  return node(id).kind == NodeKind::numa ? id : kNone;
}

NodeId Machine::device_of_rank(int rank) const {
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto id = static_cast<NodeId>(i);
    if (nodes[i].kind == NodeKind::gpu && gpu(id).rank == rank) return id;
    if (nodes[i].kind == NodeKind::cpu_rank && cpu_rank(id).rank == rank) return id;
  }
  return kNone;
}

std::string describe(const Machine& machine, NodeId id) {
  const Node& node = machine.node(id);
  const Pci* pci = machine.pci_of(id);
  std::string text = to_string(node.kind);
  if (node.kind == NodeKind::gpu && machine.gpu(id).dev >= 0) {
    text += fmt::format(" {}", machine.gpu(id).dev);
    if (machine.gpu(id).part >= 0) text += fmt::format(" part {}", machine.gpu(id).part);
  } else if (node.kind == NodeKind::port && !machine.port(id).name.empty()) {
    text.append(" ").append(printable(machine.port(id).name));
  } else if (node.kind == NodeKind::numa && machine.numa(id).id >= 0) {
    text += fmt::format(" {}", machine.numa(id).id);
  } else if (node.kind == NodeKind::cpu_rank && machine.cpu_rank(id).rank >= 0) {
    text += fmt::format(" rank {}", machine.cpu_rank(id).rank);
  } else if (pci != nullptr) {
    text.append(" ").append(to_string(pci->address));
  }
  if (machine.hosts.size() > 1 && node.host != kNone) text += fmt::format(" of host {}", node.host);
  return text;
}

namespace {

/// One Machine under check(); faults are collected as sentences.
class Check {
 public:
  explicit Check(const Machine& machine) : m_(machine) {}

  std::vector<std::string> run() {
    for (size_t i = 0; i < m_.nodes.size(); ++i) node(static_cast<NodeId>(i));
    for (size_t i = 0; i < m_.links.size(); ++i) link(static_cast<LinkId>(i));
    for (size_t i = 0; i < m_.nodes.size(); ++i) {
      if (m_.nodes[i].parent != kNone && parent_links_[i] != 1) fault("node {} has {} links to its parent", i, parent_links_[i]);
    }
    return std::move(faults_);
  }

 private:
  template <class... Args>
  void fault(fmt::format_string<Args...> format, Args&&... args) {
    faults_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  /// True for an index into a table of `size`; kNone counts as one where `may_lack`.
  static bool fits(int32_t index, size_t size, bool may_lack) {
    return index == kNone ? may_lack : index >= 0 && static_cast<size_t>(index) < size;
  }

  size_t details(NodeKind kind) const {
    switch (kind) {
      case NodeKind::numa:
        return m_.numas.size();
      case NodeKind::gpu:
        return m_.gpus.size();
      case NodeKind::cpu_rank:
        return m_.cpu_ranks.size();
      case NodeKind::port:
        return m_.ports.size();
      default:
        return 0;
    }
  }

  void node(NodeId id) {
    const Node& n = m_.node(id);
    const bool root = n.kind == NodeKind::numa || n.kind == NodeKind::nv_switch || n.kind == NodeKind::network;
    const bool detailed =
        n.kind == NodeKind::numa || n.kind == NodeKind::gpu || n.kind == NodeKind::cpu_rank || n.kind == NodeKind::port;
    if (root != (n.parent == kNone)) fault("node {} ({}) has parent {}", id, to_string(n.kind), n.parent);
    if (n.parent != kNone && (n.parent < 0 || n.parent >= id))
      fault("node {} stands before its parent {}", id, n.parent);
    else if (n.parent != kNone && m_.node(n.parent).host != n.host)
      fault("node {} is on another host than its parent", id);
    if (!fits(n.host, m_.hosts.size(), n.kind == NodeKind::nv_switch || n.kind == NodeKind::network))
      fault("node {} is on host {}", id, n.host);
    if (!fits(n.pci, m_.pci.size(), true)) fault("node {} has PCI entry {}", id, n.pci);
    if (!fits(n.detail, details(n.kind), !detailed)) fault("node {} ({}) has detail {}", id, to_string(n.kind), n.detail);
    parent_links_.push_back(0);
  }

  void link(LinkId id) {
    const Link& l = m_.link(id);
    if (!fits(l.a, m_.nodes.size(), false) || !fits(l.b, m_.nodes.size(), false))
      return fault("link {} joins {} and {}", id, l.a, l.b);
    if (l.a == l.b) fault("link {} joins node {} with itself", id, l.a);
    if (l.rate <= 0) fault("link {} carries {} MB/s", id, l.rate);
    if (l.count < 1) fault("link {} consists of {} links", id, l.count);
    const bool upwards = l.kind == LinkKind::internal || l.kind == LinkKind::pci || l.kind == LinkKind::memory;
    if (upwards && m_.node(l.a).parent == l.b) ++parent_links_[static_cast<size_t>(l.a)];
  }

  const Machine& m_;
  std::vector<int> parent_links_;
  std::vector<std::string> faults_;
};

}  // namespace

std::vector<std::string> check(const Machine& machine) { return Check(machine).run(); }

}  // namespace ronde::topo
