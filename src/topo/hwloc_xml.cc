// Machines as hwloc writes them: the XML of lstopo, versions 1 to 3 of its format.
#include <fmt/core.h>
#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "topo/detect_parts.h"
#include "topo/hwloc_parts.h"

namespace ronde::topo {
namespace {

using pugi::xml_node;

constexpr int64_t kMaxNumber = 0x7fffffff;
constexpr size_t kMaxNumas = 256;
constexpr size_t kMaxMatrix = 1024;  // objects

class Reader {
 public:
  Reader(const XmlDocument& document, Notes& notes) : doc_(document), notes_(notes) {}

  Result<HostFacts> run() {
    const xml_node root = doc_.root();
    RONDE_TRY(check_version(root));
    Context top;
    // Version 3 has the machine's infos here.
    infos(root);
    RONDE_TRY(objects(root, top));
    RONDE_TRY(finish_cpus(root));
    for (const xml_node child : root.children()) RONDE_TRY(matrix(child));
    for (auto& [address, gpu] : gpus_) facts_.gpus.push_back(std::move(gpu));
    drop_shared_interfaces();
    return std::move(facts_);
  }

 private:
  /// Where an object stands.
  struct Context {
    CpuMask cpus;                        ///< of the nearest object around it that has some
    std::optional<PciAddress> function;  ///< the nearest function around it
  };
  /// What the matrices of distances refer to.
  struct Object {
    DriverLinks::End end = DriverLinks::End::unknown;
    std::optional<PciAddress> function;
  };

  Result<> check_version(xml_node root);
  Result<> objects(xml_node parent, const Context& around);
  Result<> numa(xml_node element, const CpuMask& cpus);
  Result<> function(xml_node element, Context& around);
  Result<> os_device(xml_node element, const Context& around);
  void port(xml_node element, const Context& around, bool rdma);
  void gpu_device(xml_node element, const PciAddress& address);
  void infos(xml_node element);
  Result<> finish_cpus(xml_node root);
  Result<> matrix(xml_node element);
  Result<std::vector<std::string_view>> tokens(xml_node matrix, const char* name, size_t count);
  void links(const std::vector<std::string_view>& names, const std::vector<int64_t>& values);
  void drop_shared_interfaces();

  static std::string_view info(xml_node element, std::string_view name) {
    for (const xml_node child : element.children("info")) {
      if (XmlDocument::text(child, "name") == name) return XmlDocument::text(child, "value");
    }
    return {};
  }

  const XmlDocument& doc_;
  Notes& notes_;
  HostFacts facts_;
  Numa cpu_;                                            ///< what all nodes have in common
  std::map<int, std::pair<CpuMask, int>> numas_;        ///< CPUs and line by number
  std::map<std::string, Object, std::less<>> objects_;  ///< by gp_index
  std::map<PciAddress, DriverGpu> gpus_;
  std::set<PciAddress> rdma_functions_;
  CpuMask allowed_;
  int version_ = 1;
};

Result<> Reader::check_version(xml_node root) {
  const std::string_view version = XmlDocument::text(root, "version");
  if (version.empty()) return Done{};
  if (version[0] < '1' || version[0] > '3' || (version.size() > 1 && version[1] != '.'))
    return doc_.error(root, "version", "expected a version from 1.0 to 3.x");
  version_ = version[0] - '0';
  return Done{};
}

void Reader::infos(xml_node element) {
  const auto number = [&](std::string_view name) {
    const auto value = parse_number(info(element, name));
    return value && *value >= 0 && *value <= 0xffff ? static_cast<int>(*value) : -1;
  };
  const auto plain = [](std::string_view text) {
    return text.size() <= 32 && std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
  };
  if (const auto vendor = info(element, "CPUVendor"); !vendor.empty() && plain(vendor)) cpu_.vendor = vendor;
  if (const int family = number("CPUFamilyNumber"); family >= 0) cpu_.family = family;
  if (const int model = number("CPUModelNumber"); model >= 0) cpu_.model = model;
  const auto architecture = info(element, "Architecture");
  if (architecture == "aarch64")
    cpu_.arch = "arm64";
  else if (architecture == "ppc64le")
    cpu_.arch = "ppc64";
  else if (!architecture.empty() && plain(architecture))
    cpu_.arch = architecture;
  else if (cpu_.arch.empty() && info(element, "CPUModel").substr(0, 5) == "POWER")
    cpu_.arch = "ppc64";
  else if (cpu_.arch.empty() && (cpu_.vendor == "GenuineIntel" || cpu_.vendor == "AuthenticAMD"))
    cpu_.arch = "x86_64";
}

Result<> Reader::objects(xml_node parent, const Context& around) {
  for (const xml_node element : parent.children("object")) {
    const std::string_view type = XmlDocument::text(element, "type");
    const auto cpus = parse_hwloc_set(XmlDocument::text(element, "cpuset"));
    if (!cpus) return doc_.error(element, "cpuset", "expected hexadecimal words with commas");
    Context inside = around;
    if (!cpus->empty()) inside.cpus = *cpus;
    Object object;
    if (type == "NUMANode") {
      RONDE_TRY(numa(element, *cpus));
    } else if (type == "Machine") {
      const auto allowed = parse_hwloc_set(XmlDocument::text(element, "allowed_cpuset"));
      if (!allowed) return doc_.error(element, "allowed_cpuset", "expected hexadecimal words with commas");
      allowed_ = *allowed;
    } else if ((type == "Bridge" && element.attribute("pci_busid")) || type == "PCIDev") {
      RONDE_TRY(function(element, inside));
    } else if (type == "OSDev") {
      RONDE_TRY(os_device(element, around));
    }
    if (type == "Machine" || type == "Package" || type == "Socket") infos(element);
    object.function = inside.function;
    // A switch of NVLink may have no class.
    if (XmlDocument::text(element, "subtype") == "NVSwitch")
      object.end = DriverLinks::End::nv_switch;
    else if (!object.function && type != "OSDev")
      object.end = DriverLinks::End::cpu;
    if (const auto index = XmlDocument::text(element, "gp_index"); !index.empty()) objects_.emplace(index, object);
    RONDE_TRY(objects(element, inside));
  }
  return Done{};
}

Result<> Reader::numa(xml_node element, const CpuMask& cpus) {
  RONDE_TRY(const int64_t id, doc_.integer(element, "os_index", 0, 0, 0xffff));
  const auto [place, is_new] = numas_.emplace(static_cast<int>(id), std::pair(cpus, doc_.line(element)));
  if (!is_new)
    return doc_.error(element, "os_index", fmt::format("this NUMA node stands in line {} already", place->second.second));
  if (numas_.size() > kMaxNumas) return doc_.error(element, fmt::format("more than {} NUMA nodes", kMaxNumas));
  return Done{};
}

/// Memory of GPUs and of other kinds has the CPUs of the node that it is near to, which come first.
Result<> Reader::finish_cpus(xml_node root) {
  CpuNodes& cpus = facts_.cpus;
  std::map<int, CpuMask> memory;
  for (const auto& [id, node] : numas_) {
    const auto same = [&mine = node.first](const CpuMask& other) { return !(other & mine).empty(); };
    if (node.first.empty() || std::any_of(cpus.all_cpus.begin(), cpus.all_cpus.end(), same)) {
      memory.emplace(id, node.first);
      continue;
    }
    cpu_.id = id;
    cpu_.cpus = node.first;
    cpus.numas.push_back(cpu_);
    cpus.all_cpus.push_back(node.first);
  }
  if (cpus.numas.empty()) {
    // One node, of number 0, where there is no NUMA.
    cpu_.id = 0;
    const auto all = parse_hwloc_set(XmlDocument::text(root.child("object"), "cpuset"));
    cpu_.cpus = all.value_or(CpuMask());
    cpus.numas.push_back(cpu_);
    cpus.all_cpus.push_back(cpu_.cpus);
    if (cpu_.cpus.empty()) notes_.add("CPUs not known", "node 0");
  }
  for (size_t i = 0; i < cpus.numas.size(); ++i) {
    cpus.homes[cpus.numas[i].id] = i;
    if (!allowed_.empty()) cpus.numas[i].cpus = cpus.numas[i].cpus & allowed_;
  }
  for (const auto& [id, near] : memory) {
    const auto place = std::find_if(cpus.all_cpus.begin(), cpus.all_cpus.end(),
                                    [&mask = near](const CpuMask& own) { return !(own & mask).empty(); });
    cpus.homes[id] = place == cpus.all_cpus.end() ? 0 : static_cast<size_t>(place - cpus.all_cpus.begin());
  }
  return Done{};
}

Result<> Reader::function(xml_node element, Context& around) {
  const auto address = parse_pci_address(XmlDocument::text(element, "pci_busid"));
  if (!address) return doc_.error(element, "pci_busid", "expected domain:bus:device.function");
  // "0302 [10de:1db8] [10de:131d] a1 00": class, device, subsystem, revision, programming interface.
  const std::string_view kind = XmlDocument::text(element, "pci_type");
  const auto digits = [&](size_t at, size_t count) -> int32_t {
    int32_t value = 0;
    if (kind.size() < at + count) return -1;
    const auto [end, error] = std::from_chars(kind.data() + at, kind.data() + at + count, value, 16);
    return error == std::errc() && end == kind.data() + at + count && value >= 0 ? value : -1;
  };
  PciFunction function;
  function.facts.address = *address;
  const int32_t device_class = digits(0, 4);
  if (!kind.empty() && (device_class < 0 || digits(6, 4) < 0 || digits(11, 4) < 0))
    return doc_.error(element, "pci_type", "expected \"class [vendor:device] ...\" in hexadecimal digits");
  if (device_class >= 0) function.facts.device_class = device_class << 8 | std::max(0, digits(32, 2));
  function.facts.vendor = digits(6, 4);
  function.facts.device = digits(11, 4);
  function.facts.subsystem_vendor = digits(18, 4);
  function.facts.subsystem_device = digits(23, 4);
  RONDE_TRY(const double gbps, doc_.real(element, "pci_link_speed"));
  set_hwloc_link(gbps, function.facts);
  function.local_cpus = around.cpus;
  function.parent = around.function;
  function.gpu = is_gpu(function);
  const bool gpu = function.gpu;
  if (!facts_.tree.emplace(*address, std::move(function)).second)
    return doc_.error(element, "pci_busid", "this function stands twice");
  if (gpu) gpus_[*address].address = *address;
  around.function = *address;
  return Done{};
}

Result<> Reader::os_device(xml_node element, const Context& around) {
  RONDE_TRY(const int64_t type, doc_.integer(element, "osdev_type", -1, 0, kMaxNumber));
  // A number of its own for each kind, since version 3 a bit.
  const bool rdma = version_ < 3 ? type == 3 : (type & 32) != 0;
  const bool network = version_ < 3 ? type == 2 : (type & 16) != 0;
  if (type >= 0 && (rdma || network)) port(element, around, rdma);
  if (around.function && gpus_.count(*around.function) != 0) gpu_device(element, *around.function);
  return Done{};
}

void Reader::port(xml_node element, const Context& around, bool rdma) {
  FoundPort found;
  found.pci = around.function;
  found.port.name = XmlDocument::text(element, "name");
  if (!found.pci) return notes_.add("network interface without hardware of its own left out", found.port.name);
  found.port.guid = parse_guid(info(element, "NodeGUID"));
  if (!rdma) return facts_.ports.push_back(std::move(found));
  rdma_functions_.insert(*found.pci);
  bool stated = false;
  for (int number = 1; number <= 8; ++number) {
    const std::string_view state = info(element, fmt::format("Port{}State", number));
    if (state.empty()) continue;
    stated = true;
    found.port.port = number;
    if (state[0] == '4')
      facts_.ports.push_back(found);
    else
      notes_.add("port that is down left out", fmt::format("{}:{}", found.port.name, number));
  }
  found.port.port = 1;
  if (!stated) facts_.ports.push_back(std::move(found));
}

void Reader::drop_shared_interfaces() {
  const auto shares = [&](const FoundPort& found) { return found.port.port < 0 && rdma_functions_.count(*found.pci) != 0; };
  for (const FoundPort& found : facts_.ports) {
    if (shares(found)) notes_.add("network interface shares the wire of an RDMA port, which stands for both", found.port.name);
  }
  facts_.ports.erase(std::remove_if(facts_.ports.begin(), facts_.ports.end(), shares), facts_.ports.end());
}

void Reader::gpu_device(xml_node element, const PciAddress& address) {
  Gpu& gpu = gpus_.at(address).facts;
  const std::string_view name = XmlDocument::text(element, "name");
  const auto number_after = [&](std::string_view prefix) {
    const auto number = name.substr(0, prefix.size()) == prefix ? parse_number(name.substr(prefix.size())) : std::nullopt;
    return number && *number >= 0 && *number <= 0xffff ? static_cast<int>(*number) : -1;
  };
  // CUDA's number, else NVML's.
  const int cuda = number_after("cuda");
  if (cuda >= 0)
    gpu.dev = cuda;
  else if (gpu.dev < 0)
    gpu.dev = number_after("nvml");
  const std::string_view model = info(element, "GPUModel");
  for (const HwlocModel& known : kHwlocModels) {
    if (gpu.sm == 0 && model.find(known.name) != std::string_view::npos) gpu.sm = known.sm;
  }
}

Result<std::vector<std::string_view>> Reader::tokens(xml_node matrix, const char* name, size_t count) {
  std::vector<std::string_view> all;
  for (const xml_node part : matrix.children(name)) {
    for (const std::string_view token : split(std::string_view(part.child_value()), ' ')) all.push_back(token);
  }
  if (all.size() == count) return all;
  return doc_.error(matrix, fmt::format("expected {} values in <{}>, found {}", count, name, all.size()));
}

Result<> Reader::matrix(xml_node element) {
  const std::string_view kind = element.name();
  const bool mixed = kind == "distances2hetero";
  if ((!mixed && kind != "distances2") || XmlDocument::text(element, "name") != "NVLinkBandwidth") return Done{};
  RONDE_TRY(const int64_t count, doc_.integer(element, "nbobjs", 0, 0, kMaxMatrix));
  const auto size = static_cast<size_t>(count);
  RONDE_TRY(auto names, tokens(element, "indexes", size));
  RONDE_TRY(const auto texts, tokens(element, "u64values", size * size));
  std::vector<int64_t> values;
  for (const std::string_view text : texts) {
    const auto value = parse_number(text);
    if (!value || *value < 0) return doc_.error(element, "holds a value that is no number");
    values.push_back(*value);
  }
  for (std::string_view& name : names) name = name.substr(name.find(':') + 1);
  links(names, values);
  return Done{};
}

void Reader::links(const std::vector<std::string_view>& names, const std::vector<int64_t>& values) {
  const auto object = [&](size_t i) {
    const auto place = objects_.find(names[i]);
    return place == objects_.end() ? nullptr : &place->second;
  };
  for (size_t i = 0; i < names.size(); ++i) {
    const Object* from = object(i);
    if (from == nullptr) notes_.add("object of the NVLink matrix that is not there ignored", std::string(names[i]));
    if (from == nullptr || !from->function || gpus_.count(*from->function) == 0) continue;
    DriverGpu& gpu = gpus_.at(*from->function);
    const auto model =
        std::find_if(std::begin(kHwlocModels), std::end(kHwlocModels), [&](const HwlocModel& m) { return m.sm == gpu.facts.sm; });
    for (size_t j = 0; j < names.size(); ++j) {
      const Object* to = object(j);
      const int64_t value = values[i * names.size() + j];
      // The diagonal holds no link.
      if (to == nullptr || i == j || value == 0) continue;
      const int64_t per_link = model != std::end(kHwlocModels) ? model->link_rate : value % 25000 == 0 ? 25000 : 20000;
      const int64_t count = value / per_link + (value % per_link >= per_link / 2 ? 1 : 0);
      if (count < 1 || count > kMaxPeerLinks) {
        notes_.add("impossible NVLink bandwidth ignored", fmt::format("{} MB/s of {}", value, to_string(gpu.address)));
        continue;
      }
      gpu.links.push_back({to->end, to->function, static_cast<int>(count)});
    }
  }
}

}  // namespace

Result<HostFacts> read_hwloc(const XmlDocument& document, Notes& notes) { return Reader(document, notes).run(); }

}  // namespace ronde::topo
