// PCI functions from a host's files.
#include <charconv>

#include "topo/detect_parts.h"

namespace ronde::topo {
namespace {

const std::string kDevices = "/sys/bus/pci/devices/";
const std::string kNvidia = "/proc/driver/nvidia/gpus/";  // the driver's GPUs, a folder each

/// -1 where the file holds no number from 0 to `most`.
int32_t id(const HostFiles& files, const std::string& path, int64_t most) {
  const auto value = files.number(path);
  return value && *value >= 0 && *value <= most ? static_cast<int32_t>(*value) : -1;
}

/// MT/s of "16.0 GT/s PCIe"; 0 for "Unknown" and whatever else.
int32_t speed(const HostFiles& files, const std::string& path) {
  const std::string text = files.text(path).value_or("");
  double gts = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), gts);
  const std::string_view rest(end, static_cast<size_t>(text.data() + text.size() - end));
  if (error != std::errc() || !(gts > 0 && gts <= 1024) || rest.substr(0, 5) != " GT/s") return 0;
  return static_cast<int32_t>(gts * 1000 + 0.5);
}

/// Lanes; Linux states 63 or 255 where it does not know.
int32_t width(const HostFiles& files, const std::string& path) {
  const int32_t lanes = id(files, path, 32);
  return lanes < 0 ? 0 : lanes;
}

void add(const HostFiles& files, PciTree& tree, const PciAddress& address, const std::string& path) {
  const auto [place, is_new] = tree.try_emplace(address);
  if (!is_new) return;
  PciFunction& function = place->second;
  Pci& facts = function.facts;
  facts.address = address;
  facts.device_class = id(files, path + "/class", 0xffffff);
  facts.vendor = id(files, path + "/vendor", 0xffff);
  facts.device = id(files, path + "/device", 0xffff);
  facts.subsystem_vendor = id(files, path + "/subsystem_vendor", 0xffff);
  facts.subsystem_device = id(files, path + "/subsystem_device", 0xffff);
  facts.speed = speed(files, path + "/current_link_speed");
  facts.width = width(files, path + "/current_link_width");
  function.max_speed = speed(files, path + "/max_link_speed");
  function.max_width = width(files, path + "/max_link_width");
  function.numa = id(files, path + "/numa_node", 0xffff);
  if (function.numa < 0) function.local_cpus = CpuMask::parse(files.text(path + "/local_cpus").value_or("")).value_or(CpuMask());
  const std::string physical = files.resolve(path + "/physfn");
  if (!physical.empty()) function.physical = pci_address_in(physical);
  function.gpu = is_gpu(function);
  // A parent's folder is around its child's; between them may be others, such as the host bridge of a VMD domain.
  std::string folder = path.substr(0, path.rfind('/'));
  while (!folder.empty() && !parse_pci_address(folder.substr(folder.rfind('/') + 1))) folder.resize(folder.rfind('/'));
  if (folder.empty()) return;
  const auto parent = *parse_pci_address(folder.substr(folder.rfind('/') + 1));
  add(files, tree, parent, folder);
  // In no host, but in broken copies a function may seem to be inside itself.
  for (std::optional<PciAddress> above = parent; above; above = tree.at(*above).parent) {
    if (*above == address) return;
  }
  function.parent = parent;
}

}  // namespace

/// Display controllers of AMD are the GPUs inside its CPUs as well, which have no part in this, unless they are "other" (0x0380)
/// as the cards for servers are. A virtual function whose physical one is on this host is a guest's.
bool is_gpu(const PciFunction& function) {
  const int32_t kind = function.facts.device_class >> 8;
  if (function.physical) return false;
  if (function.facts.vendor == 0x10de) return kind == 0x0300 || kind == 0x0302;
  return function.facts.vendor == 0x1002 && (kind == 0x0380 || kind == 0x1200);
}

std::optional<PciAddress> pci_address_in(std::string_view path) {
  const auto parts = split(path, '/');
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (const auto address = parse_pci_address(*part)) return address;
  }
  return std::nullopt;
}

PciTree read_pci(const HostFiles& files) {
  PciTree tree;
  for (const std::string& name : files.names(kDevices)) {
    const auto address = parse_pci_address(name);
    const std::string path = files.resolve(kDevices + name);
    if (address && !path.empty()) add(files, tree, *address, path);
  }
  // Some copies of a host's files lack the vendors of its functions.
  for (const std::string& name : files.names(kNvidia)) {
    const auto address = parse_pci_address(name);
    const auto place = address ? tree.find(*address) : tree.end();
    if (place == tree.end() || place->second.physical) continue;
    place->second.gpu = true;
    if (place->second.facts.vendor < 0) place->second.facts.vendor = 0x10de;
  }
  return tree;
}

}  // namespace ronde::topo
