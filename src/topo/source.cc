#include "topo/source.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/files.h"
#include "base/lists.h"
#include "base/words.h"
#include "topo/assembly.h"
#include "topo/detect.h"
#include "topo/merge.h"
#include "topo/text.h"
#include "topo/xml.h"

namespace ronde::topo {
namespace {

constexpr size_t kMaxBytes = size_t{16} << 20;
/// Where NVIDIA's virtual machines have a description of the real one; read where nothing else is named.
const std::string kVirtualTopology = "/var/run/nvidia-topologyd/virtualTopology.xml";

bool is_folder(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

/// Sentences of `reading` but those that follow from what its machine leaves open: once it is completed they may not hold.
std::vector<std::string> own_notes(const Reading& reading) {
  const std::vector<std::string> open = complete(reading.machine, {}).notes;
  std::vector<std::string> own;
  for (const std::string& note : reading.notes) {
    if (std::find(open.begin(), open.end(), note) == open.end()) own.push_back(note);
  }
  return own;
}

/// The devices and ports of one host by what they are known by everywhere: bus ids and names.
struct Inventory {
  std::map<std::string, std::string> devices;  ///< what it is, by its bus id or name

  explicit Inventory(const Machine& machine) {
    for (const NodeId id : machine.of_kind(NodeKind::gpu)) {
      if (const Pci* pci = machine.pci_of(id)) devices[to_string(pci->address)] = "gpu " + to_string(pci->address);
    }
    for (const NodeId id : machine.of_kind(NodeKind::port)) {
      if (!machine.port(id).name.empty()) devices[machine.port(id).name] = "port " + printable(machine.port(id).name);
    }
  }
};

/// Notes what of a file's machine is not on this host.
void compare(const std::string& file, const Machine& described, const Machine& found, std::vector<std::string>& notes) {
  const Inventory theirs(described);
  const Inventory ours(found);
  std::vector<std::string> lacking;
  for (const auto& [key, name] : theirs.devices) {
    if (ours.devices.count(key) == 0) lacking.push_back(name);
  }
  if (lacking.empty()) return;
  const size_t there = theirs.devices.size() - lacking.size();
  const size_t shown = std::min<size_t>(lacking.size(), 8);
  std::string text = comma_list({lacking.begin(), lacking.begin() + static_cast<std::ptrdiff_t>(shown)});
  if (lacking.size() > shown) text += fmt::format(" and {} more", lacking.size() - shown);
  text = fmt::format("the topology file {} names devices that this host does not have: {}", file, text);
  if (there == 0) text += "; none of its devices is here, so it seems to describe another machine";
  notes.push_back(text);
}

/// The file's machine as this host's; nothing where it describes several hosts and none of them is this one.
std::optional<Machine> as_this_host(const Machine& described, uint64_t host_hash) {
  Machine mine = without_ranks(described);
  const auto named = std::find(mine.hosts.begin(), mine.hosts.end(), Host{host_hash});
  if (mine.hosts.size() > 1 && named == mine.hosts.end()) return std::nullopt;
  if (mine.hosts.size() == 1) mine.hosts[0].hash = host_hash;
  return mine;
}

struct Chosen {
  std::string path;    ///< "": none
  std::string source;  ///< the variable that names it; "": nothing does
};

Chosen chosen_file(const Config& config) {
  if (config.is_set(Setting::topo_file)) return {config.text(Setting::topo_file), config.source(Setting::topo_file)};
  return {access(kVirtualTopology.c_str(), R_OK) == 0 ? kVirtualTopology : "", ""};
}

/// What the chosen file says. Nothing, and a note, where it cannot be had and need not be.
Result<std::optional<Reading>> described_host(const Config& config, const Chosen& chosen, std::vector<std::string>& notes) {
  if (chosen.path.empty()) return std::optional<Reading>();
  const bool there = access(chosen.path.c_str(), R_OK) == 0;
  Result<Reading> described = load_machine(chosen.path);
  if (described.ok()) return std::optional<Reading>(std::move(described).value());
  // Images name a file for all kinds of hosts that they may run on; a broken one is nobody's intention.
  if (!chosen.source.empty() && (there || config.flag(Setting::strict))) return std::move(described).error();
  const std::string name = chosen.source.empty() ? "" : fmt::format(" named by {}", chosen.source);
  notes.push_back(fmt::format("the topology file {}{} is ignored: {}", chosen.path, name, described.error().what));
  return std::optional<Reading>();
}

/// A library that stands for CUDA's driver may stand for NVML too.
GpuDrivers drivers_of(const std::string& cuda) {
  if (cuda.empty()) return load_gpu_drivers();
  GpuDrivers drivers = load_gpu_drivers(cuda.c_str(), cuda.c_str());
  if (drivers.nvml.init == nullptr) drivers.nvml = load_gpu_drivers(cuda.c_str()).nvml;
  return drivers;
}

Result<Reading> running_host(const Config& config, Cpus cpus, Drivers drivers) {
  DetectOptions options;
  options.ignore_affinity = cpus == Cpus::of_host || config.flag(Setting::ignore_cpu_affinity);
  if (drivers == Drivers::asked && config.text(Setting::device) != "cpu") {
    static const GpuDrivers loaded = drivers_of(config.text(Setting::cuda_library));
    options.drivers = &loaded;
  }
  if (config.flag(Setting::hwloc)) {
    static const HwlocApi loaded = load_hwloc();
    options.hwloc = &loaded;
  }
  return detect("", options);
}

}  // namespace

Result<Reading> load_machine(const std::string& path) {
  if (is_folder(path)) {
    if (!is_folder(path + "/sys")) {
      return fail(Code::invalid_argument,
                  fmt::format("reading a machine from the folder '{}': it has no folder sys; name a copy of a host's sys and "
                              "proc, or a topology file",
                              path));
    }
    return detect(path);
  }
  RONDE_TRY(const std::string text, read_file(path, kMaxBytes));
  const size_t start = text.find_first_not_of(" \t\r\n\f\v");
  if (start == std::string::npos)
    return fail(
        Code::invalid_argument,
        fmt::format("{}: the file is empty; name one with a machine: a topology file of NCCL or hwloc, or a text form", path));
  // A byte order mark comes before XML alone.
  const bool xml = text[start] == '<' || text.compare(0, 3, "\xef\xbb\xbf") == 0;
  return xml ? from_xml(text, path) : from_text(text, path);
}

Result<Reading> machine_of_host(const Config& config, uint64_t host_hash, Cpus cpus, Drivers drivers) {
  RONDE_TRY(Reading found, running_host(config, cpus, drivers));
  for (Host& host : found.machine.hosts) host.hash = host_hash;
  const Chosen chosen = chosen_file(config);
  std::vector<std::string> notes;
  RONDE_TRY(const std::optional<Reading> described, described_host(config, chosen, notes));
  std::optional<Machine> mine;
  if (described) mine = as_this_host(described->machine, host_hash);
  if (described && !mine) {
    notes.push_back(
        fmt::format("the topology file {} describes {} hosts, none of them by the identity of this one ({:x}), and is "
                    "ignored",
                    chosen.path, described->machine.hosts.size(), host_hash));
  }
  if (!mine) {
    found.notes.insert(found.notes.begin(), notes.begin(), notes.end());
    return found;
  }
  compare(chosen.path, *mine, found.machine, notes);
  Reading both = complete(*mine, found.machine);
  for (const Reading* reading : {&*described, const_cast<const Reading*>(&found)}) {
    const std::vector<std::string> own = own_notes(*reading);
    notes.insert(notes.end(), own.begin(), own.end());
  }
  both.notes.insert(both.notes.begin(), notes.begin(), notes.end());
  return both;
}

Result<> dump_machine(const Config& config, int rank, const Machine& machine) {
  if (!config.is_set(Setting::topo_dump_file) || config.integer(Setting::topo_dump_file_rank) != rank) return {};
  return write_file(config.text(Setting::topo_dump_file), to_xml(machine));
}

}  // namespace ronde::topo
