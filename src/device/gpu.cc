#include "device/gpu.h"

#include <fmt/core.h>

#include <cstring>
#include <map>
#include <mutex>

#include "base/words.h"

namespace ronde::device {

using cu::CUresult;

DeviceMemory::~DeviceMemory() {
  if (address_ == 0) return;
  const Current current(*gpu_);
  gpu_->driver().cuMemFree_v2(address_);
}

PinnedMemory::~PinnedMemory() {
  if (host_ == nullptr) return;
  const Current current(*gpu_);
  gpu_->driver().cuMemFreeHost(host_);
}

Event::~Event() {
  if (event_ == nullptr) return;
  const Current current(*gpu_);
  gpu_->driver().cuEventDestroy_v2(event_);
}

Result<> Event::record(cu::CUstream stream) {
  const Current current(*gpu_);
  return check(gpu_->driver().cuEventRecord(event_, stream), [&] { return fmt::format("cuEventRecord on {}", gpu_->name()); });
}

Result<bool> Event::passed() const {
  const Current current(*gpu_);
  const CUresult code = gpu_->driver().cuEventQuery(event_);
  if (code == cu::CUDA_SUCCESS) return true;
  if (code == cu::CUDA_ERROR_NOT_READY) return false;
  return driver_error(code, fmt::format("a kernel on {}", gpu_->name()));
}

Result<std::shared_ptr<const Gpu>> Gpu::open(int ordinal) {
  static std::mutex mutex;
  static auto& open_now = *new std::map<int, std::weak_ptr<const Gpu>>();  // never destroyed, as the driver's table
  RONDE_TRY(const Driver* driver, device::driver());
  const std::lock_guard lock(mutex);
  if (std::shared_ptr<const Gpu> there = open_now[ordinal].lock()) return there;
  int count = 0;
  RONDE_TRY(check(driver->cuDeviceGetCount(&count), [] { return "counting GPUs"; }));
  if (ordinal < 0 || ordinal >= count) return fail(Code::invalid_argument, fmt::format("there is no GPU {}; the driver has {}", ordinal, count));
  std::shared_ptr<Gpu> gpu(new Gpu());
  gpu->driver_ = driver;
  gpu->ordinal_ = ordinal;
  const auto asking = [&] { return fmt::format("asking GPU {} for what it is", ordinal); };
  RONDE_TRY(check(driver->cuDeviceGet(&gpu->device_, ordinal), asking));
  char name[128] = "", bus[32] = "";
  int major = 0, minor = 0;
  RONDE_TRY(check(driver->cuDeviceGetName(name, sizeof name, gpu->device_), asking));
  RONDE_TRY(check(driver->cuDeviceGetPCIBusId(bus, sizeof bus, gpu->device_), asking));
  RONDE_TRY(check(driver->cuDeviceGetAttribute(&major, cu::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, gpu->device_), asking));
  RONDE_TRY(check(driver->cuDeviceGetAttribute(&minor, cu::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, gpu->device_), asking));
  RONDE_TRY(check(driver->cuDeviceGetAttribute(&gpu->multiprocessors_, cu::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, gpu->device_), asking));
  gpu->capability_ = major * 10 + minor;
  gpu->bus_id_ = bus;
  gpu->name_ = fmt::format("GPU {} ({}, {})", ordinal, printable(name), printable(bus));
  RONDE_TRY(check(driver->cuDevicePrimaryCtxRetain(&gpu->context_, gpu->device_), [&] { return fmt::format("taking the primary context of {}", gpu->name_); }));
  const Current current(*gpu);
  RONDE_TRY(check(driver->cuStreamCreate(&gpu->stream_, cu::CU_STREAM_NON_BLOCKING), [&] { return fmt::format("making a stream on {}", gpu->name_); }));
  open_now[ordinal] = gpu;
  return std::shared_ptr<const Gpu>(std::move(gpu));
}

Result<int> Gpu::current() {
  RONDE_TRY(const Driver* driver, device::driver());
  cu::CUdevice device = 0;
  if (driver->cuCtxGetDevice(&device) != cu::CUDA_SUCCESS) return 0;
  int count = 0;
  driver->cuDeviceGetCount(&count);
  for (int i = 0; i < count; ++i) {
    cu::CUdevice one = 0;
    if (driver->cuDeviceGet(&one, i) == cu::CUDA_SUCCESS && one == device) return i;
  }
  return 0;
}

Gpu::~Gpu() {
  if (stream_ != nullptr) {
    const Current current(*this);
    driver_->cuStreamDestroy_v2(stream_);
  }
  if (context_ != nullptr) driver_->cuDevicePrimaryCtxRelease_v2(device_);
}

Result<DeviceMemory> Gpu::allocate(size_t bytes) const {
  const Current current(*this);
  cu::CUdeviceptr address = 0;
  RONDE_TRY(check(driver_->cuMemAlloc_v2(&address, bytes), [&] { return fmt::format("allocating {} bytes on {}", bytes, name_); }));
  return DeviceMemory(shared_from_this(), address, bytes);
}

Result<PinnedMemory> Gpu::allocate_pinned(size_t bytes) const {
  const Current current(*this);
  void* host = nullptr;
  const auto what = [&] { return fmt::format("allocating {} bytes of pinned memory for {}", bytes, name_); };
  RONDE_TRY(check(driver_->cuMemHostAlloc(&host, bytes, cu::CU_MEMHOSTALLOC_PORTABLE | cu::CU_MEMHOSTALLOC_DEVICEMAP), what));
  memset(host, 0, bytes);
  cu::CUdeviceptr address = 0;
  const CUresult code = driver_->cuMemHostGetDevicePointer_v2(&address, host, 0);
  PinnedMemory memory(shared_from_this(), host, address);
  RONDE_TRY(check(code, what));
  return memory;
}

Result<Event> Gpu::make_event() const {
  const Current current(*this);
  cu::CUevent event = nullptr;
  RONDE_TRY(check(driver_->cuEventCreate(&event, cu::CU_EVENT_DISABLE_TIMING), [&] { return fmt::format("cuEventCreate on {}", name_); }));
  return Event(shared_from_this(), event);
}

Result<> Gpu::copy_in(uint64_t to, std::span<const std::byte> from) const {
  const Current current(*this);
  const auto what = [&] { return fmt::format("copying {} bytes to {}", from.size(), name_); };
  RONDE_TRY(check(driver_->cuMemcpyHtoDAsync_v2(to, from.data(), from.size(), stream_), what));
  return check(driver_->cuStreamSynchronize(stream_), what);
}

Result<> Gpu::copy_out(std::span<std::byte> to, uint64_t from) const {
  const Current current(*this);
  const auto what = [&] { return fmt::format("copying {} bytes from {}", to.size(), name_); };
  RONDE_TRY(check(driver_->cuMemcpyDtoHAsync_v2(to.data(), from, to.size(), stream_), what));
  return check(driver_->cuStreamSynchronize(stream_), what);
}

Result<> Gpu::clear(uint64_t at, size_t bytes) const {
  const Current current(*this);
  const auto what = [&] { return fmt::format("clearing {} bytes on {}", bytes, name_); };
  RONDE_TRY(check(driver_->cuMemsetD8Async(at, 0, bytes, stream_), what));
  return check(driver_->cuStreamSynchronize(stream_), what);
}

Result<> Gpu::copy(uint64_t to, uint64_t from, size_t bytes) const {
  const Current current(*this);
  const auto what = [&] { return fmt::format("copying {} bytes on {}", bytes, name_); };
  RONDE_TRY(check(driver_->cuMemcpyDtoDAsync_v2(to, from, bytes, stream_), what));
  return check(driver_->cuStreamSynchronize(stream_), what);
}

Result<bool> Gpu::reach(const Gpu& peer) const {
  if (&peer == this) return true;
  int can = 0;
  RONDE_TRY(check(driver_->cuDeviceCanAccessPeer(&can, device_, peer.device_), [&] { return fmt::format("asking whether {} reaches {}", name_, peer.name_); }));
  if (can == 0) return false;
  const Current current(*this);
  const CUresult code = driver_->cuCtxEnablePeerAccess(peer.context_, 0);
  if (code == cu::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) return true;
  RONDE_TRY(check(code, [&] { return fmt::format("giving {} access to {}", name_, peer.name_); }));
  return true;
}

}  // namespace ronde::device
