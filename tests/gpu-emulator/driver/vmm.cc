#include "gpu-emulator/driver/vmm.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "gpu-emulator/driver/multicast.h"

namespace emu::driver {
namespace {

struct MappedChunk {
  std::shared_ptr<Chunk> chunk;
  size_t bytes = 0;
};

std::mutex mapped_mutex;
std::map<uint64_t, MappedChunk>& mapped() {
  static auto* all = new std::map<uint64_t, MappedChunk>;
  return *all;
}

template <class Body>
CUresult with_vmm(Body body) {
  return call([&](Driver& driver) { return driver.settings().vmm ? body(driver) : CUDA_ERROR_NOT_SUPPORTED; });
}

bool whole(uint64_t value) { return value % kGranularity == 0; }

bool is_host(CUmemLocationType type) {
  return type == CU_MEM_LOCATION_TYPE_HOST || type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
         type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

/// The machine's number of a location; kHost of the host's.
CUresult index_of(const Driver& driver, const CUmemLocation& location, int& index) {
  index = is_host(location.type) ? kHost : driver.index_of(location.id);
  if (is_host(location.type)) return CUDA_SUCCESS;
  if (location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  return index < 0 ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

CUresult check(const Driver& driver, const CUmemAllocationProp& wanted, int& index) {
  if (wanted.type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  if ((wanted.requestedHandleTypes & ~static_cast<unsigned>(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) != 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  return index_of(driver, wanted.location, index);
}

/// What is written into the name of a chunk's memfd, for processes that import it.
std::string name_of(int device, bool multicast) { return fmt::format("emulated-gpu-vmm:{}:{}", device, multicast ? 1 : 0); }

CUresult import(Driver& driver, int fd, CUmemGenericAllocationHandle& handle) {
  char link[128] = {};
  struct stat facts {};
  int device = 0;
  int multicast = 0;
  if (readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), link, sizeof link - 1) < 0 || fstat(fd, &facts) != 0 ||
      std::sscanf(link, "/memfd:emulated-gpu-vmm:%d:%d", &device, &multicast) != 2 || device >= driver.settings().devices)
    return CUDA_ERROR_INVALID_VALUE;
  auto chunk = std::make_shared<Chunk>();
  chunk->fd.reset(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!chunk->fd) return CUDA_ERROR_OPERATING_SYSTEM;
  chunk->bytes = static_cast<size_t>(facts.st_size);
  chunk->device = device;
  chunk->location = {device == kHost ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE,
                     device == kHost ? 0 : driver.ordinal_of(device)};
  chunk->handle_types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  if (multicast != 0) {
    if (const CUresult result = open_multicast(driver, *chunk); result != CUDA_SUCCESS) return result;
  }
  handle = driver.chunks.put(std::move(chunk));
  return CUDA_SUCCESS;
}

CUresult set_access(Driver& driver, CUdeviceptr address, size_t bytes, const CUmemAccessDesc& wanted) {
  int index = kHost;
  if (const CUresult result = index_of(driver, wanted.location, index); result != CUDA_SUCCESS) return result;
  const auto chunk = mapped_chunk(address);
  if (chunk == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (index == kHost && chunk->device != kHost) return CUDA_ERROR_NOT_SUPPORTED;
  const bool reachable = index == kHost || chunk->device == kHost || chunk->device == index ||
                         (driver.settings().peers[static_cast<size_t>(chunk->device)] >> index & 1) != 0;
  if (!reachable) return CUDA_ERROR_INVALID_DEVICE;
  const bool allowed = wanted.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return driver.memory().set_access(address, bytes, index, allowed) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

Chunk::~Chunk() {
  if (counted) Driver::get()->memory().count(device, -static_cast<int64_t>(bytes));
}

std::shared_ptr<Chunk> mapped_chunk(uint64_t address) {
  std::lock_guard lock(mapped_mutex);
  auto it = mapped().upper_bound(address);
  if (it == mapped().begin()) return nullptr;
  --it;
  return address - it->first < it->second.bytes ? it->second.chunk : nullptr;
}

extern "C" {

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* wanted, CUmemAllocationGranularity_flags) {
  return with_vmm([&](Driver& driver) {
    int index = kHost;
    if (granularity == nullptr || wanted == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *granularity = kGranularity;
    return check(driver, *wanted, index);
  });
}

CUresult cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t alignment, CUdeviceptr hint, unsigned long long flags) {
  return with_vmm([&](Driver& driver) {
    if (address == nullptr || bytes == 0 || !whole(bytes) || flags != 0 || (alignment & (alignment - 1)) != 0)
      return CUDA_ERROR_INVALID_VALUE;
    const auto made = driver.memory().reserve(bytes, std::max(alignment, kGranularity), hint);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    *address = *made;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  return with_vmm(
      [&](Driver& driver) { return driver.memory().unreserve(address, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; });
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* wanted,
                     unsigned long long flags) {
  return with_vmm([&](Driver& driver) {
    int index = kHost;
    if (handle == nullptr || wanted == nullptr || bytes == 0 || !whole(bytes) || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult result = check(driver, *wanted, index); result != CUDA_SUCCESS) return result;
    auto chunk = std::make_shared<Chunk>();
    chunk->bytes = bytes;
    chunk->device = index;
    chunk->location = wanted->location;
    chunk->handle_types = wanted->requestedHandleTypes;
    if (index != kHost && !driver.memory().count(index, static_cast<int64_t>(bytes))) return CUDA_ERROR_OUT_OF_MEMORY;
    chunk->counted = index != kHost;
    auto fd = ronde::make_memfd(name_of(index, false).c_str(), bytes);
    if (!fd) return CUDA_ERROR_OUT_OF_MEMORY;
    chunk->fd = std::move(*fd);
    *handle = driver.chunks.put(std::move(chunk));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return with_vmm(
      [&](Driver& driver) { return driver.chunks.drop(handle) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; });
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  return with_vmm([&](Driver& driver) {
    const auto chunk = driver.chunks.get(handle);
    if (chunk == nullptr || bytes == 0 || !whole(address) || !whole(bytes) || offset != 0 || flags != 0 || bytes > chunk->bytes)
      return CUDA_ERROR_INVALID_VALUE;
    const auto done = chunk->multicast != nullptr ? map_multicast(driver, *chunk, address, bytes)
                                                  : driver.memory().map(address, bytes, chunk->fd.get(), offset, chunk->device);
    if (!done) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(mapped_mutex);
    mapped()[address] = {chunk, bytes};
    return CUDA_SUCCESS;
  });
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  return with_vmm([&](Driver& driver) {
    if (!driver.memory().unmap(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
    std::vector<std::shared_ptr<Chunk>> ended;
    std::lock_guard lock(mapped_mutex);
    for (auto it = mapped().lower_bound(address); it != mapped().end() && it->first < address + bytes; it = mapped().erase(it))
      ended.push_back(std::move(it->second.chunk));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* wanted, size_t count) {
  return with_vmm([&](Driver& driver) {
    if (wanted == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i) {
      if (const CUresult result = set_access(driver, address, bytes, wanted[i]); result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr address) {
  return with_vmm([&](Driver& driver) {
    int index = kHost;
    if (flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult result = index_of(driver, *location, index); result != CUDA_SUCCESS) return result;
    const auto memory = driver.memory().at(address);
    if (!memory || index == kHost) return CUDA_ERROR_INVALID_VALUE;
    *flags = (memory->peers >> index & 1) != 0 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                                      unsigned long long flags) {
  return with_vmm([&](Driver& driver) {
    const auto chunk = driver.chunks.get(handle);
    if (out == nullptr || chunk == nullptr || flags != 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        (chunk->handle_types & type) == 0)
      return CUDA_ERROR_INVALID_VALUE;
    const int fd = fcntl(chunk->fd.get(), F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
    *static_cast<int*>(out) = fd;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* from, CUmemAllocationHandleType type) {
  return with_vmm([&](Driver& driver) {
    if (handle == nullptr || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_INVALID_VALUE;
    return import(driver, static_cast<int>(reinterpret_cast<intptr_t>(from)), *handle);
  });
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  return with_vmm([&](Driver& driver) {
    auto chunk = mapped_chunk(reinterpret_cast<uint64_t>(address));
    if (handle == nullptr || chunk == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *handle = driver.chunks.put(std::move(chunk));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* out, CUmemGenericAllocationHandle handle) {
  return with_vmm([&](Driver& driver) {
    const auto chunk = driver.chunks.get(handle);
    if (out == nullptr || chunk == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = {};
    out->type = CU_MEM_ALLOCATION_TYPE_PINNED;
    out->requestedHandleTypes = static_cast<CUmemAllocationHandleType>(chunk->handle_types);
    out->location = chunk->location;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemGetHandleForAddressRange(void*, CUdeviceptr, size_t, CUmemRangeHandleType, unsigned long long) {
  // There is no device that could take a DMA buffer.
  return call([](Driver&) { return CUDA_ERROR_NOT_SUPPORTED; });
}

}  // extern "C"

}  // namespace emu::driver
