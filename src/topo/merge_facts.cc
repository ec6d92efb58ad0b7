#include <fmt/core.h>

#include "base/words.h"
#include "topo/merge_parts.h"

namespace ronde::topo {
namespace {

std::string shown(int64_t value) { return fmt::format("{}", value); }
std::string shown(int value) { return fmt::format("{}", value); }
std::string shown(double value) { return fmt::format("{:g}", value); }
std::string shown(uint64_t value) { return fmt::format("{:x}", value); }
std::string shown(const std::string& value) { return fmt::format("'{}'", printable(value)); }
std::string shown(const std::optional<uint64_t>& value) { return shown(value.value_or(0)); }

}  // namespace

void Facts::contradiction(const char* what, const std::string& mine, const std::string& theirs) {
  std::string whom = describe(*machine_, id_);
  const int32_t host = machine_->node(id_).host;
  if (host != kNone && machine_->hosts[static_cast<size_t>(host)].hash != 0)
    whom += fmt::format(" ({:x})", machine_->hosts[static_cast<size_t>(host)].hash);
  notes_.add(fmt::format("descriptions of a host differ in {}, the first counts", what),
             fmt::format("{} has {}, not {}", whom, mine, theirs));
}

template <class T>
void Facts::fill(const char* what, T& mine, const T& theirs, const T& unknown) {
  if (theirs == unknown || theirs == mine) return;
  if (mine == unknown)
    mine = theirs;
  else
    contradiction(what, shown(mine), shown(theirs));
}

void Facts::unite(Pci& mine, const Pci& theirs) {
  fill("the class of a PCI function", mine.device_class, theirs.device_class, -1);
  fill("the vendor of a PCI function", mine.vendor, theirs.vendor, -1);
  fill("the model of a PCI function", mine.device, theirs.device, -1);
  fill("the subsystem's vendor of a PCI function", mine.subsystem_vendor, theirs.subsystem_vendor, -1);
  fill("the subsystem of a PCI function", mine.subsystem_device, theirs.subsystem_device, -1);
  fill("PCI speed (MT/s)", mine.speed, theirs.speed, 0);
  fill("PCI width", mine.width, theirs.width, 0);
}

void Facts::unite(Numa& mine, const Numa& theirs) {
  if (mine.id < 0) mine.id = theirs.id;
  fill("CPU architecture", mine.arch, theirs.arch, std::string());
  fill("CPU vendor", mine.vendor, theirs.vendor, std::string());
  fill("CPU family", mine.family, theirs.family, -1);
  fill("CPU model", mine.model, theirs.model, -1);
  if (mine.cpus == theirs.cpus || theirs.cpus.empty()) return;
  if (mine.cpus.empty() || cpus_ == Cpus::either) {
    mine.cpus = mine.cpus | theirs.cpus;
    return;
  }
  const CpuMask common = mine.cpus & theirs.cpus;
  // CPUs that nobody may use help nobody.
  if (common.empty())
    contradiction("the CPUs of a NUMA node, of which those that may be used count", theirs.cpus.text(), mine.cpus.text());
  mine.cpus = common.empty() ? theirs.cpus : common;
}

void Facts::unite(Gpu& mine, const Gpu& theirs) {
  // Not the same in all processes: each counts those that it may use.
  if (mine.dev < 0) mine.dev = theirs.dev;
  fill("the rank of a GPU", mine.rank, theirs.rank, -1);
  fill("the model of a GPU", mine.sm, theirs.sm, 0);
  fill("the architecture of a GPU", mine.gcn, theirs.gcn, std::string());
  fill("the architecture of a GPU", mine.arch, theirs.arch, -1);
  fill("GPUDirect", mine.gdr, theirs.gdr, -1);
  fill("the part of a GPU", mine.part, theirs.part, -1);
  fill("the NVLink domain of a GPU", mine.domain, theirs.domain, uint64_t{0});
  const bool known = mine.c2c_links != 0 && theirs.c2c_links != 0;
  if (known && (mine.c2c_links != theirs.c2c_links || mine.c2c_rate != theirs.c2c_rate)) {
    contradiction("C2C links", fmt::format("{} of {} MB/s", mine.c2c_links, mine.c2c_rate),
                  fmt::format("{} of {} MB/s", theirs.c2c_links, theirs.c2c_rate));
  }
  if (mine.c2c_links != 0) return;
  mine.c2c_links = theirs.c2c_links;
  mine.c2c_rate = theirs.c2c_rate;
}

void Facts::unite(CpuRank& mine, const CpuRank& theirs) {
  if (mine.cpus.empty()) mine.cpus = theirs.cpus;
  if (!theirs.cpus.empty() && theirs.cpus != mine.cpus) contradiction("the CPUs of a rank", mine.cpus.text(), theirs.cpus.text());
  fill("the cores of a rank", mine.cores, theirs.cores, 0);
  fill("the L2 cache of a rank", mine.l2_bytes, theirs.l2_bytes, int64_t{0});
  fill("the L3 cache of a rank", mine.l3_bytes, theirs.l3_bytes, int64_t{0});
  fill("the memory bandwidth of a rank", mine.rate, theirs.rate, int64_t{0});
}

void Facts::unite(Port& mine, const Port& theirs) {
  if (mine.dev < 0) mine.dev = theirs.dev;
  fill("port speed (Mbit/s)", mine.speed, theirs.speed, int64_t{0});
  fill("the number of a port", mine.port, theirs.port, -1);
  fill("port latency", mine.latency, theirs.latency, 0.0);
  fill("the GUID of a port", mine.guid, theirs.guid, std::optional<uint64_t>());
  fill("the connections of a port", mine.maxconn, theirs.maxconn, -1);
  fill("GPUDirect", mine.gdr, theirs.gdr, -1);
  fill("what a port can do", mine.coll, theirs.coll, -1);
  fill("what a port can do", mine.net, theirs.net, -1);
  fill("what a port can do", mine.gin, theirs.gin, -1);
  fill("what a port can do", mine.rma, theirs.rma, -1);
  fill("the rail of a port", mine.rail, theirs.rail, -1);
  fill("the plane of a port", mine.plane, theirs.plane, -1);
}

}  // namespace ronde::topo
