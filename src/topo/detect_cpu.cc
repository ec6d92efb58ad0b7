// NUMA nodes and their CPUs from a host's files.
#include <fmt/core.h>
#include <sched.h>
#include <sys/utsname.h>
#include <algorithm>
#include <cctype>
#include <climits>

#include "topo/cpu_ranks.h"
#include "topo/detect_parts.h"

namespace ronde::topo {
namespace {

constexpr size_t kMaxNumas = 256;  // their links are quadratic in number
const std::string kCpus = "/sys/devices/system/cpu/";
const std::string kNodes = "/sys/devices/system/node/";

/// N of "nodeN" or "cpuN"; -1 for other names.
int suffix(std::string_view name, std::string_view prefix) {
  if (name.substr(0, prefix.size()) != prefix) return -1;
  const std::string_view digits = name.substr(prefix.size());
  const auto number = parse_number(digits);
  return number && *number >= 0 && *number < CpuMask::kMaxCpus && std::to_string(*number) == digits ? static_cast<int>(*number)
                                                                                                    : -1;
}

std::optional<CpuMask> cpu_list(const HostFiles& files, const std::string& path) {
  const auto text = files.text(path);
  return text ? parse_cpu_list(*text) : std::nullopt;
}

bool known(const std::optional<CpuMask>& mask) { return mask && !mask->empty(); }

/// The host's CPUs, as the first of its files that says so has it; the empty set where none does.
CpuMask host_cpus(const HostFiles& files) {
  for (const char* name : {"online", "present"}) {
    if (const auto mask = cpu_list(files, kCpus + name); known(mask)) return *mask;
  }
  CpuMask mask;
  for (const std::string& name : files.names(kCpus)) {
    if (const int cpu = suffix(name, "cpu"); cpu >= 0) mask.set(cpu);
  }
  if (!mask.empty()) return mask;
  const std::string processors = files.text("/proc/cpuinfo").value_or("");
  for (const std::string_view line : split(processors, '\n')) {
    const size_t colon = line.find(": ");
    if (line.substr(0, 9) != "processor" || colon == std::string_view::npos) continue;
    const auto cpu = parse_number(line.substr(colon + 2));
    if (cpu && *cpu >= 0 && *cpu < CpuMask::kMaxCpus) mask.set(static_cast<int>(*cpu));
  }
  return mask;
}

/// Below the mount of a controller, the folders of a group and of those it is in. In containers the group's own may not be there.
std::vector<std::string> group_folders(const std::string& mount, std::string group) {
  std::vector<std::string> folders;
  if (group.size() >= PATH_MAX) group.clear();  // no folder has such a name
  while (!group.empty() && group != "/") {
    folders.push_back(mount + group);
    const size_t slash = group.rfind('/');
    group.resize(slash == std::string::npos ? 0 : slash);
  }
  folders.push_back(mount);
  return folders;
}

/// The first CPU list that a group states, from the group itself upwards.
std::optional<CpuMask> group_cpus(const HostFiles& files, const std::vector<std::string>& folders,
                                  std::initializer_list<const char*> names) {
  for (const std::string& folder : folders) {
    for (const char* name : names) {
      if (const auto mask = cpu_list(files, folder + "/" + name); known(mask)) return mask;
    }
  }
  return std::nullopt;
}

/// The least time on CPUs, in thousandths of a CPU, that a group or one around it is limited to; 0: no limit.
int64_t group_quota(const HostFiles& files, const std::vector<std::string>& folders) {
  int64_t least = 0;
  for (const std::string& folder : folders) {
    // "150000 100000" or "max 100000"; version 1 has two files, and -1.
    const std::string both = files.text(folder + "/cpu.max").value_or("");
    const auto parts = split(both, ' ');
    const auto quota = parts.size() == 2 ? parse_number(parts[0]) : files.number(folder + "/cpu.cfs_quota_us");
    const auto period = parts.size() == 2 ? parse_number(parts[1]) : files.number(folder + "/cpu.cfs_period_us");
    if (!quota || !period || *quota <= 0 || *period <= 0 || *quota > INT64_MAX / 1000) continue;
    const int64_t millis = std::max<int64_t>(1, *quota * 1000 / *period);
    if (least == 0 || millis < least) least = millis;
  }
  return least;
}

struct GroupLimits {
  std::optional<CpuMask> cpus;
  int64_t quota = 0;
};

/// What the process's control groups allow, of either version.
GroupLimits group_limits(const HostFiles& files) {
  const std::string memberships = files.text("/proc/self/cgroup").value_or("");
  GroupLimits limits;
  for (const std::string_view line : split(memberships, '\n')) {
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const auto controllers = split(line.substr(first + 1, second - first - 1), ',');
    const auto has = [&](std::string_view name) {
      return std::find(controllers.begin(), controllers.end(), name) != controllers.end();
    };
    const std::string group(line.substr(second + 1));
    std::optional<CpuMask> mask;
    if (controllers.empty())
      mask = group_cpus(files, group_folders("/sys/fs/cgroup", group), {"cpuset.cpus.effective"});
    else if (has("cpuset"))
      mask = group_cpus(files, group_folders("/sys/fs/cgroup/cpuset", group), {"cpuset.effective_cpus", "cpuset.cpus"});
    if (mask) limits.cpus = limits.cpus ? *limits.cpus & *mask : *mask;
    if (!controllers.empty() && !has("cpu")) continue;
    const int64_t quota = group_quota(files, group_folders(controllers.empty() ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu", group));
    if (quota != 0) limits.quota = limits.quota == 0 ? quota : std::min(limits.quota, quota);
  }
  return limits;
}

std::string architecture(const HostFiles& files) {
  std::string name = files.text("/proc/sys/kernel/arch").value_or("");
  utsname system{};
  if (name.empty() && files.running() && uname(&system) == 0) name = system.machine;
  if (name == "aarch64") return "arm64";
  if (name == "ppc64le") return "ppc64";
  const bool plain = std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
  return plain && name.size() <= 32 ? name : "";
}

/// What /proc/cpuinfo says of the first processor, and where nothing else did, the architecture from the keys that it uses.
void describe_cpu(const HostFiles& files, Numa& cpu) {
  cpu.arch = architecture(files);
  const std::string contents = files.text("/proc/cpuinfo").value_or("");
  std::map<std::string_view, std::string_view> values;
  for (const std::string_view line : split(contents, '\n')) {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    // Blanks around a vendor belong to it, all but the first.
    values.emplace(key, line.substr(std::min(line.size(), colon + 2)));
  }
  const auto value = [&](std::string_view key) { return values.count(key) == 0 ? std::string_view() : values[key]; };
  const auto number = [&](std::string_view key) {
    const auto read = parse_number(value(key));
    return read && *read >= 0 && *read <= 0xffff ? static_cast<int>(*read) : -1;
  };
  const std::string_view vendor = value("vendor_id");
  const bool printable = std::all_of(vendor.begin(), vendor.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
  if (printable && vendor.size() <= 32) cpu.vendor = vendor;
  cpu.family = number("cpu family");
  cpu.model = number("model");
  if (!cpu.arch.empty()) return;
  if (values.count("vendor_id") != 0 && values.count("cpu family") != 0)
    cpu.arch = "x86_64";
  else if (values.count("CPU implementer") != 0)
    cpu.arch = "arm64";
  else if (value("cpu").substr(0, 5) == "POWER")
    cpu.arch = "ppc64";
}

/// The node with CPUs that is nearest to `id` by the firmware's table; of equals, and where there is no table, the first.
size_t nearest(const HostFiles& files, int id, const std::vector<int>& all_ids, const std::vector<Numa>& numas) {
  const std::string table = files.text(fmt::format("{}node{}/distance", kNodes, id)).value_or("");
  const auto row = split(table, ' ');
  size_t best = 0;
  int64_t least = INT64_MAX;
  for (size_t i = 0; i < numas.size() && row.size() == all_ids.size(); ++i) {
    const auto place = static_cast<size_t>(std::find(all_ids.begin(), all_ids.end(), numas[i].id) - all_ids.begin());
    const auto distance = parse_number(row[place]);
    if (!distance || *distance >= least) continue;
    least = *distance;
    best = i;
  }
  return best;
}

/// Masks hold no CPU that may not be used, unless it seems that none at all may: then the files disagree.
void restrict_cpus(const std::vector<std::optional<CpuMask>>& limits, std::vector<Numa>& numas, Notes& notes) {
  for (const auto& limit : limits) {
    if (!known(limit)) continue;
    const bool any = std::any_of(numas.begin(), numas.end(), [&](const Numa& numa) { return !(numa.cpus & *limit).empty(); });
    if (!any) {
      notes.add("set of allowed CPUs has none of the NUMA nodes' and was ignored", limit->text());
      continue;
    }
    for (Numa& numa : numas) numa.cpus = numa.cpus & *limit;
  }
  for (const Numa& numa : numas) {
    if (numa.cpus.empty()) notes.add("no CPU of the NUMA node may be used", fmt::format("node {}", numa.id));
  }
}

}  // namespace

CpuMask calling_thread_affinity() {
  CpuMask mask;
  for (int cpus = 1024; cpus <= CpuMask::kMaxCpus; cpus *= 2) {
    std::vector<cpu_set_t> set(static_cast<size_t>(cpus) / CPU_SETSIZE);
    const size_t bytes = set.size() * sizeof(cpu_set_t);
    // EINVAL where the kernel has more CPUs than fit.
    if (sched_getaffinity(0, bytes, set.data()) != 0) continue;
    for (int cpu = 0; cpu < cpus; ++cpu) {
      if (CPU_ISSET_S(static_cast<size_t>(cpu), bytes, set.data())) mask.set(cpu);
    }
    break;
  }
  return mask;
}

CpuNodes read_cpu_nodes(const HostFiles& files, bool use_affinity, Notes& notes) {
  Numa facts;
  describe_cpu(files, facts);
  CpuNodes result;
  std::vector<int> ids;
  for (const std::string& name : files.names(kNodes)) {
    const int id = suffix(name, "node");
    if (id < 0) continue;
    ids.push_back(id);
    const std::string map = files.text(kNodes + name + "/cpumap").value_or("");
    auto cpus = CpuMask::parse(map);
    if (!known(cpus)) cpus = cpu_list(files, kNodes + name + "/cpulist");
    // Memory of GPUs or of its own kind: no place to compute at.
    if (!known(cpus)) continue;
    if (result.numas.size() == kMaxNumas) {
      notes.add(fmt::format("more than {} NUMA nodes, left out", kMaxNumas), name);
      continue;
    }
    facts.id = id;
    facts.cpus = *cpus;
    result.numas.push_back(facts);
  }
  if (result.numas.empty()) {
    // Linux without NUMA has one node of number 0.
    facts.id = 0;
    facts.cpus = host_cpus(files);
    result.numas.push_back(facts);
    if (facts.cpus.empty()) notes.add("CPUs not known", "node 0");
  }
  for (const Numa& numa : result.numas) result.all_cpus.push_back(numa.cpus);
  const GroupLimits group = group_limits(files);
  result.quota = group.quota;
  if (group.quota != 0)
    notes.add("cgroup limits time on CPUs", fmt::format("{:g} CPUs", static_cast<double>(group.quota) / 1000));
  std::vector<std::optional<CpuMask>> limits = {cpu_list(files, kCpus + "online"), group.cpus};
  if (use_affinity && files.running()) limits.push_back(calling_thread_affinity());
  if (!result.numas[0].cpus.empty()) restrict_cpus(limits, result.numas, notes);
  for (const int id : ids) result.homes[id] = nearest(files, id, ids, result.numas);
  for (size_t i = 0; i < result.numas.size(); ++i) result.homes[result.numas[i].id] = i;
  return result;
}

}  // namespace ronde::topo
