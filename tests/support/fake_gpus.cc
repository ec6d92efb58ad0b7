#include "support/fake_gpus.h"

#include <algorithm>
#include <cstring>

namespace ronde::test {
namespace {

using topo::NvmlDevice;
using topo::NvmlFabric;
using topo::NvmlField;
using topo::NvmlPci;

FakeDrivers* current = nullptr;

/// What a function gives that succeeds unless the test says otherwise.
int result(const char* name) { return current->failing.count(name) != 0 ? 999 : 0; }

int count() { return current->count >= 0 ? current->count : static_cast<int>(current->gpus.size()); }

const FakeGpu& gpu(NvmlDevice device) { return *static_cast<const FakeGpu*>(device); }

/// CUDA's number: those that are not visible are not counted.
const FakeGpu& visible(int device) {
  for (const FakeGpu& gpu : current->gpus) {
    if (gpu.visible && device-- == 0) return gpu;
  }
  return current->gpus.back();
}

int fill(NvmlPci* pci, const std::string& bus_id, const char* name) {
  *pci = {};
  std::strncpy(pci->bus_id, bus_id.c_str(), sizeof pci->bus_id - 1);
  return result(name);
}

topo::CudaApi cuda_table() {
  topo::CudaApi cuda;
  cuda.init = [](unsigned) { return result("cuInit"); };
  cuda.device_count = [](int* number) {
    *number = count() - static_cast<int>(std::count_if(current->gpus.begin(), current->gpus.end(),
                                                       [](const FakeGpu& gpu) { return !gpu.visible; }));
    return result("cuDeviceGetCount");
  };
  cuda.device = [](int* device, int ordinal) {
    *device = ordinal;
    return result("cuDeviceGet");
  };
  cuda.bus_id = [](char* text, int length, int device) {
    std::strncpy(text, visible(device).bus_id.c_str(), static_cast<size_t>(length));
    return result("cuDeviceGetPCIBusId");
  };
  cuda.attribute = [](int* value, int number, int device) {
    const FakeGpu& gpu = visible(device);
    *value = number == 75 ? gpu.major : number == 76 ? gpu.minor : number == 116 ? gpu.direct : number == 134 ? gpu.numa : 0;
    return result("cuDeviceGetAttribute");
  };
  return cuda;
}

void link_functions(topo::NvmlApi& nvml) {
  nvml.link_state = [](NvmlDevice device, unsigned link, unsigned* active) {
    if (link >= gpu(device).links.size()) return 2;
    *active = gpu(device).links[link].active;
    return result("nvmlDeviceGetNvLinkState");
  };
  nvml.link_can = [](NvmlDevice device, unsigned link, unsigned, unsigned* can) {
    *can = gpu(device).links[link].peer_access;
    return result("nvmlDeviceGetNvLinkCapability");
  };
  nvml.link_remote = [](NvmlDevice device, unsigned link, NvmlPci* pci) {
    return fill(pci, gpu(device).links[link].remote, "nvmlDeviceGetNvLinkRemotePciInfo_v2");
  };
  nvml.link_remote_type = [](NvmlDevice device, unsigned link, unsigned* type) {
    *type = gpu(device).links[link].type;
    return result("nvmlDeviceGetNvLinkRemoteDeviceType");
  };
}

topo::NvmlApi nvml_table() {
  topo::NvmlApi nvml;
  nvml.init = [] { return result("nvmlInit_v2"); };
  nvml.shutdown = [] { return result("nvmlShutdown"); };
  nvml.device_count = [](unsigned* number) {
    *number = static_cast<unsigned>(count());
    return result("nvmlDeviceGetCount_v2");
  };
  nvml.device = [](unsigned index, NvmlDevice* device) {
    *device = &current->gpus[index];
    return result("nvmlDeviceGetHandleByIndex_v2");
  };
  nvml.pci = [](NvmlDevice device, NvmlPci* pci) { return fill(pci, gpu(device).bus_id, "nvmlDeviceGetPciInfo_v3"); };
  nvml.capability = [](NvmlDevice device, int* major, int* minor) {
    *major = gpu(device).major;
    *minor = gpu(device).minor;
    return result("nvmlDeviceGetCudaComputeCapability");
  };
  nvml.max_generation = [](NvmlDevice device, unsigned* generation) {
    *generation = gpu(device).generation;
    return result("nvmlDeviceGetMaxPcieLinkGeneration");
  };
  nvml.max_width = [](NvmlDevice device, unsigned* width) {
    *width = gpu(device).width;
    return result("nvmlDeviceGetMaxPcieLinkWidth");
  };
  nvml.fields = [](NvmlDevice device, int number, NvmlField* fields) {
    for (int i = 0; i < number; ++i) {
      const bool known = fields[i].field >= 170 && fields[i].field <= 172;
      fields[i].result = known ? 0 : 2;
      fields[i].type = fields[i].field == 172 ? 3 : 1;
      if (fields[i].field == 172)
        fields[i].value.u64 = gpu(device).c2c_rate;
      else
        fields[i].value.u32 = fields[i].field == 170 ? gpu(device).c2c_links : 1;
    }
    return result("nvmlDeviceGetFieldValues");
  };
  nvml.fabric = [](NvmlDevice device, NvmlFabric* fabric) {
    if (fabric->version != (36U | 2U << 24)) return 25;
    fabric->state = 3;
    std::memcpy(fabric->cluster, gpu(device).cluster.data(), std::min(gpu(device).cluster.size(), sizeof fabric->cluster));
    return result("nvmlDeviceGetGpuFabricInfoV");
  };
  link_functions(nvml);
  return nvml;
}

}  // namespace

FakeDrivers::FakeDrivers(std::vector<FakeGpu> fakes) : table{cuda_table(), nvml_table()}, gpus(std::move(fakes)) {
  current = this;
}

FakeDrivers::~FakeDrivers() { current = nullptr; }

}  // namespace ronde::test
