#include "topo/detect.h"

#include <algorithm>
#include <set>
#include <utility>

#include "topo/detect_parts.h"
#include "topo/hwloc_parts.h"

namespace ronde::topo {
namespace {

std::pair<uint32_t, int> slot(const PciAddress& address) { return {address.domain, address.bus << 8 | address.device}; }

class Detector {
 public:
  Detector(HostFacts facts, Notes notes)
      : cpus_(std::move(facts.cpus)), tree_(std::move(facts.tree)), ports_(std::move(facts.ports)) {
    assembly_.notes() = std::move(notes);
    for (DriverGpu& gpu : facts.gpus) gpus_.emplace(gpu.address, std::move(gpu));
    for (auto& [address, function] : tree_) {
      if (function.numa < 0) function.numa = numa_near(function.local_cpus);
    }
  }

  Reading run() {
    place_ports();
    std::vector<std::set<PciAddress>> roots(cpus_.numas.size());
    for (const PciAddress& root : needed_roots()) roots[home(numa_below(root), to_string(root))].insert(root);
    std::vector<std::vector<FoundPort>> elsewhere(cpus_.numas.size());
    for (FoundPort& found : ports_) elsewhere[home(found.numa, found.port.name)].push_back(std::move(found));
    const int32_t host = assembly_.host(0);
    for (size_t i = 0; i < cpus_.numas.size(); ++i) {
      const NodeId numa = assembly_.numa(host, cpus_.numas[i]);
      for (const PciAddress& root : roots[i]) emit(root, numa, Above::host);
      for (FoundPort& found : elsewhere[i]) assembly_.port(assembly_.nic(numa, std::nullopt), std::move(found.port));
    }
    Reading result;
    result.machine = assembly_.finish();
    result.notes = assembly_.notes().sentences();
    return result;
  }

 private:
  /// What is directly above a function.
  enum class Above { host, bridge_in_machine, bridge_left_out };

  /// The first NUMA node with CPUs among these; -1 where that says nothing.
  int numa_near(const CpuMask& cpus) const {
    int first = -1;
    size_t count = 0;
    for (size_t i = 0; i < cpus_.numas.size(); ++i) {
      if ((cpus_.all_cpus[i] & cpus).empty()) continue;
      if (count++ == 0) first = cpus_.numas[i].id;
    }
    return count < cpus_.numas.size() ? first : -1;
  }

  Target other_end(const DriverLinks& links) const {
    using End = DriverLinks::End;
    constexpr PciAddress kSomeSwitch = {0xfffffff, 0xff, 0xff, 0};
    const auto place = links.address ? tree_.find(*links.address) : tree_.end();
    const int32_t kind = place == tree_.end() ? -1 : place->second.facts.device_class;
    Target target;
    target.address = links.address;
    if (links.end == End::cpu || (links.end == End::unknown && kind == 0x068001)) {
      target.kind = Target::Kind::cpu;
    } else if (links.end == End::nv_switch || (links.end == End::unknown && kind == 0x068000)) {
      target.kind = Target::Kind::nv_switch;
      if (!target.address) target.address = kSomeSwitch;
    }
    return target;
  }

  static bool is_device(const PciFunction& function) { return function.gpu || !function.ports.empty(); }

  /// Gives each port to the function that stands for its adapter; those that have none stay in ports_.
  void place_ports() {
    std::vector<FoundPort> others;
    std::map<std::pair<uint32_t, int>, PciAddress> adapters;
    std::vector<std::pair<PciAddress, Port>> placed;
    for (FoundPort& found : ports_) {
      auto place = found.pci ? tree_.find(*found.pci) : tree_.end();
      if (place != tree_.end() && place->second.physical && tree_.count(*place->second.physical) != 0)
        place = tree_.find(*place->second.physical);
      if (place == tree_.end() || place->second.gpu || place->second.facts.device_class >> 8 == 0x0604)
        others.push_back(std::move(found));
      else
        placed.emplace_back(place->first, std::move(found.port));
    }
    std::stable_sort(placed.begin(), placed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (auto& [address, port] : placed) {
      // Functions in one slot are one card, on one link; on the root bus they are separate parts of the chip.
      PciAddress adapter = address;
      if (tree_.at(address).parent) adapter = adapters.emplace(slot(address), address).first->second;
      tree_.at(adapter).ports.push_back(std::move(port));
    }
    ports_ = std::move(others);
  }

  /// Notes what is between the devices and the host, and returns where that begins.
  std::set<PciAddress> needed_roots() {
    std::set<PciAddress> roots;
    for (const auto& [address, function] : tree_) {
      if (!is_device(function)) continue;
      PciAddress below = address;
      while (const auto parent = tree_.at(below).parent) {
        needed_[*parent].insert(below);
        below = *parent;
      }
      roots.insert(below);
    }
    return roots;
  }

  /// The NUMA node that a function states or, where it does not, the first that one below it states; -1 where none does.
  int numa_below(const PciAddress& address) const {
    if (const int numa = tree_.at(address).numa; numa >= 0) return numa;
    const auto children = needed_.find(address);
    if (children == needed_.end()) return -1;
    for (const PciAddress& child : children->second) {
      if (const int numa = numa_below(child); numa >= 0) return numa;
    }
    return -1;
  }

  /// Index of the node in the machine that stands for a NUMA node of the host.
  size_t home(int numa, const std::string& whom) {
    const auto place = cpus_.homes.find(numa);
    if (place != cpus_.homes.end()) return place->second;
    if (cpus_.numas.size() > 1) assembly_.notes().add("NUMA node not known, taken to be the first", whom);
    return 0;
  }

  /// Adds a function and what is needed below it. Of a chain of bridges every second one is left out: the port of the host that a
  /// switch or device is plugged into, and a switch's own ports downwards, share their link with what is plugged in.
  void emit(const PciAddress& address, NodeId parent, Above above) {
    PciFunction& function = tree_.at(address);
    const std::set<PciAddress>& children = needed_[address];
    NodeId node = parent;
    if (is_device(function)) {
      add_device(function, parent);
    } else {
      std::set<std::pair<uint32_t, int>> slots;
      for (const PciAddress& child : children) slots.insert(slot(child));
      // Nothing but one device can be plugged into a port, so a bridge to several of them is a switch as virtual machines have
      // it.
      if (above == Above::bridge_left_out || slots.size() > 1) {
        node = assembly_.pci(NodeKind::pci_switch, parent, link(function));
        above = Above::bridge_in_machine;
      } else {
        above = Above::bridge_left_out;
      }
    }
    for (const PciAddress& child : children) emit(child, node, above);
  }

  void add_device(PciFunction& function, NodeId parent) {
    if (function.gpu) {
      const auto known = gpus_.find(function.facts.address);
      const NodeId gpu = assembly_.gpu(parent, link(function), known == gpus_.end() ? Gpu() : known->second.facts);
      if (known == gpus_.end()) return;
      for (const DriverLinks& links : known->second.links) assembly_.peer(gpu, LinkKind::nvlink, other_end(links), links.count);
      return;
    }
    const NodeId nic = assembly_.nic(parent, link(function));
    for (Port& port : function.ports) assembly_.port(nic, std::move(port));
  }

  /// A function with the link that it can be expected to have at work.
  Pci link(const PciFunction& function) const {
    Pci pci = function.facts;
    if (pci.width == 0) pci.width = function.max_width;
    if (pci.speed == 0 || function.gpu) pci.speed = function.max_speed != 0 ? function.max_speed : pci.speed;
    // Idle GPUs slow their links down, so what both ends can do counts, if the other end is not a virtual machine's of one lane.
    if (!function.gpu || !function.parent) return pci;
    const PciFunction& other = tree_.at(*function.parent);
    if (other.max_speed != 0 && other.max_width > 1) pci.speed = std::min(pci.speed, other.max_speed);
    return pci;
  }

  Assembly assembly_;
  CpuNodes cpus_;
  PciTree tree_;
  std::vector<FoundPort> ports_;
  std::map<PciAddress, DriverGpu> gpus_;
  std::map<PciAddress, std::set<PciAddress>> needed_;  ///< functions that lead to devices, and what of those is directly below
};

/// Puts what the drivers say onto the functions with the same addresses; a virtual machine may hide some of those from its files.
void add_drivers(std::vector<DriverGpu> gpus, HostFacts& facts, Notes& notes) {
  std::set<PciAddress> shown;
  for (DriverGpu& gpu : gpus) {
    const auto [place, is_new] = facts.tree.try_emplace(gpu.address);
    PciFunction& function = place->second;
    if (is_new) {
      notes.add("GPU that only its driver shows", to_string(gpu.address));
      function.facts.address = gpu.address;
    }
    function.gpu = true;
    if (function.numa < 0) function.numa = gpu.numa;
    if (function.max_speed == 0) function.max_speed = gpu.max_speed;
    if (function.max_width == 0) function.max_width = gpu.max_width;
    shown.insert(gpu.address);
  }
  for (const auto& [address, function] : facts.tree) {
    if (function.gpu && function.facts.vendor == 0x10de && shown.count(address) == 0)
      notes.add("GPU that its driver does not show", to_string(address));
  }
  facts.gpus = std::move(gpus);
}

/// True where the files and drivers leave open where a device is, or how GPUs are linked: hwloc takes longer than all else.
bool lacks_something(const HostFacts& facts) {
  if (facts.tree.empty()) return true;
  const bool one_node = facts.cpus.numas.size() == 1;
  return std::any_of(facts.tree.begin(), facts.tree.end(), [&](const auto& entry) {
    const PciFunction& function = entry.second;
    const bool asked =
        std::any_of(facts.gpus.begin(), facts.gpus.end(), [&](const DriverGpu& gpu) { return gpu.address == entry.first; });
    const bool linked = !function.gpu || function.facts.vendor != 0x10de || asked;
    return !linked || (!one_node && function.numa < 0 && function.local_cpus.empty());
  });
}

}  // namespace

Reading machine_from(HostFacts facts, Notes notes) { return Detector(std::move(facts), std::move(notes)).run(); }

Result<Reading> detect(const std::string& root, const DetectOptions& options) {
  RONDE_TRY(const HostFiles files, HostFiles::open(root));
  Notes notes;
  HostFacts facts;
  facts.cpus = read_cpu_nodes(files, !options.ignore_affinity, notes);
  facts.tree = read_pci(files);
  facts.ports = read_ports(files, notes);
  if (options.drivers != nullptr) add_drivers(read_gpu_drivers(*options.drivers, notes), facts, notes);
  if (options.hwloc != nullptr && lacks_something(facts)) {
    if (auto hwloc = ask_hwloc(*options.hwloc, notes)) add_hwloc(std::move(*hwloc), facts);
  }
  return machine_from(std::move(facts), std::move(notes));
}

}  // namespace ronde::topo
