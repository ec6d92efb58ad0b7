// Memory apart from addresses, and multicast objects.
#include <unistd.h>

#include <vector>

#include "emulator/emulated.h"

using namespace ronde::test;

namespace {

constexpr size_t kChunk = size_t{2} << 20;

CUmemAllocationProp on_device(int device) {
  CUmemAllocationProp wanted{};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  return wanted;
}

CUmemAccessDesc access_of(int device) { return {{CU_MEM_LOCATION_TYPE_DEVICE, device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}; }

}  // namespace

TEST_CASE("memory is created, mapped, opened to devices and ended", "[emulator][driver][vmm]") {
  const Emulated& cu = started();
  Primary zero(0);
  const CUmemAllocationProp wanted = on_device(0);
  size_t granularity = 0;
  CHECK_CU(cu.cuMemGetAllocationGranularity(&granularity, &wanted, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  REQUIRE(granularity == kChunk);
  size_t before = 0;
  size_t after = 0;
  size_t total = 0;
  CHECK_CU(cu.cuMemGetInfo_v2(&before, &total));
  CUmemGenericAllocationHandle handle = 0;
  CHECK(cu.cuMemCreate(&handle, 1000, &wanted, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK_CU(cu.cuMemCreate(&handle, kChunk, &wanted, 0));
  CHECK_CU(cu.cuMemGetInfo_v2(&after, &total));
  CHECK(before - after == kChunk);
  CUdeviceptr address = 0;
  CHECK_CU(cu.cuMemAddressReserve(&address, 2 * kChunk, 0, 0, 0));
  CHECK(address % kChunk == 0);
  CHECK_CU(cu.cuMemMap(address, kChunk, 0, handle, 0));
  CHECK(cu.cuMemMap(address, kChunk, 0, handle, 0) == CUDA_ERROR_INVALID_VALUE);
  // Mapped, but for no device yet.
  CHECK(cu.cuMemsetD32_v2(address, 1, 1) == CUDA_ERROR_INVALID_VALUE);
  const CUmemAccessDesc access = access_of(0);
  CHECK_CU(cu.cuMemSetAccess(address, kChunk, &access, 1));
  CHECK_CU(cu.cuMemsetD32_v2(address + kChunk - 4, 7, 1));
  CHECK(cu.cuMemsetD32_v2(address + kChunk - 4, 7, 2) == CUDA_ERROR_INVALID_VALUE);
  unsigned long long flags = 0;
  CHECK_CU(cu.cuMemGetAccess(&flags, &access.location, address));
  CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  const CUmemLocation other{CU_MEM_LOCATION_TYPE_DEVICE, 1};
  CHECK_CU(cu.cuMemGetAccess(&flags, &other, address));
  CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_NONE);
  CUmemGenericAllocationHandle again = 0;
  CHECK_CU(cu.cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(address + 100)));
  CUmemAllocationProp facts{};
  CHECK_CU(cu.cuMemGetAllocationPropertiesFromHandle(&facts, again));
  CHECK(facts.location.id == 0);
  CHECK_CU(cu.cuMemRelease(again));
  // The memory outlives its handle as long as it is mapped.
  CHECK_CU(cu.cuMemRelease(handle));
  CHECK(words_at(address + kChunk - 4, 1)[0] == 7);
  CHECK(cu.cuMemAddressFree(address, 2 * kChunk) == CUDA_ERROR_INVALID_VALUE);
  CHECK_CU(cu.cuMemUnmap(address, kChunk));
  CHECK_CU(cu.cuMemGetInfo_v2(&after, &total));
  CHECK(before == after);
  CHECK_CU(cu.cuMemAddressFree(address, 2 * kChunk));
  CHECK(cu.cuMemAddressFree(address, 2 * kChunk) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a descriptor stands for memory", "[emulator][driver][vmm]") {
  const Emulated& cu = started();
  Primary zero(0);
  CUmemAllocationProp wanted = on_device(1);
  CUmemGenericAllocationHandle handle = 0;
  CHECK_CU(cu.cuMemCreate(&handle, kChunk, &wanted, 0));
  int fd = -1;
  CHECK_CU(cu.cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  CUmemGenericAllocationHandle imported = 0;
  void* const number = reinterpret_cast<void*>(static_cast<intptr_t>(fd));
  CHECK_CU(cu.cuMemImportFromShareableHandle(&imported, number, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  close(fd);
  CUdeviceptr address = 0;
  CHECK_CU(cu.cuMemAddressReserve(&address, 2 * kChunk, kChunk, 0, 0));
  CHECK_CU(cu.cuMemMap(address, kChunk, 0, handle, 0));
  CHECK_CU(cu.cuMemMap(address + kChunk, kChunk, 0, imported, 0));
  const CUmemAccessDesc access = access_of(0);
  CHECK_CU(cu.cuMemSetAccess(address, 2 * kChunk, &access, 1));
  CHECK_CU(cu.cuMemsetD32_v2(address, 0x1234, 1));
  CHECK(words_at(address + kChunk, 1)[0] == 0x1234);
  // A range over both.
  CHECK_CU(cu.cuMemsetD8_v2(address + kChunk - 2, 0xff, 4));
  CHECK(words_at(address + kChunk, 1)[0] == 0xffff);
  int ordinal = -1;
  CHECK_CU(cu.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address + kChunk));
  CHECK(ordinal == 1);
  unsigned long long types = 0;
  CHECK_CU(cu.cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, address));
  CHECK(types == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  CHECK_CU(cu.cuMemUnmap(address, 2 * kChunk));
  CHECK_CU(cu.cuMemAddressFree(address, 2 * kChunk));
  CHECK_CU(cu.cuMemRelease(handle));
  CHECK_CU(cu.cuMemRelease(imported));
  CHECK(cu.cuMemRelease(imported) == CUDA_ERROR_INVALID_VALUE);
  void* const none = reinterpret_cast<void*>(static_cast<intptr_t>(0));
  CHECK(cu.cuMemImportFromShareableHandle(&imported, none, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == CUDA_ERROR_INVALID_VALUE);
  wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
  CHECK_CU(cu.cuMemCreate(&handle, kChunk, &wanted, 0));
  CHECK(cu.cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK_CU(cu.cuMemRelease(handle));
  wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
  CHECK(cu.cuMemCreate(&handle, kChunk, &wanted, 0) == CUDA_ERROR_NOT_SUPPORTED);
}

TEST_CASE("host memory with a handle is the host's and the devices'", "[emulator][driver][vmm]") {
  const Emulated& cu = started();
  Primary zero(0);
  CUmemAllocationProp wanted = on_device(0);
  wanted.location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0};
  CUmemGenericAllocationHandle handle = 0;
  CHECK_CU(cu.cuMemCreate(&handle, kChunk, &wanted, 0));
  CUdeviceptr address = 0;
  CHECK_CU(cu.cuMemAddressReserve(&address, kChunk, 0, 0, 0));
  CHECK_CU(cu.cuMemMap(address, kChunk, 0, handle, 0));
  const CUmemAccessDesc access[] = {access_of(0), {{CU_MEM_LOCATION_TYPE_HOST_NUMA, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
  CHECK_CU(cu.cuMemSetAccess(address, kChunk, access, 2));
  CHECK_CU(cu.cuMemsetD32_v2(address, 55, 1));
  CHECK(*reinterpret_cast<volatile uint32_t*>(address) == 55);
  CHECK_CU(cu.cuMemUnmap(address, kChunk));
  CHECK_CU(cu.cuMemAddressFree(address, kChunk));
  CHECK_CU(cu.cuMemRelease(handle));
}

TEST_CASE("a multicast object takes memory of each of its devices", "[emulator][driver][vmm]") {
  const Emulated& cu = started();
  CUmulticastObjectProp wanted{};
  wanted.numDevices = 2;
  wanted.size = kChunk;
  wanted.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  size_t granularity = 0;
  CHECK_CU(cu.cuMulticastGetGranularity(&granularity, &wanted, CU_MULTICAST_GRANULARITY_MINIMUM));
  CHECK(granularity == kChunk);
  CUmemGenericAllocationHandle object = 0;
  REQUIRE_CU(cu.cuMulticastCreate(&object, &wanted));
  CUmemGenericAllocationHandle memory[2] = {};
  CHECK_CU(cu.cuMulticastAddDevice(object, 0));
  CHECK(cu.cuMulticastAddDevice(object, 0) == CUDA_ERROR_INVALID_VALUE);
  for (int device = 0; device < 2; ++device) {
    const CUmemAllocationProp property = on_device(device);
    CHECK_CU(cu.cuMemCreate(&memory[device], kChunk, &property, 0));
  }
  CHECK(cu.cuMulticastBindMem(object, 0, memory[0], 0, kChunk, 0) == CUDA_ERROR_ILLEGAL_STATE);
  CHECK(cu.cuMulticastBindMem(object, 0, memory[1], 0, kChunk, 0) == CUDA_ERROR_INVALID_DEVICE);
  CHECK_CU(cu.cuMulticastAddDevice(object, 1));
  CHECK(cu.cuMulticastAddDevice(object, 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK_CU(cu.cuMulticastBindMem(object, 0, memory[0], 0, kChunk, 0));
  CHECK_CU(cu.cuMulticastBindMem(object, 0, memory[1], 0, kChunk, 0));
  CHECK(cu.cuMulticastBindMem(object, kChunk, memory[1], 0, kChunk, 0) == CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr address = 0;
  CHECK_CU(cu.cuMemAddressReserve(&address, kChunk, 0, 0, 0));
  CHECK_CU(cu.cuMemMap(address, kChunk, 0, object, 0));
  const CUmemAccessDesc access[] = {access_of(0), access_of(1)};
  CHECK_CU(cu.cuMemSetAccess(address, kChunk, access, 2));
  // No copy goes there: only multimem instructions do.
  Primary zero(0);
  CHECK(cu.cuMemsetD32_v2(address, 1, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK_CU(cu.cuMemUnmap(address, kChunk));
  CHECK_CU(cu.cuMemAddressFree(address, kChunk));
  for (int device = 0; device < 2; ++device) {
    CHECK_CU(cu.cuMulticastUnbind(object, device, 0, kChunk));
    CHECK_CU(cu.cuMemRelease(memory[device]));
  }
  CHECK_CU(cu.cuMemRelease(object));
}
