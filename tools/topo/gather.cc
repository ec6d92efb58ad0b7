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
  std::map<uint64_t, uint64_t> hosts;
  for (Host& host : m.hosts) {
    if (host.hash != 0) host.hash = hosts.emplace(host.hash, hosts.size() + 1).first->second;
  }
  std::map<uint64_t, uint64_t> guids;
  std::map<std::string, int> numbers;
  std::map<std::string, std::string> names;
  for (Port& port : m.ports) {
    if (port.guid && *port.guid != 0) port.guid = guids.emplace(*port.guid, guids.size() + 1).first->second;
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
             "# hosts, GUIDs and ports have numbers in place of their names. ronde-topo show reads this file.\n",
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
