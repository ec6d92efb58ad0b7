// Devices: what there is, and what it can.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

#include "gpu-emulator/driver/driver.h"
#include "gpu-emulator/driver/limits.h"

namespace emu::driver {
namespace {

/// Does `body` with the machine's number of a device.
template <class Body>
CUresult of_device(CUdevice device, Body body) {
  return call([&](Driver& driver) {
    const int index = driver.index_of(device);
    return index < 0 ? CUDA_ERROR_INVALID_DEVICE : body(driver, static_cast<size_t>(index));
  });
}

/// Domain, bus, device of a bus id such as 00e0:01:00.0.
std::array<int, 3> pci_numbers(const std::string& text) {
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned device = 0;
  std::sscanf(text.c_str(), "%x:%x:%x", &domain, &bus, &device);
  return {static_cast<int>(domain), static_cast<int>(bus), static_cast<int>(device)};
}

/// The last attribute that is known to any driver.
constexpr int kLastAttribute = 147;

std::optional<int> limit_of(CUdevice_attribute attribute) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
      return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      return 0x7fffffff;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      return 0xffff;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      return kSharedBytes;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
      return 1 << 16;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
      return kRegistersPerMultiprocessor;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      return 1980000;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      return 2619000;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      return 5120;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      return 50 << 20;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      return kThreadsPerMultiprocessor;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
      return kBlocksPerMultiprocessor;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      return kSharedPerMultiprocessor;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return kSharedBytesOptIn;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
      return kSharedReserved;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
      return 3;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
      return -1;
    default:
      return std::nullopt;
  }
}

std::optional<int> ability_of(const Settings& settings, CUdevice_attribute attribute) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
      return 1;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
      return settings.vmm;
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
      return settings.multicast && settings.vmm;
    default:
      return std::nullopt;
  }
}

CUresult get_attribute(const Settings& settings, size_t index, CUdevice_attribute attribute, int& value) {
  const auto pci = pci_numbers(settings.pci[index]);
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      value = settings.multiprocessors;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      value = settings.capability / 10;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      value = settings.capability % 10;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
      value = pci[0];
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      value = pci[1];
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
      value = pci[2];
      return CUDA_SUCCESS;
    default:
      break;
  }
  if (attribute < 1 || attribute > kLastAttribute) return CUDA_ERROR_INVALID_VALUE;
  // All others are abilities that there are none of.
  value = limit_of(attribute).value_or(ability_of(settings, attribute).value_or(0));
  return CUDA_SUCCESS;
}

CUresult get_uuid(CUuuid* uuid, CUdevice device) {
  return of_device(device, [&](Driver&, size_t index) {
    if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(uuid->bytes, "emulated GPU  00", 16);
    uuid->bytes[14] = static_cast<char>('0' + index / 10);
    uuid->bytes[15] = static_cast<char>('0' + index % 10);
    return CUDA_SUCCESS;
  });
}

void copy_text(char* to, int length, const std::string& text) {
  const size_t bytes = std::min(text.size(), static_cast<size_t>(length) - 1);
  std::memcpy(to, text.data(), bytes);
  to[bytes] = '\0';
}

}  // namespace

extern "C" {

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return of_device(ordinal, [&](Driver&, size_t) {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetCount(int* count) {
  return call([&](Driver& driver) {
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *count = static_cast<int>(driver.settings().shown.size());
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  return of_device(device, [&](Driver& driver, size_t) {
    if (name == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
    copy_text(name, length, driver.settings().name);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  return of_device(device, [&](Driver& driver, size_t index) {
    return value == nullptr ? CUDA_ERROR_INVALID_VALUE : get_attribute(driver.settings(), index, attribute, *value);
  });
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  return of_device(device, [&](Driver& driver, size_t) {
    if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *bytes = driver.memory().capacity();
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) { return get_uuid(uuid, device); }
CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) { return get_uuid(uuid, device); }

CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
  return of_device(device, [&](Driver& driver, size_t index) {
    if (text == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
    copy_text(text, length, driver.settings().pci[index]);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* text) {
  return call([&](Driver& driver) {
    if (device == nullptr || text == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto wanted = pci_numbers(text);
    for (size_t i = 0; i < driver.settings().shown.size(); ++i) {
      if (pci_numbers(driver.settings().pci[static_cast<size_t>(driver.settings().shown[i])]) != wanted) continue;
      *device = static_cast<CUdevice>(i);
      return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_DEVICE;
  });
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  return of_device(device, [&](Driver& driver, size_t index) {
    const int other = driver.index_of(peer);
    if (other < 0) return CUDA_ERROR_INVALID_DEVICE;
    if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *can = static_cast<int>(driver.settings().peers[static_cast<size_t>(other)] >> index & 1);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attribute, CUdevice device, CUdevice peer) {
  return call([&](Driver& driver) {
    if (attribute < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK || attribute > CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED)
      return CUDA_ERROR_INVALID_VALUE;
    if (device == peer) return CUDA_ERROR_INVALID_DEVICE;
    const CUresult result = cuDeviceCanAccessPeer(value, device, peer);
    if (result != CUDA_SUCCESS) return result;
    const bool links = driver.settings().nvlinks > 0;
    if (attribute == CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK) *value = *value != 0 && links ? 0 : 1;
    if (attribute == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED && !links) *value = 0;
    return CUDA_SUCCESS;
  });
}

}  // extern "C"

}  // namespace emu::driver
