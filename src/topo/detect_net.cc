// Ports of network adapters from a host's files.
#include <fmt/core.h>
#include <charconv>

#include "topo/detect_parts.h"

namespace ronde::topo {
namespace {

const std::string kRdma = "/sys/class/infiniband/";
const std::string kNet = "/sys/class/net/";
constexpr int64_t kEthernet = 1;  // ARPHRD_ETHER, and of IP over InfiniBand ARPHRD_INFINIBAND
constexpr int64_t kInfiniband = 32;

/// Mbit/s of "100 Gb/sec (4X EDR)"; 0 for unknown.
int64_t parse_rate(std::string_view text) {
  double gbits = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), gbits);
  const std::string_view rest(end, static_cast<size_t>(text.data() + text.size() - end));
  if (error != std::errc() || rest.substr(0, 7) != " Gb/sec" || !(gbits > 0 && gbits <= 1e6)) return 0;
  return static_cast<int64_t>(gbits * 1000 + 0.5);
}

class PortReader {
 public:
  PortReader(const HostFiles& files, Notes& notes) : files_(files), notes_(notes) {}

  std::vector<FoundPort> run() {
    for (const std::string& name : files_.names(kRdma)) rdma(name);
    for (const FoundPort& port : ports_) {
      if (port.pci) rdma_functions_.emplace(*port.pci, port.port.name);
    }
    for (const std::string& name : files_.names(kNet)) interface(name);
    return std::move(ports_);
  }

 private:
  /// Where the device behind a class's entry is; "" for one that is made of software.
  std::string device(const std::string& entry) const {
    const std::string self = files_.resolve(entry);
    if (self.substr(0, 21) == "/sys/devices/virtual/") return "";
    const std::string device = files_.resolve(entry + "/device");
    return device.empty() && pci_address_in(self) ? self : device;
  }

  FoundPort found(const std::string& device) const {
    FoundPort found;
    found.pci = pci_address_in(device);
    if (found.pci) return found;
    const auto numa = files_.number(device + "/numa_node");
    if (numa && *numa >= 0 && *numa <= 0xffff) found.numa = static_cast<int>(*numa);
    return found;
  }

  void rdma(const std::string& name) {
    const std::string place = device(kRdma + name);
    if (place.empty()) return notes_.add("RDMA device without hardware of its own left out", name);
    for (const std::string& number : files_.names(kRdma + name + "/ports")) rdma_port(name, number, place);
  }

  void rdma_port(const std::string& name, const std::string& number, const std::string& place) {
    const auto port = parse_number(number);
    if (!port || *port < 0 || *port > 255) return;
    const std::string folder = kRdma + name + "/ports/" + number;
    const std::string state = files_.text(folder + "/state").value_or("");
    // "4: ACTIVE"; what states nothing may be up.
    if (!state.empty() && state[0] != '4') return notes_.add("port that is down left out", name + ":" + number);
    FoundPort found = this->found(place);
    found.port.name = name;
    found.port.port = static_cast<int>(*port);
    found.port.speed = parse_rate(files_.text(folder + "/rate").value_or(""));
    found.port.guid = parse_guid(files_.text(kRdma + name + "/node_guid").value_or(""));
    if (!found.port.guid) found.port.guid = parse_guid(files_.text(folder + "/gids/0").value_or(""));
    ports_.push_back(std::move(found));
  }

  void interface(const std::string& name) {
    const std::string entry = kNet + name;
    const int64_t type = files_.number(entry + "/type").value_or(kEthernet);
    // /sys/class/net holds files too (bonding_masters).
    if (name == "lo" || (type != kEthernet && type != kInfiniband) || files_.names(entry).empty()) return;
    const std::string place = device(entry);
    if (place.empty()) return notes_.add("network interface without hardware of its own left out", name);
    FoundPort found = this->found(place);
    if (const std::string rdma = rdma_device(found.pci); !rdma.empty())
      return notes_.add("network interface shares the wire of an RDMA port, which stands for both",
                        fmt::format("{} ({})", name, rdma));
    if (files_.text(entry + "/operstate") == "down") return notes_.add("port that is down left out", name);
    found.port.name = name;
    // Linux gives -1 where it does not know, which some drivers state as a number of 32 bits.
    const int64_t speed = files_.number(entry + "/speed").value_or(0);
    found.port.speed = speed > 0 && speed < 0xffffffff ? speed : 0;
    ports_.push_back(std::move(found));
  }

  /// The RDMA device on a function's wire; "" for none. A bond of both functions of a card ("mlx5_bond_0") is on the first alone.
  std::string rdma_device(const std::optional<PciAddress>& function) const {
    if (!function) return "";
    for (const auto& [address, name] : rdma_functions_) {
      const bool card = address.domain == function->domain && address.bus == function->bus && address.device == function->device;
      if (address == *function || (card && name.find("_bond_") != std::string::npos)) return name;
    }
    return "";
  }

  const HostFiles& files_;
  Notes& notes_;
  std::vector<FoundPort> ports_;
  std::map<PciAddress, std::string> rdma_functions_;
};

}  // namespace

std::optional<uint64_t> parse_guid(std::string_view text) {
  const auto groups = split(text, ':');
  if (groups.size() < 4) return std::nullopt;
  uint64_t guid = 0;
  for (size_t i = groups.size() - 4; i < groups.size(); ++i) {
    uint16_t word = 0;
    const auto [end, error] = std::from_chars(groups[i].data(), groups[i].data() + groups[i].size(), word, 16);
    if (error != std::errc() || end != groups[i].data() + groups[i].size()) return std::nullopt;
    guid = guid << 16 | word;
  }
  return guid == 0 ? std::nullopt : std::optional(guid);
}

std::vector<FoundPort> read_ports(const HostFiles& files, Notes& notes) { return PortReader(files, notes).run(); }

}  // namespace ronde::topo
