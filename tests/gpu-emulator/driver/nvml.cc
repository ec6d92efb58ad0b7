// The part of NVML that detection asks: the same machine as the driver's, from the same library.
#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>

#include "gpu-emulator/driver/settings.h"
#include "topo/gpu_driver.h"

namespace emu::driver {
namespace {

using ronde::topo::NvmlDevice;
using ronde::topo::NvmlFabric;
using ronde::topo::NvmlField;
using ronde::topo::NvmlPci;

enum Code : int { kSuccess = 0, kUninitialized = 1, kInvalidArgument = 2, kNotSupported = 3, kUnknown = 999 };
constexpr unsigned kEndGpu = 0;
constexpr unsigned kEndSwitch = 2;

std::mutex mutex;
std::optional<Settings>& machine() {
  static auto* settings = new std::optional<Settings>;
  return *settings;
}

/// Does `body` with a device's number.
template <class Body>
int of_device(NvmlDevice handle, Body body) {
  std::lock_guard lock(mutex);
  if (!machine()) return kUninitialized;
  const auto number = reinterpret_cast<uintptr_t>(handle);
  if (number == 0 || number > static_cast<uintptr_t>(machine()->devices)) return kInvalidArgument;
  return body(*machine(), number - 1);
}

/// The device at the other end of a link between GPUs; -1: there is no such link.
int link_end(const Settings& settings, size_t device, unsigned link) {
  unsigned first = 0;
  for (int other = 0; other < settings.devices; ++other) {
    if ((settings.peers[device] >> other & 1) == 0) continue;
    if (link - first < static_cast<unsigned>(settings.nvlinks)) return other;
    first += static_cast<unsigned>(settings.nvlinks);
  }
  return -1;
}

bool has_link(const Settings& settings, size_t device, unsigned link) {
  return settings.nvswitch ? link < static_cast<unsigned>(settings.nvlinks) : link_end(settings, device, link) >= 0;
}

void fill_pci(NvmlPci& pci, const std::string& text) {
  pci = {};
  std::sscanf(text.c_str(), "%x:%x:%x", &pci.domain, &pci.bus, &pci.device);
  std::snprintf(pci.bus_id, sizeof pci.bus_id, "%08X:%02X:%02X.0", pci.domain, pci.bus & 0xff, pci.device & 0xff);
  std::snprintf(pci.bus_id_legacy, sizeof pci.bus_id_legacy, "%04X:%02X:%02X.0", pci.domain & 0xffff, pci.bus & 0xff,
                pci.device & 0xff);
}

}  // namespace

#define EMU_NVML extern "C" [[gnu::visibility("default")]] int

EMU_NVML nvmlInit_v2() {
  auto settings = read_settings();
  if (!settings) {
    std::fprintf(stderr, "emulated GPU: %s\n", settings.error().what.c_str());
    return kUnknown;
  }
  std::lock_guard lock(mutex);
  machine() = std::move(*settings);
  return kSuccess;
}

EMU_NVML nvmlShutdown() {
  std::lock_guard lock(mutex);
  const bool up = machine().has_value();
  machine().reset();
  return up ? kSuccess : kUninitialized;
}

EMU_NVML nvmlDeviceGetCount_v2(unsigned* count) {
  std::lock_guard lock(mutex);
  if (!machine()) return kUninitialized;
  if (count == nullptr) return kInvalidArgument;
  *count = static_cast<unsigned>(machine()->devices);
  return kSuccess;
}

EMU_NVML nvmlDeviceGetHandleByIndex_v2(unsigned index, NvmlDevice* device) {
  std::lock_guard lock(mutex);
  if (!machine()) return kUninitialized;
  if (device == nullptr || index >= static_cast<unsigned>(machine()->devices)) return kInvalidArgument;
  *device = reinterpret_cast<NvmlDevice>(uintptr_t{index} + 1);
  return kSuccess;
}

EMU_NVML nvmlDeviceGetPciInfo_v3(NvmlDevice handle, NvmlPci* pci) {
  return of_device(handle, [&](const Settings& settings, size_t device) {
    if (pci == nullptr) return kInvalidArgument;
    fill_pci(*pci, settings.pci[device]);
    return kSuccess;
  });
}

EMU_NVML nvmlDeviceGetCudaComputeCapability(NvmlDevice handle, int* major, int* minor) {
  return of_device(handle, [&](const Settings& settings, size_t) {
    if (major == nullptr || minor == nullptr) return kInvalidArgument;
    *major = settings.capability / 10;
    *minor = settings.capability % 10;
    return kSuccess;
  });
}

EMU_NVML nvmlDeviceGetMaxPcieLinkGeneration(NvmlDevice handle, unsigned* generation) {
  return of_device(handle, [&](const Settings&, size_t) {
    if (generation == nullptr) return kInvalidArgument;
    *generation = 5;
    return kSuccess;
  });
}

EMU_NVML nvmlDeviceGetMaxPcieLinkWidth(NvmlDevice handle, unsigned* width) {
  return of_device(handle, [&](const Settings&, size_t) {
    if (width == nullptr) return kInvalidArgument;
    *width = 16;
    return kSuccess;
  });
}

EMU_NVML nvmlDeviceGetNvLinkState(NvmlDevice handle, unsigned link, unsigned* active) {
  return of_device(handle, [&](const Settings& settings, size_t device) {
    if (active == nullptr || !has_link(settings, device, link)) return kInvalidArgument;
    *active = 1;
    return kSuccess;
  });
}

EMU_NVML nvmlDeviceGetNvLinkCapability(NvmlDevice handle, unsigned link, unsigned, unsigned* can) {
  return of_device(handle, [&](const Settings& settings, size_t device) {
    if (can == nullptr || !has_link(settings, device, link)) return kInvalidArgument;
    *can = 1;
    return kSuccess;
  });
}

EMU_NVML nvmlDeviceGetNvLinkRemotePciInfo_v2(NvmlDevice handle, unsigned link, NvmlPci* remote) {
  return of_device(handle, [&](const Settings& settings, size_t device) {
    if (remote == nullptr || !has_link(settings, device, link)) return kInvalidArgument;
    // Of some switch all bits are set.
    fill_pci(*remote, settings.nvswitch ? "ffffffff:ff:ff" : settings.pci[static_cast<size_t>(link_end(settings, device, link))]);
    return kSuccess;
  });
}

EMU_NVML nvmlDeviceGetNvLinkRemoteDeviceType(NvmlDevice handle, unsigned link, unsigned* type) {
  return of_device(handle, [&](const Settings& settings, size_t device) {
    if (type == nullptr || !has_link(settings, device, link)) return kInvalidArgument;
    *type = settings.nvswitch ? kEndSwitch : kEndGpu;
    return kSuccess;
  });
}

EMU_NVML nvmlDeviceGetFieldValues(NvmlDevice handle, int count, NvmlField* fields) {
  return of_device(handle, [&](const Settings&, size_t) {
    if (fields == nullptr || count < 1) return kInvalidArgument;
    for (int i = 0; i < count; ++i) fields[i].result = kNotSupported;
    return kSuccess;
  });
}

EMU_NVML nvmlDeviceGetGpuFabricInfoV(NvmlDevice handle, NvmlFabric*) {
  return of_device(handle, [&](const Settings&, size_t) { return kNotSupported; });
}

}  // namespace emu::driver
