#include "api/device.h"

#include <fmt/core.h>

#include "api/border.h"
#include "api/export.h"
#include "base/config.h"
#include "comm/communicator.h"
#include "comm/handles.h"
#include "device/gpu.h"
#include "kernels/cuda/kernels.h"
#include "ronde.h"

using ronde::border;
using ronde::Code;
using ronde::fail;
using ronde::require_pointer;
using ronde::Result;

namespace {

thread_local rondeDevice_t chosen = rondeDeviceAuto;

/// Whether ranks can be on GPUs here.
Result<> usable_gpu() {
  RONDE_TRY(ronde::device::driver());
  if (!ronde::gpu::images().empty()) return {};
  return fail(Code::system_error, "this build of ronde has no kernels for GPUs: it was made without nvcc");
}

Result<> need_gpu(std::string_view asked_by) {
  const Result<> usable = usable_gpu();
  if (usable.ok()) return {};
  return fail(Code::invalid_usage, fmt::format("{} asks for a GPU, and none can be used: {}; use cpu or auto", asked_by, usable.error().what));
}

}  // namespace

Result<std::optional<int>> ronde::gpu_of_next_rank() {
  const std::string word = current_config()->text(Setting::device);  // a copy: the Config is held by nobody
  const bool open = chosen == rondeDeviceAuto;
  if (chosen == rondeDeviceCpu || (open && word == "cpu")) return std::optional<int>();
  if (open && word == "cuda") RONDE_TRY(need_gpu("RONDE_DEVICE"));
  if (open && word == "auto" && !usable_gpu().ok()) return std::optional<int>();
  RONDE_TRY(const int gpu, device::Gpu::current());
  return std::optional<int>(gpu);
}

RONDE_EXTENSION(ncclResult_t, rondeSetDevice, (rondeDevice_t device)) {
  return border("rondeSetDevice", [&]() -> Result<> {
    if (device != rondeDeviceAuto && device != rondeDeviceCpu && device != rondeDeviceCuda) {
      return fail(Code::invalid_argument, fmt::format("device {} is unknown; 0 (auto), 1 (CPU) and 2 (CUDA) exist", static_cast<int>(device)));
    }
    if (device == rondeDeviceCuda) RONDE_TRY(need_gpu("rondeSetDevice"));
    chosen = device;
    return {};
  });
}

RONDE_EXTENSION(ncclResult_t, rondeGetDevice, (rondeDevice_t * device)) {
  return border("rondeGetDevice", [&]() -> Result<> {
    RONDE_TRY(require_pointer(device, "device"));
    RONDE_TRY(const std::optional<int> gpu, ronde::gpu_of_next_rank());
    *device = gpu.has_value() ? rondeDeviceCuda : rondeDeviceCpu;
    return {};
  });
}

RONDE_EXTENSION(ncclResult_t, rondeCommGetDevice, (ncclComm_t comm, rondeDevice_t* device)) {
  return border("rondeCommGetDevice", [&]() -> Result<> {
    RONDE_TRY(require_pointer(device, "device"));
    RONDE_TRY(const auto one, ronde::find_handle(reinterpret_cast<uintptr_t>(comm)));
    *device = one->options().gpu.has_value() ? rondeDeviceCuda : rondeDeviceCpu;
    return {};
  });
}
