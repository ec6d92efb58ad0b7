// Memory of devices, page-locked memory of the host, and what can be asked about an address.
#include <cstring>

#include "gpu-emulator/driver/driver.h"
#include "gpu-emulator/driver/vmm.h"

namespace emu::driver {
namespace {

std::byte* bytes_at(void* at) { return static_cast<std::byte*>(at); }
uint64_t address_at(const void* at) { return reinterpret_cast<uint64_t>(at); }

/// Flags of page-locked memory, by its start.
std::mutex flags_mutex;
std::map<uint64_t, unsigned>& host_flags() {
  static auto* flags = new std::map<uint64_t, unsigned>;
  return *flags;
}

void keep_flags(const void* at, unsigned flags) {
  std::lock_guard lock(flags_mutex);
  host_flags()[address_at(at)] = flags;
}

/// Does `body` in a context where no capture forbids it.
template <class Body>
CUresult outside_captures(Body body) {
  return in_context([&](Driver& driver, const std::shared_ptr<Context>& context) {
    const CUresult result = driver.refuse_in_capture();
    return result != CUDA_SUCCESS ? result : body(driver, context);
  });
}

template <class T>
CUresult put(void* out, T value) {
  std::memcpy(out, &value, sizeof value);
  return CUDA_SUCCESS;
}

CUresult get_attribute(Driver& driver, const Allocation& memory, CUdeviceptr address, CUpointer_attribute attribute, void* out) {
  const bool host = memory.device == kHost;
  const std::shared_ptr<Chunk> chunk = mapped_chunk(address);
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: {
      std::lock_guard lock(driver.mutex);
      const auto primary = host ? nullptr : driver.devices[static_cast<size_t>(memory.device)].primary;
      return put<CUcontext>(out, primary == nullptr ? nullptr : primary->handle);
    }
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return put<unsigned>(out, host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return put<CUdeviceptr>(out, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return host ? put<uint64_t>(out, address) : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return put<unsigned long long>(out, memory.id);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return put<int>(out, host ? 0 : driver.ordinal_of(memory.device));
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return put<bool>(out, driver.settings().ipc && driver.memory().share(address).ok());
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return put<CUdeviceptr>(out, memory.address);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return put<size_t>(out, memory.bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return put<bool>(out, true);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return put<unsigned long long>(out, chunk == nullptr ? 0 : chunk->handle_types);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return put<unsigned>(out, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return put<void*>(out, nullptr);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      return put<bool>(out, false);
  }
  return CUDA_ERROR_INVALID_VALUE;
}

size_t attribute_bytes(CUpointer_attribute attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return 4;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      return 1;
    default:
      return 8;
  }
}

}  // namespace

extern "C" {

CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  return outside_captures([&](Driver& driver, const std::shared_ptr<Context>& context) {
    if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    const auto made = driver.memory().allocate(context->device, bytes);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    *address = *made;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  return outside_captures([&](Driver& driver, const std::shared_ptr<Context>& context) {
    if (address == 0) return CUDA_SUCCESS;
    // As the driver does it: what runs may still use the memory.
    context->synchronize();
    return driver.memory().release(address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned flags) {
  return outside_captures([&](Driver& driver, const std::shared_ptr<Context>&) {
    constexpr unsigned known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
    if (out == nullptr || bytes == 0 || (flags & ~known) != 0) return CUDA_ERROR_INVALID_VALUE;
    const auto made = driver.memory().allocate_host(bytes);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    *out = *made;
    keep_flags(*out, flags | CU_MEMHOSTALLOC_DEVICEMAP);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAllocHost_v2(void** out, size_t bytes) { return cuMemHostAlloc(out, bytes, 0); }

CUresult cuMemFreeHost(void* at) {
  return outside_captures([&](Driver& driver, const std::shared_ptr<Context>& context) {
    context->synchronize();
    return driver.memory().release_host(bytes_at(at)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuMemHostRegister_v2(void* at, size_t bytes, unsigned flags) {
  return outside_captures([&](Driver& driver, const std::shared_ptr<Context>&) {
    constexpr unsigned known =
        CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
    if (at == nullptr || bytes == 0 || (flags & ~known) != 0) return CUDA_ERROR_INVALID_VALUE;
    if ((flags & (CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY)) != 0) return CUDA_ERROR_NOT_SUPPORTED;
    if (driver.memory().is_device_address(address_at(at))) return CUDA_ERROR_INVALID_VALUE;
    if (!driver.memory().enroll_host(bytes_at(at), bytes)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    keep_flags(at, flags | CU_MEMHOSTREGISTER_DEVICEMAP);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemHostUnregister(void* at) {
  return outside_captures([&](Driver& driver, const std::shared_ptr<Context>& context) {
    context->synchronize();
    return driver.memory().withdraw_host(bytes_at(at)) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  });
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* address, void* at, unsigned flags) {
  return in_context([&](Driver& driver, const std::shared_ptr<Context>&) {
    const auto memory = driver.memory().at(address_at(at));
    if (address == nullptr || flags != 0 || !memory || memory->device != kHost) return CUDA_ERROR_INVALID_VALUE;
    *address = address_at(at);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemHostGetFlags(unsigned* flags, void* at) {
  return in_context([&](Driver& driver, const std::shared_ptr<Context>&) {
    const auto memory = driver.memory().at(address_at(at));
    if (flags == nullptr || !memory || memory->device != kHost) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(flags_mutex);
    *flags = host_flags()[memory->address];
    return CUDA_SUCCESS;
  });
}

CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  return in_context([&](Driver& driver, const std::shared_ptr<Context>& context) {
    if (free == nullptr || total == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *total = driver.memory().capacity();
    *free = *total - driver.memory().used(context->device);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  return in_context([&](Driver& driver, const std::shared_ptr<Context>&) {
    const auto memory = driver.memory().at(address);
    if (!memory) return CUDA_ERROR_NOT_FOUND;
    if (base != nullptr) *base = memory->address;
    if (bytes != nullptr) *bytes = memory->bytes;
    return CUDA_SUCCESS;
  });
}

CUresult cuPointerGetAttribute(void* out, CUpointer_attribute attribute, CUdeviceptr address) {
  return call([&](Driver& driver) {
    const auto memory = driver.memory().at(address);
    if (out == nullptr || !memory) return CUDA_ERROR_INVALID_VALUE;
    return get_attribute(driver, *memory, address, attribute, out);
  });
}

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** out, CUdeviceptr address) {
  return call([&](Driver& driver) {
    if (attributes == nullptr || out == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
    const auto memory = driver.memory().at(address);
    for (unsigned i = 0; i < count; ++i) {
      // What is not known of the address is zero, and no error.
      std::memset(out[i], 0, attribute_bytes(attributes[i]));
      if (memory) get_attribute(driver, *memory, address, attributes[i], out[i]);
    }
    return CUDA_SUCCESS;
  });
}

}  // extern "C"

}  // namespace emu::driver
