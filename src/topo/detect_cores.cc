// Cores, caches and memory bandwidth from a host's files.
#include <fmt/core.h>
#include <algorithm>
#include <charconv>

#include "topo/cpu_ranks.h"
#include "topo/detect_parts.h"

namespace ronde::topo {
namespace {

constexpr int64_t kMaxCacheBytes = int64_t{1} << 34;
constexpr int64_t kMaxMemoryRate = 100000000;  // MB/s
constexpr int kMaxLevels = 10;                 // index0, index1, ... of a CPU's caches

std::string folder_of(int cpu) { return fmt::format("/sys/devices/system/cpu/cpu{}/", cpu); }

/// Bytes of "1024K"; 0 for unknown.
int64_t cache_bytes(const std::string& text) {
  int64_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  const int64_t scale = unit == "K" ? 1 << 10 : unit == "M" ? 1 << 20 : unit.empty() ? 1 : 0;
  return error == std::errc() && size > 0 && size <= kMaxCacheBytes && size * scale <= kMaxCacheBytes ? size * scale : 0;
}

/// The CPUs of a list that has `cpu` in it, or of a mask where there is no list; else that one alone.
CpuMask sharers(const HostFiles& files, const std::string& list, const std::string& mask, int cpu) {
  auto cpus = parse_cpu_list(files.text(list).value_or(""));
  if (!cpus || cpus->empty()) cpus = CpuMask::parse(files.text(mask).value_or(""));
  if (cpus && cpus->test(cpu)) return *cpus;
  CpuMask alone;
  alone.set(cpu);
  return alone;
}

void read_caches(const HostFiles& files, int cpu, std::vector<Cache>& caches) {
  for (int index = 0; index < kMaxLevels; ++index) {
    const std::string folder = fmt::format("{}cache/index{}/", folder_of(cpu), index);
    const auto level = files.number(folder + "level");
    if (!level) return;
    if (*level != 2 && *level != 3) continue;
    const bool known = std::any_of(caches.begin(), caches.end(),
                                   [&](const Cache& cache) { return cache.level == *level && cache.cpus.test(cpu); });
    if (known || files.text(folder + "type") == "Instruction") continue;
    caches.push_back({static_cast<int>(*level), cache_bytes(files.text(folder + "size").value_or("")),
                      sharers(files, folder + "shared_cpu_list", folder + "shared_cpu_map", cpu)});
  }
}

/// What firmware (HMAT) says of a node and the CPUs next to it, in MB/s; 0 for unknown.
int64_t memory_rate(const HostFiles& files, int numa) {
  for (const char* access : {"access1", "access0"}) {
    const std::string folder = fmt::format("/sys/devices/system/node/node{}/{}/initiators/", numa, access);
    const auto reads = files.number(folder + "read_bandwidth");
    const auto writes = files.number(folder + "write_bandwidth");
    if (!reads || !writes) continue;
    const int64_t mib = std::min(*reads, *writes);
    if (mib > 0 && mib <= kMaxMemoryRate) return mib * 1048576 / 1000000;
  }
  return 0;
}

}  // namespace

Result<HostCpus> detect_cpus(const std::string& root) {
  RONDE_TRY(const HostFiles files, HostFiles::open(root));
  Notes unused;  // detect() makes them too
  const CpuNodes nodes = read_cpu_nodes(files, false, unused);
  HostCpus result;
  result.quota = nodes.quota;
  for (const Numa& numa : nodes.numas) {
    CpuMask done;
    for (const int cpu : numa.cpus.list()) {
      read_caches(files, cpu, result.caches);
      if (done.test(cpu)) continue;
      // The older name of core_cpus is on every kernel.
      const std::string siblings = folder_of(cpu) + "topology/thread_siblings";
      const CpuMask core = sharers(files, siblings + "_list", siblings, cpu) & numa.cpus;
      done = done | core;
      result.cores.push_back({numa.id, core});
    }
    if (const int64_t rate = memory_rate(files, numa.id); rate != 0) result.memory_rates[numa.id] = rate;
  }
  return result;
}

}  // namespace ronde::topo
