#include "device/shared.h"

#include <fmt/core.h>

namespace ronde::device {
namespace {

cu::CUmemAllocationProp properties(const Gpu& gpu) {
  cu::CUmemAllocationProp properties{};
  properties.type = cu::CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = cu::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location = {cu::CU_MEM_LOCATION_TYPE_DEVICE, gpu.device()};
  return properties;
}

}  // namespace

bool ShareableMemory::possible(const Gpu& gpu) {
  const Driver& driver = gpu.driver();
  for (const auto attribute : {cu::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, cu::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED}) {
    int value = 0;
    if (driver.cuDeviceGetAttribute(&value, attribute, gpu.device()) != cu::CUDA_SUCCESS || value == 0) return false;
  }
  return true;
}

ShareableMemory::~ShareableMemory() {
  if (gpu_ == nullptr) return;
  const Current current(*gpu_);
  const Driver& driver = gpu_->driver();
  if (mapped_) driver.cuMemUnmap(address_, bytes_);
  if (address_ != 0) driver.cuMemAddressFree(address_, bytes_);
  if (handle_ != 0) driver.cuMemRelease(handle_);
}

/// Addresses for handle_, and access to them for its GPU's kernels.
Result<> ShareableMemory::map() {
  const Driver& driver = gpu_->driver();
  const auto what = [&] { return fmt::format("mapping {} bytes for {}", bytes_, gpu_->name()); };
  cu::CUdeviceptr address = 0;
  RONDE_TRY(check(driver.cuMemAddressReserve(&address, bytes_, 0, 0, 0), what));
  address_ = address;
  RONDE_TRY(check(driver.cuMemMap(address_, bytes_, 0, handle_, 0), what));
  mapped_ = true;
  return grant(*gpu_);
}

Result<ShareableMemory> ShareableMemory::make(std::shared_ptr<const Gpu> gpu, size_t bytes) {
  const Current current(*gpu);
  const cu::CUmemAllocationProp wanted = properties(*gpu);
  const auto what = [&] { return fmt::format("allocating {} bytes on {}", bytes, gpu->name()); };
  size_t unit = 0;
  RONDE_TRY(check(gpu->driver().cuMemGetAllocationGranularity(&unit, &wanted, cu::CU_MEM_ALLOC_GRANULARITY_MINIMUM), what));
  ShareableMemory memory;
  memory.gpu_ = gpu;
  memory.bytes_ = (bytes + unit - 1) / unit * unit;
  RONDE_TRY(check(gpu->driver().cuMemCreate(&memory.handle_, memory.bytes_, &wanted, 0), what));
  RONDE_TRY(memory.map());
  return memory;
}

Result<ShareableMemory> ShareableMemory::open(std::shared_ptr<const Gpu> gpu, int descriptor, size_t bytes) {
  const Current current(*gpu);
  ShareableMemory memory;
  memory.gpu_ = gpu;
  memory.bytes_ = bytes;
  void* const told = reinterpret_cast<void*>(static_cast<intptr_t>(descriptor));
  RONDE_TRY(check(gpu->driver().cuMemImportFromShareableHandle(&memory.handle_, told, cu::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), [&] {
    return fmt::format("taking {} bytes of another process for {}", bytes, gpu->name());
  }));
  RONDE_TRY(memory.map());
  return memory;
}

Result<> ShareableMemory::grant(const Gpu& peer) const {
  const Current current(*gpu_);
  const cu::CUmemAccessDesc access{{cu::CU_MEM_LOCATION_TYPE_DEVICE, peer.device()}, cu::CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  return check(gpu_->driver().cuMemSetAccess(address_, bytes_, &access, 1), [&] { return fmt::format("giving {} access to memory", peer.name()); });
}

Result<UniqueFd> ShareableMemory::descriptor() const {
  const Current current(*gpu_);
  int fd = -1;
  RONDE_TRY(check(gpu_->driver().cuMemExportToShareableHandle(&fd, handle_, cu::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                  [&] { return fmt::format("making a descriptor of memory of {}", gpu_->name()); }));
  return UniqueFd(fd);
}

RegisteredMemory::~RegisteredMemory() {
  if (at_ == nullptr) return;
  const Current current(*gpu_);
  gpu_->driver().cuMemHostUnregister(at_);
}

Result<RegisteredMemory> RegisteredMemory::make(std::shared_ptr<const Gpu> gpu, std::byte* at, size_t bytes) {
  const Current current(*gpu);
  RONDE_TRY(check(gpu->driver().cuMemHostRegister_v2(at, bytes, cu::CU_MEMHOSTREGISTER_PORTABLE | cu::CU_MEMHOSTREGISTER_DEVICEMAP),
                  [&] { return fmt::format("registering {} bytes of host memory with {}", bytes, gpu->name()); }));
  RegisteredMemory memory;
  memory.gpu_ = std::move(gpu);
  memory.at_ = at;
  return memory;
}

Result<uint64_t> address_of_registered(const Gpu& gpu, std::byte* at) {
  const Current current(gpu);
  cu::CUdeviceptr address = 0;
  RONDE_TRY(check(gpu.driver().cuMemHostGetDevicePointer_v2(&address, at, 0), [&] { return fmt::format("asking for {}'s address of host memory", gpu.name()); }));
  return uint64_t{address};
}

}  // namespace ronde::device
