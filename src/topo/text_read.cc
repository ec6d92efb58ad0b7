#include <fmt/core.h>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <set>

#include "base/words.h"
#include "topo/assembly.h"
#include "topo/text.h"
#include "topo/text_words.h"

namespace ronde::topo {
namespace {

constexpr size_t kMaxNodes = 50000;
constexpr int64_t kMaxRate = 100000000;  // MB/s of one link
constexpr int kMaxNumasPerHost = 256;    // their links are quadratic in number

class Builder {
 public:
  explicit Builder(const std::string& file) : file_(file) {}

  Result<Reading> run(const std::vector<TextItem>& items) {
    const bool hosts = std::any_of(items.begin(), items.end(), [](const TextItem& item) { return item.kind == "host"; });
    for (const TextItem& item : items) RONDE_TRY(top(item, hosts));
    Reading reading;
    reading.machine = assembly_.finish();
    reading.notes = assembly_.notes().sentences();
    return reading;
  }

 private:
  Error error(const TextItem& item, const std::string& what) const {
    return fail(Code::invalid_argument, fmt::format("{}:{}: {}: {}", file_, item.line, shown(item.kind), what));
  }
  Error unknown_word(const TextItem& item, std::string_view word) const {
    return error(item, fmt::format("'{}' is no word of this item, or its value cannot be", shown(word)));
  }
  static std::string shown(std::string_view word) { return printable(word.substr(0, 60)); }

  Result<> top(const TextItem& item, bool hosts);
  Result<> host(const TextItem& item);
  Result<> cpu(const TextItem& item, int32_t host);
  Result<> device(const TextItem& item, NodeId parent);
  Result<> device_once(const TextItem& item, NodeId parent);
  Result<> cpu_rank(const TextItem& item, NodeId parent);
  Result<> function(const TextItem& item, NodeId parent, NodeKind kind);
  Result<> gpu(const TextItem& item, NodeId parent);
  Result<> nic(const TextItem& item, NodeId parent);
  Result<> port(const TextItem& item, NodeId nic);
  /// Those that `first` is true for, then the others.
  Result<> children(
      const TextItem& item, NodeId parent, bool (*first)(const TextItem&) = [](const TextItem&) { return true; });
  static bool is_part(const TextItem& item) {
    return item.kind == "gpu" && std::find(item.words.begin(), item.words.end(), "bus") == item.words.end();
  }
  Result<> links(const TextItem& item);
  Result<> switch_links(const TextItem& item);
  Result<std::vector<int>> ordinals(const TextItem& item, std::string_view word, size_t count) const;
  Result<int> links_count(const TextItem& item) const;
  Result<> identity(const TextItem& item, NodeId parent, const Pci& pci, bool gpu);
  Result<> identity(const TextItem& item, int rank);

  const std::string& file_;
  Assembly assembly_;
  Counting counting_;
  FirstLines first_lines_;
  std::vector<int> numas_;  ///< by host
  int hosts_ = 0;
};

Result<> Builder::identity(const TextItem& item, NodeId parent, const Pci& pci, bool gpu) {
  const int32_t host = assembly_.so_far().node(parent).host;
  const int first = first_lines_.address(host, pci.address, gpu, item.line, assembly_.notes());
  if (first != 0)
    return error(item, fmt::format("a GPU's address {} stands twice, first in line {}", to_string(pci.address), first));
  return Done{};
}

Result<> Builder::identity(const TextItem& item, int rank) {
  const int first = rank < 0 ? 0 : first_lines_.rank(rank, item.line);
  if (first != 0) return error(item, fmt::format("a device of rank {} stands in line {} already", rank, first));
  return Done{};
}

// ---- items

Result<> Builder::top(const TextItem& item, bool hosts) {
  if (item.kind == "host") {
    for (int i = 0; i < item.count; ++i) RONDE_TRY(host(item));
    return Done{};
  }
  if (item.kind == "cpu" && !hosts) {
    for (int i = 0; i < item.count; ++i) RONDE_TRY(cpu(item, assembly_.host(0)));
    return Done{};
  }
  if (item.kind == "nvlink" || item.kind == "xgmi") return links(item);
  if (item.kind == "pcilink") return switch_links(item);
  return error(item, hosts ? "expected host, nvlink, xgmi or pcilink" : "expected host, cpu, nvlink, xgmi or pcilink");
}

Result<> Builder::host(const TextItem& item) {
  uint64_t hash = static_cast<uint64_t>(++hosts_);
  for (const std::string& word : item.words) {
    if (!hex_word(word, "hash", hash)) return unknown_word(item, word);
  }
  if (item.children.empty()) return error(item, "holds no cpu");
  counting_.begin_host();
  const int32_t index = assembly_.host(hash);
  for (const TextItem& child : item.children) {
    if (child.kind != "cpu") return error(child, "expected cpu in host");
    for (int i = 0; i < child.count; ++i) RONDE_TRY(cpu(child, index));
  }
  return Done{};
}

Result<> Builder::cpu(const TextItem& item, int32_t host) {
  Numa numa;
  numa.id = counting_.numa();
  for (const std::string& word : item.words) {
    if (const CpuWord* model = cpu_word(word)) {
      numa.arch = model->arch;
      numa.vendor = model->vendor;
      numa.family = model->family;
      numa.model = model->model;
    } else if (!number_word(word, {{"numa", &numa.id, -1, 65535}, {"family", &numa.family}, {"model", &numa.model}}) &&
               !text_word(word, "arch", numa.arch) && !text_word(word, "vendor", numa.vendor) && !mask_word(word, numa.cpus)) {
      return unknown_word(item, word);
    }
  }
  if (assembly_.so_far().nodes.size() > kMaxNodes) return error(item, fmt::format("more than {} devices", kMaxNodes));
  numas_.resize(std::max(numas_.size(), static_cast<size_t>(host) + 1));
  if (++numas_[static_cast<size_t>(host)] > kMaxNumasPerHost)
    return error(item, fmt::format("more than {} in one host", kMaxNumasPerHost));
  const int first = numa.id < 0 ? 0 : first_lines_.numa(host, numa.id, item.line);
  if (first != 0) return error(item, fmt::format("NUMA node {} of the host stands in line {} already", numa.id, first));
  return children(item, assembly_.numa(host, std::move(numa)));
}

Result<> Builder::children(const TextItem& item, NodeId parent, bool (*first)(const TextItem&)) {
  for (const bool turn : {true, false}) {
    for (const TextItem& child : item.children) {
      if (first(child) == turn) RONDE_TRY(device(child, parent));
    }
  }
  return Done{};
}

Result<> Builder::device(const TextItem& item, NodeId parent) {
  for (int i = 0; i < item.count; ++i) {
    if (assembly_.so_far().nodes.size() > kMaxNodes) return error(item, fmt::format("more than {} devices", kMaxNodes));
    RONDE_TRY(device_once(item, parent));
  }
  return Done{};
}

Result<> Builder::device_once(const TextItem& item, NodeId parent) {
  const NodeKind above = assembly_.so_far().node(parent).kind;
  if (item.kind == "port" && above == NodeKind::nic) return port(item, parent);
  if (item.kind == "cpurank" && above == NodeKind::numa) return cpu_rank(item, parent);
  if (item.kind == "switch") return function(item, parent, NodeKind::pci_switch);
  if (item.kind == "function") return function(item, parent, NodeKind::pci_function);
  if (item.kind == "gpu") return gpu(item, parent);
  if (item.kind == "nic") return nic(item, parent);
  return error(item, fmt::format("nothing that may stand in a {}", to_string(above)));
}

Result<> Builder::cpu_rank(const TextItem& item, NodeId parent) {
  CpuRank cpu;
  cpu.rank = counting_.rank();
  for (const std::string& word : item.words) {
    if (!mask_word(word, cpu.cpus) && !number_word(word, {{"rank", &cpu.rank},
                                                          {"cores", &cpu.cores, 0, CpuMask::kMaxCpus},
                                                          {"l2", nullptr, 0, INT64_MAX, &cpu.l2_bytes},
                                                          {"l3", nullptr, 0, INT64_MAX, &cpu.l3_bytes},
                                                          {"rate", nullptr, 0, kMaxRate, &cpu.rate}})) {
      return unknown_word(item, word);
    }
  }
  RONDE_TRY(identity(item, cpu.rank));
  assembly_.cpu_rank(parent, std::move(cpu));
  return item.children.empty() ? Result<>() : error(item, "holds nothing");
}

Result<> Builder::function(const TextItem& item, NodeId parent, NodeKind kind) {
  Pci pci;
  pci.address = counting_.address();
  if (kind == NodeKind::pci_switch) pci.device_class = kSwitchClass;
  for (const std::string& word : item.words) {
    if (!pci_word(word, pci)) return unknown_word(item, word);
  }
  // What topology files can say too, so that the one form can be turned into the other.
  const bool bridge = pci.device_class >> 8 == kSwitchClass >> 8;
  int parts = 0;
  for (const TextItem& child : item.children) parts += is_part(child) ? child.count : 0;
  if (kind == NodeKind::pci_switch && !bridge && item.children.empty())
    return error(item, "neither of a bridge's class nor with anything below it");
  if (kind == NodeKind::pci_function && (parts == 1 || (parts == 0 && (bridge || !item.children.empty())))) {
    return error(item, "holds two or more GPUs, its parts, or nothing, and is no bridge");
  }
  if (kind == NodeKind::pci_switch) parts = 0;
  RONDE_TRY(identity(item, parent, pci, parts > 0));
  const NodeId self = assembly_.pci(kind, parent, pci);
  if (kind == NodeKind::pci_switch) return children(item, self);
  return children(item, self, is_part);
}

Result<> Builder::gpu(const TextItem& item, NodeId parent) {
  Pci pci;
  pci.address = counting_.address();
  pci.device_class = kGpuClass;
  Gpu gpu;
  gpu.dev = counting_.gpu();
  gpu.rank = counting_.rank();
  bool bus = assembly_.so_far().node(parent).kind != NodeKind::pci_function;
  for (const std::string& word : item.words) {
    if (const GpuWord* model = gpu_word(word)) {
      gpu.sm = model->sm;
      gpu.gcn = model->gcn;
      pci.device_class = model->device_class;
      pci.speed = model->speed;
      pci.width = 16;
    } else if (word == "nobus") {
      bus = false;
    } else if (word == "bus") {
      bus = true;
    } else if (!pci_word(word, pci) && !text_word(word, "gcn", gpu.gcn) && !hex_word(word, "domain", gpu.domain) &&
               !number_word(word, {{"dev", &gpu.dev},
                                   {"rank", &gpu.rank},
                                   {"sm", &gpu.sm, 0},
                                   {"arch", &gpu.arch},
                                   {"gdr", &gpu.gdr, -1, 1},
                                   {"part", &gpu.part},
                                   {"c2c", &gpu.c2c_links, 0, kMaxPeerLinks},
                                   {"c2crate", nullptr, 0, kMaxRate, &gpu.c2c_rate}})) {
      return unknown_word(item, word);
    }
  }
  if ((gpu.c2c_links == 0) != (gpu.c2c_rate == 0)) return error(item, "c2c and c2crate belong together");
  const NodeKind above = assembly_.so_far().node(parent).kind;
  if (bus) {
    RONDE_TRY(identity(item, parent, pci, true));
  } else if (!item.children.empty() || (above != NodeKind::numa && above != NodeKind::pci_function)) {
    return error(item, "without a bus of its own it stands directly in a cpu and holds nothing");
  }
  RONDE_TRY(identity(item, gpu.rank));
  return children(item, assembly_.gpu(parent, bus ? std::optional(pci) : std::nullopt, std::move(gpu)));
}

Result<> Builder::nic(const TextItem& item, NodeId parent) {
  Pci pci;
  pci.address = counting_.address();
  pci.device_class = kNicClass;
  bool bus = true;
  std::vector<int64_t> speeds;
  for (const std::string& word : item.words) {
    if (const int64_t speed = gbits_word(word); speed != 0)
      speeds.push_back(speed);
    else if (word == "nobus")
      bus = false;
    else if (!pci_word(word, pci))
      return unknown_word(item, word);
  }
  const auto is_port = [](const TextItem& child) { return child.kind == "port"; };
  if (bus) {
    RONDE_TRY(identity(item, parent, pci, false));
  } else if (assembly_.so_far().node(parent).kind != NodeKind::numa || (speeds.empty() && item.children.empty()) ||
             !std::all_of(item.children.begin(), item.children.end(), is_port)) {
    return error(item, "without a bus it stands directly in a cpu and holds one port or more and nothing else");
  }
  const NodeId self = assembly_.nic(parent, bus ? std::optional(pci) : std::nullopt);
  for (const int64_t speed : speeds) {
    Port port;
    port.dev = counting_.port();
    port.name = fmt::format("net{}", port.dev);
    port.speed = speed;
    assembly_.port(self, std::move(port));
  }
  return children(item, self, is_port);
}

Result<> Builder::port(const TextItem& item, NodeId nic) {
  Port port;
  port.dev = counting_.port();
  port.name = fmt::format("net{}", port.dev);
  for (const std::string& word : item.words) {
    if (!port_word(word, port)) return unknown_word(item, word);
  }
  assembly_.port(nic, std::move(port));
  return item.children.empty() ? Result<>() : error(item, "holds nothing");
}

// ---- links

Result<std::vector<int>> Builder::ordinals(const TextItem& item, std::string_view word, size_t count) const {
  int first = -1;
  int last = -1;
  const char* const end = word.data() + word.size();
  auto parsed = std::from_chars(word.data(), end, first);
  last = first;
  if (parsed.ec == std::errc() && parsed.ptr != end && *parsed.ptr == '-') parsed = std::from_chars(parsed.ptr + 1, end, last);
  if (parsed.ec != std::errc() || parsed.ptr != end || first < 0 || last < first || static_cast<size_t>(last) >= count) {
    return error(item, fmt::format("'{}' is no number, or first-last, below {}", shown(word), count));
  }
  std::vector<int> all;
  for (int i = first; i <= last; ++i) all.push_back(i);
  return all;
}

Result<int> Builder::links_count(const TextItem& item) const {
  int count = 0;
  const std::string_view word = item.words.size() == 3 ? std::string_view(item.words[2]) : "";
  const bool is_count = word.size() > 1 && word[0] == 'x';
  const auto [end, code] = std::from_chars(word.data() + (is_count ? 1 : 0), word.data() + word.size(), count);
  if (!is_count || code != std::errc() || end != word.data() + word.size() || count < 1 || count > kMaxPeerLinks) {
    return error(item, fmt::format("expected two ends and xN, N from 1 to {}", kMaxPeerLinks));
  }
  return count;
}

Result<> Builder::links(const TextItem& item) {
  const LinkKind kind = item.kind == "xgmi" ? LinkKind::xgmi : LinkKind::nvlink;
  const auto gpus = assembly_.so_far().of_kind(NodeKind::gpu);
  RONDE_TRY(const int count, links_count(item));
  RONDE_TRY(const std::vector<int> from, ordinals(item, item.words[0], gpus.size()));
  const std::string& to = item.words[1];
  if (to == "switch" || to == "domain" || to == "cpu") {
    Target target;
    target.kind = to == "cpu" ? Target::Kind::cpu : Target::Kind::nv_switch;
    if (to == "switch") target.address = PciAddress{};
    for (const int gpu : from) assembly_.peer(gpus[static_cast<size_t>(gpu)], kind, target, count);
    return Done{};
  }
  RONDE_TRY(const std::vector<int> others, ordinals(item, to, gpus.size()));
  std::set<std::pair<int, int>> pairs;
  for (const int a : from) {
    for (const int b : others) {
      if (a != b) pairs.emplace(std::min(a, b), std::max(a, b));
    }
    if (pairs.size() > kMaxNodes) return error(item, fmt::format("more than {} links", kMaxNodes));
  }
  for (const auto& [a, b] : pairs) {
    const auto peer = [&](int one, int other) {
      Target target;
      target.node = gpus[static_cast<size_t>(other)];
      assembly_.peer(gpus[static_cast<size_t>(one)], kind, target, count);
    };
    peer(a, b);
    peer(b, a);
  }
  return Done{};
}

Result<> Builder::switch_links(const TextItem& item) {
  const Machine& m = assembly_.so_far();
  const auto switches = m.of_kind(NodeKind::pci_switch);
  if (item.words.size() != 2) return error(item, "expected two switches");
  RONDE_TRY(const std::vector<int> from, ordinals(item, item.words[0], switches.size()));
  RONDE_TRY(const std::vector<int> to, ordinals(item, item.words[1], switches.size()));
  for (const int a : from) {
    for (const int b : to)
      assembly_.pci_peer(switches[static_cast<size_t>(a)], m.pci_of(switches[static_cast<size_t>(b)])->address);
  }
  return Done{};
}

}  // namespace

Result<Reading> from_text(std::string_view text, const std::string& file) {
  RONDE_TRY(const std::vector<TextItem> items, split_text(text, file));
  return Builder(file).run(items);
}

}  // namespace ronde::topo
