// Memory, copies, fills, what is known of an address.
#include <cstring>
#include <vector>

#include "emulator/emulated.h"

using namespace ronde::test;

TEST_CASE("device memory is taken, counted and given back", "[emulator][driver]") {
  const Emulated& cu = started();
  Primary zero(0);
  size_t before = 0;
  size_t after = 0;
  size_t total = 0;
  CHECK_CU(cu.cuMemGetInfo_v2(&before, &total));
  CUdeviceptr address = 0;
  CHECK_CU(cu.cuMemAlloc_v2(&address, 1 << 20));
  CHECK(address % 512 == 0);
  CHECK_CU(cu.cuMemGetInfo_v2(&after, &total));
  CHECK(before - after == 1 << 20);
  CUdeviceptr base = 0;
  size_t bytes = 0;
  CHECK_CU(cu.cuMemGetAddressRange_v2(&base, &bytes, address + 1000));
  CHECK(base == address);
  CHECK(bytes == 1 << 20);
  CHECK(cu.cuMemFree_v2(address + 512) == CUDA_ERROR_INVALID_VALUE);
  CHECK_CU(cu.cuMemFree_v2(address));
  CHECK(cu.cuMemFree_v2(address) == CUDA_ERROR_INVALID_VALUE);
  CHECK_CU(cu.cuMemFree_v2(0));
  CHECK(cu.cuMemAlloc_v2(&address, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu.cuMemAlloc_v2(&address, total + 1) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(cu.cuMemGetAddressRange_v2(&base, &bytes, address) == CUDA_ERROR_NOT_FOUND);
}

TEST_CASE("copies go between host and devices, and stay within allocations", "[emulator][driver]") {
  const Emulated& cu = started();
  Primary one(1);
  Buffer far(64);
  Primary zero(0);
  Buffer near(64);
  std::vector<uint32_t> sent(16);
  for (uint32_t i = 0; i < 16; ++i) sent[i] = i * i;
  put_words(near.address, sent);
  CHECK_CU(cu.cuMemcpyDtoD_v2(far.address, near.address, 64));
  CHECK(words_at(far.address, 16) == sent);
  CHECK_CU(cu.cuMemcpyPeer(near.address + 4, zero.handle, far.address, one.handle, 60));
  CHECK(words_at(near.address + 4, 15) == std::vector<uint32_t>(sent.begin(), sent.begin() + 15));
  std::vector<uint32_t> got(16);
  CHECK_CU(cu.cuMemcpy(reinterpret_cast<CUdeviceptr>(got.data()), far.address, 64));
  CHECK(got == sent);
  CHECK(cu.cuMemcpyDtoD_v2(far.address, near.address, 65) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu.cuMemcpyHtoD_v2(near.address + 60, got.data(), 8) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu.cuMemcpyHtoD_v2(reinterpret_cast<CUdeviceptr>(got.data()), sent.data(), 8) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu.cuMemcpyPeer(near.address, nullptr, far.address, one.handle, 4) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK_CU(cu.cuMemcpyHtoD_v2(near.address, nullptr, 0));
}

TEST_CASE("fills are of bytes, halves and words", "[emulator][driver]") {
  const Emulated& cu = started();
  Primary zero(0);
  Buffer buffer(16);
  CHECK_CU(cu.cuMemsetD32_v2(buffer.address, 0x01020304, 4));
  CHECK_CU(cu.cuMemsetD8_v2(buffer.address, 0xaa, 2));
  CHECK_CU(cu.cuMemsetD16_v2(buffer.address + 6, 0xbbcc, 1));
  CHECK(words_at(buffer.address, 4) == std::vector<uint32_t>{0x0102aaaa, 0xbbcc0304, 0x01020304, 0x01020304});
  CHECK(cu.cuMemsetD32_v2(buffer.address + 2, 0, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu.cuMemsetD8_v2(buffer.address, 0, 17) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("page-locked host memory is the devices' too", "[emulator][driver]") {
  const Emulated& cu = started();
  Primary zero(0);
  void* pinned = nullptr;
  CHECK_CU(cu.cuMemHostAlloc(&pinned, 100, CU_MEMHOSTALLOC_PORTABLE));
  std::memset(pinned, 1, 100);
  CUdeviceptr address = 0;
  CHECK_CU(cu.cuMemHostGetDevicePointer_v2(&address, static_cast<char*>(pinned) + 10, 0));
  CHECK(address == reinterpret_cast<CUdeviceptr>(pinned) + 10);
  unsigned flags = 0;
  CHECK_CU(cu.cuMemHostGetFlags(&flags, pinned));
  CHECK(flags == (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
  CHECK(cu.cuMemHostUnregister(pinned) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  CHECK_CU(cu.cuMemFreeHost(pinned));
  std::vector<char> own(5000);
  CHECK(cu.cuMemHostGetDevicePointer_v2(&address, own.data(), 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK_CU(cu.cuMemHostRegister_v2(own.data(), own.size(), CU_MEMHOSTREGISTER_DEVICEMAP));
  CHECK(cu.cuMemHostRegister_v2(own.data() + 8, 8, 0) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  CHECK_CU(cu.cuMemHostGetDevicePointer_v2(&address, own.data(), 0));
  CHECK(cu.cuMemFreeHost(own.data()) == CUDA_ERROR_INVALID_VALUE);
  CHECK_CU(cu.cuMemHostUnregister(own.data()));
  CHECK(cu.cuMemHostUnregister(own.data()) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

TEST_CASE("an address tells whose memory it is", "[emulator][driver]") {
  const Emulated& cu = started();
  Primary two(2);
  Buffer buffer(4096);
  unsigned type = 0;
  CHECK_CU(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, buffer.address + 5));
  CHECK(type == CU_MEMORYTYPE_DEVICE);
  int ordinal = -1;
  CHECK_CU(cu.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, buffer.address));
  CHECK(ordinal == 2);
  CUcontext context = nullptr;
  CHECK_CU(cu.cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, buffer.address));
  CHECK(context == two.handle);
  unsigned long long id = 0;
  unsigned long long next = 0;
  CHECK_CU(cu.cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, buffer.address));
  Buffer other(4096);
  CHECK_CU(cu.cuPointerGetAttribute(&next, CU_POINTER_ATTRIBUTE_BUFFER_ID, other.address));
  CHECK(id != next);
  CUdeviceptr start = 0;
  size_t bytes = 0;
  bool legacy = false;
  CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                  CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE};
  void* out[] = {&start, &bytes, &legacy};
  CHECK_CU(cu.cuPointerGetAttributes(3, wanted, out, buffer.address + 4095));
  CHECK(start == buffer.address);
  CHECK(bytes == 4096);
  CHECK(legacy);
  // Of memory that nobody registered nothing is known.
  int local = 0;
  const auto host = reinterpret_cast<CUdeviceptr>(&local);
  CHECK(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, host) == CUDA_ERROR_INVALID_VALUE);
  CHECK_CU(cu.cuPointerGetAttributes(3, wanted, out, host));
  CHECK(start == 0);
  CHECK_FALSE(legacy);
}
