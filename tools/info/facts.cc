#include "tools/info/facts.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <string>

#include "base/config.h"
#include "base/fd.h"
#include "base/lists.h"
#include "base/thread.h"
#include "boot/interfaces.h"
#include "boot/unique_id.h"
#include "device/shared.h"
#include "kernels/cpu/reduce.h"
#include "ronde.h"
#include "transport/net/net.h"

namespace ronde::info {
namespace {

std::string first_line(const std::string& path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return line;
}

std::string in_bytes(uint64_t bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit) value /= 1024;
  return fmt::format("{:.4g} {}", value, units[unit]);
}

std::string limit_text(int resource, bool bytes) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) return fmt::format("unknown ({})", std::strerror(errno));
  if (limit.rlim_cur == RLIM_INFINITY) return "unlimited";
  return bytes ? in_bytes(limit.rlim_cur) : std::to_string(limit.rlim_cur);
}

std::string usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const long there = sysconf(_SC_NPROCESSORS_CONF);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return fmt::format("unknown of {} ({})", there, std::strerror(errno));
  return fmt::format("{} of {}", CPU_COUNT(&set), there);
}

std::string free_in(const char* folder) {
  struct statvfs info {};
  if (statvfs(folder, &info) != 0) return fmt::format("not there ({})", std::strerror(errno));
  return fmt::format("{} of {} free", in_bytes(info.f_bavail * info.f_frsize), in_bytes(info.f_blocks * info.f_frsize));
}

std::string yama() {
  static const std::map<std::string, std::string> meanings = {
      {"0", "0: processes of one user may read each other's memory"},
      {"1", "1: only a process that the reader started, or one that allows it"},
      {"2", "2: only with CAP_SYS_PTRACE"},
      {"3", "3: no process may"}};
  const std::string scope = first_line("/proc/sys/kernel/yama/ptrace_scope");
  const auto at = meanings.find(scope);
  return scope.empty() ? "not in this kernel" : at == meanings.end() ? scope : at->second;
}

/// What is wanted of a library, and what becomes of it without.
struct Wanted {
  const char* name;
  const char* purpose;
};
constexpr Wanted kWanted[] = {{"libcuda.so.1", "GPUs: the driver"},
                              {"libnvidia-ml.so.1", "GPUs: NVLink"},
                              {"libhwloc.so.15", "detection: what /sys does not tell"},
                              {"libibverbs.so.1", "network: RDMA"}};

/// "240 GB/s": all links of a node of one of two kinds; "" without any.
std::string rate_of(const topo::Machine& machine, topo::NodeId id, topo::LinkKind one, topo::LinkKind other) {
  int64_t rate = 0;
  for (const topo::Link& link : machine.links) {
    if ((link.a == id || link.b == id) && (link.kind == one || link.kind == other)) rate += link.rate;
  }
  return rate == 0 ? "" : fmt::format("{:.4g} GB/s", static_cast<double>(rate) / 1000);
}

std::string numa_text(const topo::Machine& machine, topo::NodeId id) {
  const topo::NodeId numa = machine.numa_of(id);
  return numa == topo::kNone || machine.numa(numa).id < 0 ? "unknown" : std::to_string(machine.numa(numa).id);
}

const char* yes_or_no(int value) { return value < 0 ? "unknown" : value == 0 ? "no" : "yes"; }

}  // namespace

Json devices(const topo::Machine& machine) {
  Json rows = Json::array();
  for (const topo::NodeId id : machine.of_kind(topo::NodeKind::gpu)) {
    rows.push_back({{"device", topo::describe(machine, id)},
                    {"NUMA node", numa_text(machine, id)},
                    {"sm or cores", fmt::format("sm {}", machine.gpu(id).sm)},
                    {"NVLink, xGMI", rate_of(machine, id, topo::LinkKind::nvlink, topo::LinkKind::xgmi)},
                    {"to the host", rate_of(machine, id, topo::LinkKind::pci, topo::LinkKind::c2c)}});
  }
  for (const topo::NodeId id : machine.of_kind(topo::NodeKind::numa)) {
    rows.push_back({{"device", "CPUs"},
                    {"NUMA node", numa_text(machine, id)},
                    {"sm or cores", fmt::format("{} CPUs", machine.numa(id).cpus.count())},
                    {"NVLink, xGMI", ""},
                    {"to the host", ""}});
  }
  return rows;
}

Json gpus() {
  const Result<const device::Driver*> driver = device::driver();
  if (!driver.ok()) return fmt::format("cannot be used: {}", driver.error().what);
  Json rows = Json::array();
  int count = 0;
  (*driver)->cuDeviceGetCount(&count);
  for (int i = 0; i < count; ++i) {
    const auto gpu = device::Gpu::open(i);
    const std::string shares = gpu.ok() ? device::ShareableMemory::possible(**gpu) ? "descriptors (CUMEM)" : "legacy handles (IPC)" : "";
    rows.push_back({{"GPU", gpu.ok() ? (*gpu)->name() : fmt::format("GPU {}", i)},
                    {"memory between processes", shares},
                    {"can be used", gpu.ok() ? "yes" : gpu.error().what}});
  }
  if (count == 0) return "there is none that this process may see";
  return rows;
}

Json network_adapters(const topo::Machine& machine) {
  Json rows = Json::array();
  for (const topo::NodeId id : machine.of_kind(topo::NodeKind::port)) {
    const topo::Port& port = machine.port(id);
    rows.push_back({{"port", port.name},
                    {"speed", port.speed > 0 ? fmt::format("{} Mbit/s", port.speed) : "unknown"},
                    {"rail", port.rail < 0 ? "unknown" : std::to_string(port.rail)},
                    {"NUMA node", numa_text(machine, id)},
                    {"GPUDirect", yes_or_no(port.gdr)}});
  }
  return rows;
}

Json library() {
  Dl_info where{};
  Json facts;
  facts["version"] = fmt::format("{}.{}.{}", RONDE_MAJOR, RONDE_MINOR, RONDE_PATCH);
  facts["API"] = fmt::format("NCCL {}.{}.{}", NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH);
  if (dladdr(reinterpret_cast<void*>(&ncclGetVersion), &where) != 0) facts["program"] = where.dli_fname;
  std::string tables;
  for (const ReduceTable* table : reduce_tables()) {
    tables += fmt::format("{}{}{}", tables.empty() ? "" : ", ", table->isa, table->supported() ? "" : " (not on this CPU)");
  }
  const auto chosen = choose_reduce_table(current_config()->text(Setting::isa));
  facts["reductions"] =
      fmt::format("{}; in this build: {}", chosen.ok() ? std::string((*chosen)->isa) : chosen.error().what, tables);
  return facts;
}

Json host() {
  utsname kernel{};
  uname(&kernel);
  Json facts;
  facts["name"] = host_name();
  facts["identity"] = fmt::format("{:016x}", host_identity(*current_config()));
  facts["kernel"] = fmt::format("{} {} {}", kernel.sysname, kernel.release, kernel.machine);
  facts["CPUs to use"] = usable_cpus();
  facts["memory"] = in_bytes(static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
  return facts;
}

Json interfaces() {
  Json rows = Json::array();
  for (const Interface& one : usable_interfaces(*current_config())) {
    const std::string speed = first_line("/sys/class/net/" + one.name + "/speed");
    const std::string address = to_string(one.address);
    rows.push_back({{"name", one.name},
                    {"address", address.substr(0, address.rfind(':'))},  // without the port, which is none yet
                    {"speed", speed.empty() || speed == "-1" ? "unknown" : speed + " Mbit/s"}});
  }
  return rows;
}

Json networks() {
  const std::shared_ptr<const Config> config = current_config();
  const Result<std::shared_ptr<net::Net>> used = net::open_net(*config, 0);
  const std::string chosen = used.ok() ? std::string((*used)->name()) : "";
  Json rows = Json::array();
  const auto add = [&](const std::string& name, const Result<std::shared_ptr<net::Net>>& opened, const std::string& why) {
    const bool works = opened.ok() && *opened != nullptr;
    std::vector<std::string> devices;
    for (const net::Device& device : works ? (*opened)->devices() : std::span<const net::Device>()) {
      devices.push_back(device.gbps > 0 ? fmt::format("{} ({:g} Gbit/s)", device.name, device.gbps) : device.name);
    }
    rows.push_back({{"network", name},
                    {"used", works && name == chosen ? "yes" : "no"},
                    {"devices, or why there are none", works ? comma_list(devices) : opened.ok() ? why : opened.error().what}});
  };
  bool listed = false;
  for (const net::Provider& provider : net::providers()) listed |= provider.name == chosen;
  if (!listed) add(used.ok() ? chosen : "none", used, "");  // a plugin's, or the error
  for (const net::Provider& provider : net::providers()) {
    std::string why;
    const auto opened = provider.open(*config, &why);
    add(std::string(provider.name), opened, why);
  }
  return rows;
}

Json run_time_libraries() {
  Json rows = Json::array();
  for (const Wanted& wanted : kWanted) {
    std::string found;
    if (void* handle = dlopen(wanted.name, RTLD_LAZY | RTLD_LOCAL)) {
      found = "found";
      dlclose(handle);
    } else {
      const std::string_view why = dlerror();
      const std::string name = std::string(wanted.name) + ": ";
      found = why.substr(why.rfind(name, 0) == 0 ? name.size() : 0);
    }
    rows.push_back({{"library", wanted.name}, {"for", wanted.purpose}, {"state", found}});
  }
  return rows;
}

Json limits() {
  Json facts;
  facts["open files (ulimit -n)"] = limit_text(RLIMIT_NOFILE, false);
  facts["locked memory (ulimit -l)"] = limit_text(RLIMIT_MEMLOCK, true);
  facts["address space (ulimit -v)"] = limit_text(RLIMIT_AS, true);
  facts["/dev/shm"] = free_in("/dev/shm");
  const auto memfd = make_memfd("ronde-info", 4096);
  facts["memfd"] = memfd.ok() ? "works" : memfd.error().what;
  facts["process_vm_readv (yama)"] = yama();
  return facts;
}

Json transports(const std::vector<Pair>& pairs) {
  Json rows = Json::array();
  std::map<std::pair<std::string, std::string>, size_t> places;
  for (const Pair& pair : pairs) {
    const auto [at, is_new] = places.emplace(std::pair(pair.transport, pair.why), rows.size());
    if (is_new) rows.push_back({{"transport", pair.transport}, {"why", pair.why}, {"pairs", Json::array()}});
    rows[at->second]["pairs"].push_back(Json::array({pair.from, pair.to}));
  }
  return rows;
}

Json settings() {
  const auto config = current_config();
  Json rows = Json::array();
  for (const Option& option : options()) {
    rows.push_back({{"setting", fmt::format("RONDE_{}", option.name)},
                    {"value", config->text(option.id)},
                    {"from", config->source(option.id)},
                    {"NCCL name", option.alias == nullptr ? "" : option.alias},
                    {"what", option.help}});
  }
  return rows;
}

}  // namespace ronde::info
