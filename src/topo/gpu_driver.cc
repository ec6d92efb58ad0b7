#include "topo/gpu_driver.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <algorithm>
#include <map>
#include <string>

#include "base/hash.h"
#include "base/symbols.h"

namespace ronde::topo {
namespace {

// Numbers of CUDA's attributes and NVML's fields, capabilities and kinds of devices.
constexpr int kMajor = 75;
constexpr int kMinor = 76;
constexpr int kGpuDirect = 116;
constexpr int kDmaBuf = 124;
constexpr int kHostNuma = 134;
constexpr int kNoDevice = 100;
constexpr unsigned kC2cCount = 170;
constexpr unsigned kC2cActive = 171;
constexpr unsigned kC2cRate = 172;
constexpr unsigned kPeerAccess = 0;
constexpr unsigned kEndGpu = 0;
constexpr unsigned kEndCpu = 1;
constexpr unsigned kEndSwitch = 2;

// More than there is of anything.
constexpr unsigned kMaxGpus = 1024;
constexpr unsigned kMaxLinks = 64;
constexpr uint64_t kMaxC2cRate = 1000000;  // MB/s of one link
constexpr int kMaxMajor = 99;
constexpr int kMaxNuma = 0xffff;
/// MT/s of the generations of PCI, from the first.
constexpr int32_t kSpeeds[] = {2500, 5000, 8000, 16000, 32000, 64000, 128000};

/// Calls what may be missing; true for success.
template <class Function, class... Args>
bool call(Function* function, Args... args) {
  return function != nullptr && function(args...) == 0;
}

int capability(int major, int minor) {
  return major >= 1 && major <= kMaxMajor && minor >= 0 && minor <= 9 ? major * 10 + minor : 0;
}

std::optional<PciAddress> address_of(const NvmlPci& pci) {
  const std::string text(pci.bus_id, std::find(pci.bus_id, std::end(pci.bus_id), '\0'));
  return parse_pci_address(text);
}

class Reader {
 public:
  Reader(const GpuDrivers& drivers, Notes& notes) : cuda_(drivers.cuda), nvml_(drivers.nvml), notes_(notes) {}

  std::vector<DriverGpu> run() {
    cuda();
    nvml();
    std::vector<DriverGpu> all;
    for (auto& [address, gpu] : gpus_) all.push_back(std::move(gpu));
    return all;
  }

 private:
  DriverGpu& gpu(const PciAddress& address) {
    DriverGpu& gpu = gpus_[address];
    gpu.address = address;
    return gpu;
  }

  void cuda() {
    if (cuda_.init == nullptr) return;
    const int result = cuda_.init(0);
    if (result == kNoDevice) return;
    int count = 0;
    if (result != 0) return notes_.add("CUDA's driver cannot be used", fmt::format("cuInit gives error {}", result));
    if (!call(cuda_.device_count, &count) || count < 0 || count > static_cast<int>(kMaxGpus))
      return notes_.add("CUDA's driver cannot be used", "it does not tell how many GPUs there are");
    for (int dev = 0; dev < count; ++dev) cuda_device(dev);
  }

  void cuda_device(int dev) {
    int device = 0;
    char text[32] = {};
    const bool found = call(cuda_.device, &device, dev) && call(cuda_.bus_id, text, static_cast<int>(sizeof text), device);
    text[sizeof text - 1] = '\0';
    const auto address = found ? parse_pci_address(text) : std::nullopt;
    const std::string whom = fmt::format("gpu {}", dev);
    if (!address) return notes_.add("GPU of which the driver tells no bus id left out", whom);
    DriverGpu& gpu = this->gpu(*address);
    // Instances of one GPU.
    if (gpu.facts.dev >= 0) return notes_.add("GPU that the driver shows more than once, taken as one", whom);
    gpu.facts.dev = dev;
    gpu.facts.sm = capability(attribute(kMajor, device), attribute(kMinor, device));
    const int direct = std::max(attribute(kGpuDirect, device), attribute(kDmaBuf, device));
    gpu.facts.gdr = direct < 0 ? -1 : std::min(direct, 1);
    const int numa = attribute(kHostNuma, device);
    if (numa <= kMaxNuma) gpu.numa = numa;
  }

  /// -1 where it is not known, or is negative.
  int attribute(int number, int device) {
    int value = -1;
    return call(cuda_.attribute, &value, number, device) && value >= 0 ? value : -1;
  }

  void nvml() {
    if (nvml_.init == nullptr) return;
    if (const int result = nvml_.init(); result != 0)
      return notes_.add("NVML cannot be used: links between GPUs are not known", fmt::format("nvmlInit gives error {}", result));
    unsigned count = 0;
    if (!call(nvml_.device_count, &count) || count > kMaxGpus) {
      notes_.add("NVML cannot be used: links between GPUs are not known", "it does not tell how many GPUs there are");
      count = 0;
    }
    for (unsigned i = 0; i < count; ++i) {
      NvmlDevice device = nullptr;
      NvmlPci pci{};
      const bool found = call(nvml_.device, i, &device) && call(nvml_.pci, device, &pci);
      if (const auto address = found ? address_of(pci) : std::nullopt)
        nvml_device(device, gpu(*address));
      else
        notes_.add("GPU of which NVML tells no bus id left out", fmt::format("number {} there", i));
    }
    call(nvml_.shutdown);
  }

  void nvml_device(NvmlDevice device, DriverGpu& gpu) {
    int major = 0;
    int minor = 0;
    if (gpu.facts.sm == 0 && call(nvml_.capability, device, &major, &minor)) gpu.facts.sm = capability(major, minor);
    unsigned generation = 0;
    unsigned width = 0;
    if (call(nvml_.max_generation, device, &generation) && generation >= 1 && generation <= std::size(kSpeeds))
      gpu.max_speed = kSpeeds[generation - 1];
    if (call(nvml_.max_width, device, &width) && width <= 32) gpu.max_width = static_cast<int32_t>(width);
    links(device, gpu);
    c2c(device, gpu);
    NvmlFabric fabric{};
    fabric.version = static_cast<unsigned>(sizeof fabric) | 2U << 24;
    if (!call(nvml_.fabric, device, &fabric) || fabric.state != 3 || fabric.status != 0) return;
    // GPUs on switches of their own host have no cluster.
    if (std::all_of(std::begin(fabric.cluster), std::end(fabric.cluster), [](unsigned char byte) { return byte == 0; })) return;
    const std::string identity(reinterpret_cast<const char*>(fabric.cluster), sizeof fabric.cluster);
    gpu.facts.domain = std::max<uint64_t>(1, fnv1a_u64(fabric.clique, fnv1a(identity)));
  }

  void links(NvmlDevice device, DriverGpu& gpu) {
    std::string down;
    for (unsigned link = 0; link < kMaxLinks; ++link) {
      unsigned active = 0;
      // Beyond the last link, and of GPUs without any, there is no state.
      if (!call(nvml_.link_state, device, link, &active)) break;
      if (active != 1)
        down += fmt::format(" {}", link);
      else
        this->link(device, link, gpu);
    }
    // Where none is up there is no bridge.
    if (!down.empty() && !gpu.links.empty())
      notes_.add("NVLinks that are down", fmt::format("of {}:{}", to_string(gpu.address), down));
  }

  void link(NvmlDevice device, unsigned link, DriverGpu& gpu) {
    using End = DriverLinks::End;
    unsigned type = 0xff;
    call(nvml_.link_remote_type, device, link, &type);
    NvmlPci pci{};
    const auto address = call(nvml_.link_remote, device, link, &pci) ? address_of(pci) : std::nullopt;
    End end = type == kEndGpu ? End::gpu : type == kEndCpu ? End::cpu : type == kEndSwitch ? End::nv_switch : End::unknown;
    // Older drivers do not tell the kind; the address of "some switch" has all bits set.
    if (end == End::unknown && address && address->domain > 0xffff) end = End::nv_switch;
    if (!address && end != End::nv_switch && end != End::cpu)
      return notes_.add("NVLink whose other end the driver does not tell ignored",
                        fmt::format("of {}: {}", to_string(gpu.address), link));
    unsigned can = 1;
    if (end != End::cpu && call(nvml_.link_can, device, link, kPeerAccess, &can) && can == 0)
      return notes_.add("NVLink that gives no access to its other end ignored",
                        fmt::format("of {}: {}", to_string(gpu.address), link));
    const auto same = std::find_if(gpu.links.begin(), gpu.links.end(),
                                   [&](const DriverLinks& other) { return other.end == end && other.address == address; });
    if (same != gpu.links.end())
      ++same->count;
    else
      gpu.links.push_back({end, address, 1});
  }

  /// One of NVML's fields; nothing where it is not known.
  std::optional<uint64_t> field(NvmlDevice device, unsigned number, unsigned scope) {
    NvmlField field{};
    field.field = number;
    field.scope = scope;
    field.result = -1;
    if (!call(nvml_.fields, device, 1, &field) || field.result != 0) return std::nullopt;
    if (field.type == 1) return field.value.u32;
    return field.type == 2 || field.type == 3 ? std::optional(field.value.u64) : std::nullopt;
  }

  void c2c(NvmlDevice device, DriverGpu& gpu) {
    const uint64_t count = field(device, kC2cCount, 0).value_or(0);
    uint64_t least = kMaxC2cRate;
    int active = 0;
    for (unsigned link = 0; link < std::min<uint64_t>(count, kMaxLinks); ++link) {
      if (field(device, kC2cActive, link) != 1) continue;
      ++active;
      least = std::min(least, field(device, kC2cRate, link).value_or(0));
    }
    if (active == 0) return;
    if (count > kMaxLinks || least == 0 || least == kMaxC2cRate)
      return notes_.add("C2C links without a possible number or speed ignored", to_string(gpu.address));
    gpu.facts.c2c_links = active;
    gpu.facts.c2c_rate = static_cast<int64_t>(least);
  }

  const CudaApi& cuda_;
  const NvmlApi& nvml_;
  Notes& notes_;
  std::map<PciAddress, DriverGpu> gpus_;
};

}  // namespace

GpuDrivers load_gpu_drivers(const char* cuda, const char* nvml) {
  GpuDrivers drivers;
  void* library = dlopen(cuda, RTLD_NOW | RTLD_LOCAL);
  find_symbol(library, "cuInit", drivers.cuda.init);
  find_symbol(library, "cuDeviceGetCount", drivers.cuda.device_count);
  find_symbol(library, "cuDeviceGet", drivers.cuda.device);
  find_symbol(library, "cuDeviceGetPCIBusId", drivers.cuda.bus_id);
  find_symbol(library, "cuDeviceGetAttribute", drivers.cuda.attribute);
  library = dlopen(nvml, RTLD_NOW | RTLD_LOCAL);
  find_symbol(library, "nvmlInit_v2", drivers.nvml.init);
  find_symbol(library, "nvmlShutdown", drivers.nvml.shutdown);
  find_symbol(library, "nvmlDeviceGetCount_v2", drivers.nvml.device_count);
  find_symbol(library, "nvmlDeviceGetHandleByIndex_v2", drivers.nvml.device);
  find_symbol(library, "nvmlDeviceGetPciInfo_v3", drivers.nvml.pci);
  find_symbol(library, "nvmlDeviceGetCudaComputeCapability", drivers.nvml.capability);
  find_symbol(library, "nvmlDeviceGetMaxPcieLinkGeneration", drivers.nvml.max_generation);
  find_symbol(library, "nvmlDeviceGetMaxPcieLinkWidth", drivers.nvml.max_width);
  find_symbol(library, "nvmlDeviceGetNvLinkState", drivers.nvml.link_state);
  find_symbol(library, "nvmlDeviceGetNvLinkCapability", drivers.nvml.link_can);
  find_symbol(library, "nvmlDeviceGetNvLinkRemotePciInfo_v2", drivers.nvml.link_remote);
  find_symbol(library, "nvmlDeviceGetNvLinkRemoteDeviceType", drivers.nvml.link_remote_type);
  find_symbol(library, "nvmlDeviceGetFieldValues", drivers.nvml.fields);
  find_symbol(library, "nvmlDeviceGetGpuFabricInfoV", drivers.nvml.fabric);
  return drivers;
}

std::vector<DriverGpu> read_gpu_drivers(const GpuDrivers& drivers, Notes& notes) { return Reader(drivers, notes).run(); }

}  // namespace ronde::topo
