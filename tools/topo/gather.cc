#include "tools/topo/gather.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "ronde.h"
#include "tools/topo/commands.h"
#include "tools/topo/input.h"
#include "topo/text.h"

namespace ronde::topo::tool {
namespace {

/// Drivers and udev name adapters so; longer ones first. What follows is a number or a place.
constexpr const char* kKinds[] = {"mlx5_bond", "mlx5", "mlx4", "bnxt_re", "irdma", "ionic", "rdmap", "rocep", "efa",   "hns",
                                  "cxi",       "hsn",  "ibp",  "ibs",     "ib",    "qedr",  "rxe",   "siw",   "bond",  "eth",
                                  "enp",       "ens",  "eno",  "enP",     "usb",   "net",   "opa",   "hfi1",  "cxgb4", "vmnic"};

// Texts that files may state freely; what is none of these could be anything.
constexpr std::string_view kArchitectures[] = {"x86_64", "arm64", "ppc64", "riscv64", "loongarch64", "s390x"};
constexpr std::string_view kVendors[] = {"GenuineIntel", "AuthenticAMD", "HygonGenuine", "CentaurHauls", "  Shanghai  "};

template <size_t n>
void keep_known(const std::string_view (&known)[n], std::string& text) {
  if (std::find(std::begin(known), std::end(known), text) == std::end(known)) text.clear();
}

/// "gfx942", "90a"
bool is_architecture(std::string_view gcn) {
  if (gcn.substr(0, 3) == "gfx") gcn.remove_prefix(3);
  return gcn.size() <= 4 && gcn.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// Numbers from 1 for identities: equal ones for equal ones, 0 for none.
class Numbers {
 public:
  uint64_t of(uint64_t identity) { return identity == 0 ? 0 : numbers_.emplace(identity, numbers_.size() + 1).first->second; }

 private:
  std::map<uint64_t, uint64_t> numbers_;
};

}  // namespace

std::string kind_of_port(std::string_view name) {
  for (const std::string_view kind : kKinds) {
    if (name.substr(0, kind.size()) != kind) continue;
    const std::string_view rest = name.substr(kind.size());
    // A word of its own that begins alike is no such name.
    if (rest.empty() || rest[0] == '_' || (rest[0] >= '0' && rest[0] <= '9')) return std::string(kind);
  }
  return "port";
}

Machine anonymous(const Machine& machine) {
  Machine m = machine;
  Numbers hosts;
  for (Host& host : m.hosts) host.hash = hosts.of(host.hash);
  for (Numa& numa : m.numas) {
    keep_known(kArchitectures, numa.arch);
    keep_known(kVendors, numa.vendor);
  }
  Numbers domains;
  for (Gpu& gpu : m.gpus) {
    gpu.domain = domains.of(gpu.domain);
    if (!is_architecture(gpu.gcn)) gpu.gcn.clear();
  }
  Numbers guids;
  std::map<std::string, int> numbers;
  std::map<std::string, std::string> names;
  for (Port& port : m.ports) {
    if (port.guid) port.guid = guids.of(*port.guid);
    if (port.name.empty()) continue;
    const auto [name, is_new] = names.emplace(port.name, "");
    if (is_new) {
      const std::string kind = kind_of_port(port.name);
      name->second = fmt::format("{}_{}", kind, numbers[kind]++);
    }
    port.name = name->second;
  }
  return m;
}

std::string report(const Machine& machine) {
  return fmt::format(
             "# A machine, gathered by ronde-topo {}.{}.{}. Bus ids, PCI ids, models, CPU numbers, speeds and links are as "
             "found;\n"
             "# hosts, NVLink domains, GUIDs and ports have numbers in place of their names. ronde-topo show reads this file.\n",
             RONDE_MAJOR, RONDE_MINOR, RONDE_PATCH) +
         to_text(anonymous(machine));
}

int gather(const GatherOptions& options) {
  const auto reading = read_input(options.input);
  if (!reading.ok()) return failed(reading.error());
  const auto written = write_output(options.output, report(reading->machine));
  return written.ok() ? kDone : failed(written.error());
}

}  // namespace ronde::topo::tool
