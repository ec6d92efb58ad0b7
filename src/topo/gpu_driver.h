// What the drivers of NVIDIA GPUs know that files do not: numbers, models, NVLink and C2C. libcuda and libnvidia-ml are looked
// for at run time, and asked through tables of functions that a test can fill itself.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "topo/assembly.h"
#include "topo/machine.h"

namespace ronde::topo {

// The drivers' binary interfaces, as far as they are used. Every function returns 0 for success; nullptr: not there.

/// CUDA's driver API.
struct CudaApi {
  int (*init)(unsigned flags) = nullptr;                           ///< cuInit
  int (*device_count)(int* count) = nullptr;                       ///< cuDeviceGetCount
  int (*device)(int* device, int ordinal) = nullptr;               ///< cuDeviceGet
  int (*bus_id)(char* text, int length, int device) = nullptr;     ///< cuDeviceGetPCIBusId
  int (*attribute)(int* value, int number, int device) = nullptr;  ///< cuDeviceGetAttribute
};

/// NVML's nvmlPciInfo_t.
struct NvmlPci {
  char bus_id_legacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned device_and_vendor;
  unsigned subsystem;
  char bus_id[32];
};
static_assert(sizeof(NvmlPci) == 68);

/// NVML's nvmlFieldValue_t.
struct NvmlField {
  unsigned field;
  unsigned scope;
  int64_t timestamp;
  int64_t latency;
  int type;    ///< 1: 32 bits, 2 and 3: 64 bits, unsigned
  int result;  ///< of this field
  union {
    uint32_t u32;
    uint64_t u64;
  } value;
};
static_assert(sizeof(NvmlField) == 40);

/// NVML's nvmlGpuFabricInfo_v2_t.
struct NvmlFabric {
  unsigned version;
  unsigned char cluster[16];
  int status;
  unsigned clique;
  unsigned char state;  ///< 3: complete
  unsigned health;
};
static_assert(sizeof(NvmlFabric) == 36);

using NvmlDevice = void*;

struct NvmlApi {
  int (*init)() = nullptr;                                                          ///< nvmlInit_v2
  int (*shutdown)() = nullptr;                                                      ///< nvmlShutdown
  int (*device_count)(unsigned* count) = nullptr;                                   ///< nvmlDeviceGetCount_v2
  int (*device)(unsigned index, NvmlDevice* device) = nullptr;                      ///< nvmlDeviceGetHandleByIndex_v2
  int (*pci)(NvmlDevice device, NvmlPci* pci) = nullptr;                            ///< nvmlDeviceGetPciInfo_v3
  int (*capability)(NvmlDevice device, int* major, int* minor) = nullptr;           ///< nvmlDeviceGetCudaComputeCapability
  int (*max_generation)(NvmlDevice device, unsigned* generation) = nullptr;         ///< nvmlDeviceGetMaxPcieLinkGeneration
  int (*max_width)(NvmlDevice device, unsigned* width) = nullptr;                   ///< nvmlDeviceGetMaxPcieLinkWidth
  int (*link_state)(NvmlDevice device, unsigned link, unsigned* active) = nullptr;  ///< nvmlDeviceGetNvLinkState
  int (*link_can)(NvmlDevice device, unsigned link, unsigned what, unsigned* can) = nullptr;  ///< nvmlDeviceGetNvLinkCapability
  int (*link_remote)(NvmlDevice device, unsigned link, NvmlPci* remote) = nullptr;      ///< nvmlDeviceGetNvLinkRemotePciInfo_v2
  int (*link_remote_type)(NvmlDevice device, unsigned link, unsigned* type) = nullptr;  ///< nvmlDeviceGetNvLinkRemoteDeviceType
  int (*fields)(NvmlDevice device, int count, NvmlField* fields) = nullptr;             ///< nvmlDeviceGetFieldValues
  int (*fabric)(NvmlDevice device, NvmlFabric* fabric) = nullptr;                       ///< nvmlDeviceGetGpuFabricInfoV
};

struct GpuDrivers {
  CudaApi cuda;
  NvmlApi nvml;
};

/// Loads both libraries for the rest of the process; what is not there is nullptr in the table.
GpuDrivers load_gpu_drivers(const char* cuda = "libcuda.so.1", const char* nvml = "libnvidia-ml.so.1");

/// NVLinks of a GPU with the same other end.
struct DriverLinks {
  enum class End : uint8_t { unknown, gpu, nv_switch, cpu };
  End end = End::unknown;  ///< as the driver says
  std::optional<PciAddress> address;
  int count = 0;
};

struct DriverGpu {
  PciAddress address;
  Gpu facts;              ///< dev, sm, gdr, c2c_links, c2c_rate, and domain where it is one of several hosts
  int numa = -1;          ///< the nearest NUMA node with CPUs
  int32_t max_speed = 0;  ///< of its PCI link, in MT/s and lanes
  int32_t max_width = 0;
  std::vector<DriverLinks> links;
};

/// Asks the drivers for their GPUs: those that CUDA shows to this process have a number, others that NVML knows have none. By
/// address. What fails or cannot be is unknown, and noted; without drivers there are no GPUs.
std::vector<DriverGpu> read_gpu_drivers(const GpuDrivers& drivers, Notes& notes);

}  // namespace ronde::topo
