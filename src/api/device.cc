#include "api/device.h"

#include <fmt/core.h>

#include "api/border.h"
#include "api/export.h"
#include "base/config.h"
#include "comm/handles.h"
#include "ronde.h"

using ronde::border;
using ronde::Code;
using ronde::fail;
using ronde::require_pointer;
using ronde::Result;

namespace {

thread_local rondeDevice_t chosen = rondeDeviceAuto;

/// This version has CPU ranks only.
Result<> need_cpu(std::string_view asked_by) {
  return fail(Code::invalid_usage, fmt::format("{} asks for a GPU, and this version of ronde runs ranks on the CPU only; use cpu or auto", asked_by));
}

}  // namespace

Result<> ronde::check_device() {
  if (chosen != rondeDeviceAuto || current_config()->text(Setting::device) != "cuda") return {};
  return need_cpu("RONDE_DEVICE");
}

RONDE_EXTENSION(ncclResult_t, rondeSetDevice, (rondeDevice_t device)) {
  return border("rondeSetDevice", [&]() -> Result<> {
    if (device == rondeDeviceCuda) return need_cpu("rondeSetDevice");
    if (device != rondeDeviceAuto && device != rondeDeviceCpu) {
      return fail(Code::invalid_argument, fmt::format("device {} is unknown; 0 (auto), 1 (CPU) and 2 (CUDA) exist", static_cast<int>(device)));
    }
    chosen = device;
    return {};
  });
}

RONDE_EXTENSION(ncclResult_t, rondeGetDevice, (rondeDevice_t * device)) {
  return border("rondeGetDevice", [&]() -> Result<> {
    RONDE_TRY(require_pointer(device, "device"));
    RONDE_TRY(ronde::check_device());
    *device = rondeDeviceCpu;
    return {};
  });
}

RONDE_EXTENSION(ncclResult_t, rondeCommGetDevice, (ncclComm_t comm, rondeDevice_t* device)) {
  return border("rondeCommGetDevice", [&]() -> Result<> {
    RONDE_TRY(require_pointer(device, "device"));
    RONDE_TRY(ronde::find_handle(reinterpret_cast<uintptr_t>(comm)));
    *device = rondeDeviceCpu;
    return {};
  });
}
