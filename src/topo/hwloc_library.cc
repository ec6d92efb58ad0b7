// libhwloc, found at run time. It is asked for its XML alone, so that none of its structures is a part of this program.
#include <dlfcn.h>
#include <fmt/core.h>
#include <algorithm>
#include <string_view>

#include "base/symbols.h"
#include "topo/hwloc_parts.h"

namespace ronde::topo {
namespace {

constexpr unsigned long kIncludeDisallowed = 1;  // CPUs outside the cgroup: else what is near to those seems to be near to others
constexpr unsigned long kBlacklist = 1;
constexpr int kKeepAll = 0;

bool complete(const HwlocApi& api) {
  return api.version != nullptr && api.init != nullptr && api.flags != nullptr && api.io_filter != nullptr &&
         api.load != nullptr && api.write != nullptr && api.free != nullptr && api.destroy != nullptr;
}

/// The host as hwloc writes it; "" where a call fails.
std::string written(const HwlocApi& api) {
  void* topology = nullptr;
  if (api.init(&topology) != 0) return "";
  // These start drivers, and find nothing that is used here.
  for (const char* name : {"opencl", "cuda", "gl", "levelzero", "rsmi"}) {
    if (api.component != nullptr) api.component(topology, kBlacklist, name);
  }
  std::string text;
  char* buffer = nullptr;
  int length = 0;
  const bool done = api.flags(topology, kIncludeDisallowed) == 0 && api.io_filter(topology, kKeepAll) == 0 &&
                    api.load(topology) == 0 && api.write(topology, &buffer, &length, 0) == 0;
  if (done && buffer != nullptr && length > 0) {
    text.assign(buffer, static_cast<size_t>(length));
    // The length counts the zero byte at the end.
    text.resize(std::min(text.find('\0'), text.size()));
  }
  if (buffer != nullptr) api.free(topology, buffer);
  api.destroy(topology);
  return text;
}

}  // namespace

HwlocApi load_hwloc(const char* name) {
  HwlocApi api;
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  find_symbol(library, "hwloc_get_api_version", api.version);
  find_symbol(library, "hwloc_topology_init", api.init);
  find_symbol(library, "hwloc_topology_set_flags", api.flags);
  find_symbol(library, "hwloc_topology_set_io_types_filter", api.io_filter);
  find_symbol(library, "hwloc_topology_set_components", api.component);
  find_symbol(library, "hwloc_topology_load", api.load);
  find_symbol(library, "hwloc_topology_export_xmlbuffer", api.write);
  find_symbol(library, "hwloc_free_xmlbuffer", api.free);
  find_symbol(library, "hwloc_topology_destroy", api.destroy);
  return api;
}

std::optional<HostFacts> ask_hwloc(const HwlocApi& api, Notes& notes) {
  if (api.version == nullptr) return std::nullopt;
  const unsigned version = api.version();
  if (version >> 16 != 2 || !complete(api)) {
    notes.add("hwloc is of a version that is not known, and not used", fmt::format("{}.{}", version >> 16, version >> 8 & 0xff));
    return std::nullopt;
  }
  const std::string text = written(api);
  if (text.empty()) {
    notes.add("hwloc is not used", "it cannot read this host");
    return std::nullopt;
  }
  const auto document = XmlDocument::parse(text, "hwloc");
  Notes unused;  // the host's own files give rise to the same
  auto facts = document.ok() ? read_hwloc(**document, unused) : Result<HostFacts>(document.error());
  if (facts.ok()) return std::move(*facts);
  notes.add("hwloc is not used", facts.error().what);
  return std::nullopt;
}

void add_hwloc(HostFacts hwloc, HostFacts& facts) {
  for (auto& [address, function] : hwloc.tree) {
    const auto [place, is_new] = facts.tree.try_emplace(address, function);
    if (!is_new && place->second.local_cpus.empty()) place->second.local_cpus = std::move(function.local_cpus);
  }
  for (DriverGpu& gpu : hwloc.gpus) {
    const auto known =
        std::find_if(facts.gpus.begin(), facts.gpus.end(), [&](const DriverGpu& g) { return g.address == gpu.address; });
    // Its numbers of GPUs are not CUDA's, if CUDA was not asked.
    gpu.facts.dev = -1;
    if (known == facts.gpus.end()) {
      facts.gpus.push_back(std::move(gpu));
      continue;
    }
    if (known->facts.sm == 0) known->facts.sm = gpu.facts.sm;
    if (known->links.empty()) known->links = std::move(gpu.links);
  }
}

}  // namespace ronde::topo
