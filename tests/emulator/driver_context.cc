// Start, devices, contexts, peer access.
#include <cstring>
#include <thread>

#include "emulator/emulated.h"

using namespace ronde::test;

TEST_CASE("devices tell what they are", "[emulator][driver]") {
  const Emulated& cu = started();
  int count = 0;
  CHECK_CU(cu.cuDeviceGetCount(&count));
  REQUIRE(count == 4);
  int version = 0;
  CHECK_CU(cu.cuDriverGetVersion(&version));
  CHECK(version == 13000);
  CUdevice device = -1;
  CHECK_CU(cu.cuDeviceGet(&device, 3));
  CHECK(device == 3);
  CHECK(cu.cuDeviceGet(&device, 4) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(cu.cuDeviceGet(&device, -1) == CUDA_ERROR_INVALID_DEVICE);
  char text[64];
  CHECK_CU(cu.cuDeviceGetName(text, sizeof text, 0));
  CHECK(std::string(text) == "Emulated GPU");
  CHECK_CU(cu.cuDeviceGetPCIBusId(text, sizeof text, 2));
  CHECK(std::string(text) == "00E0:03:00.0");
  CHECK_CU(cu.cuDeviceGetByPCIBusId(&device, "00e0:03:00.0"));
  CHECK(device == 2);
  CHECK(cu.cuDeviceGetByPCIBusId(&device, "0000:77:00.0") == CUDA_ERROR_INVALID_DEVICE);
  int value = 0;
  CHECK_CU(cu.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
  CHECK(value == 9);
  CHECK_CU(cu.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 2));
  CHECK(value == 3);
  CHECK_CU(cu.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
  CHECK(value == 1);
  CHECK(cu.cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(100000), 0) == CUDA_ERROR_INVALID_VALUE);
  size_t bytes = 0;
  CHECK_CU(cu.cuDeviceTotalMem_v2(&bytes, 0));
  CHECK(bytes == size_t{4} << 30);
  CUuuid one;
  CUuuid other;
  CHECK_CU(cu.cuDeviceGetUuid_v2(&one, 0));
  CHECK_CU(cu.cuDeviceGetUuid_v2(&other, 1));
  CHECK(std::memcmp(&one, &other, sizeof one) != 0);
}

TEST_CASE("codes have names and texts", "[emulator][driver]") {
  const Emulated& cu = started();
  const char* text = nullptr;
  CHECK_CU(cu.cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
  CHECK(std::string(text) == "CUDA_ERROR_ILLEGAL_ADDRESS");
  CHECK_CU(cu.cuGetErrorString(CUDA_ERROR_INVALID_VALUE, &text));
  CHECK(std::string(text) == "invalid argument");
  CHECK(cu.cuGetErrorName(static_cast<CUresult>(4242), &text) == CUDA_ERROR_INVALID_VALUE);
  CHECK(text == nullptr);
}

TEST_CASE("the current context is the thread's", "[emulator][driver]") {
  const Emulated& cu = started();
  CUdeviceptr address = 0;
  CUcontext context = nullptr;
  std::thread([&] {
    CHECK_CU(cu.cuCtxGetCurrent(&context));
    CHECK(context == nullptr);
    CHECK(cu.cuMemAlloc_v2(&address, 16) == CUDA_ERROR_INVALID_CONTEXT);
  }).join();
  Primary zero(0);
  {
    Primary one(1);
    CHECK(one.handle != zero.handle);
    CHECK_CU(cu.cuCtxGetCurrent(&context));
    CHECK(context == one.handle);
    CUdevice device = -1;
    CHECK_CU(cu.cuCtxGetDevice(&device));
    CHECK(device == 1);
    CHECK_CU(cu.cuCtxSetCurrent(zero.handle));
    CHECK_CU(cu.cuCtxGetDevice(&device));
    CHECK(device == 0);
    CHECK_CU(cu.cuCtxSetCurrent(one.handle));
  }
  CHECK_CU(cu.cuCtxGetCurrent(&context));
  CHECK(context == zero.handle);
}

TEST_CASE("a primary context lives as long as somebody holds it", "[emulator][driver]") {
  const Emulated& cu = started();
  unsigned flags = 0;
  int active = 1;
  CHECK_CU(cu.cuDevicePrimaryCtxGetState(3, &flags, &active));
  CHECK(active == 0);
  CHECK(cu.cuDevicePrimaryCtxRelease_v2(3) == CUDA_ERROR_INVALID_CONTEXT);
  CUcontext one = nullptr;
  CUcontext other = nullptr;
  CHECK_CU(cu.cuDevicePrimaryCtxRetain(&one, 3));
  CHECK_CU(cu.cuDevicePrimaryCtxRetain(&other, 3));
  CHECK(one == other);
  CHECK_CU(cu.cuDevicePrimaryCtxRelease_v2(3));
  CHECK_CU(cu.cuDevicePrimaryCtxGetState(3, &flags, &active));
  CHECK(active == 1);
  CHECK_CU(cu.cuCtxSetCurrent(one));
  CHECK_CU(cu.cuDevicePrimaryCtxRelease_v2(3));
  CUdevice device = -1;
  CHECK(cu.cuCtxGetDevice(&device) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(cu.cuCtxSetCurrent(one) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK_CU(cu.cuCtxSetCurrent(nullptr));
}

TEST_CASE("peer access is given once, between devices that have it", "[emulator][driver]") {
  const Emulated& cu = started();
  int can = 0;
  CHECK_CU(cu.cuDeviceCanAccessPeer(&can, 0, 1));
  CHECK(can == 1);
  CHECK_CU(cu.cuDeviceCanAccessPeer(&can, 0, 0));
  CHECK(can == 0);
  CHECK_CU(cu.cuDeviceGetP2PAttribute(&can, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, 0, 1));
  CHECK(can == 1);
  CHECK(cu.cuDeviceGetP2PAttribute(&can, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 1, 1) == CUDA_ERROR_INVALID_DEVICE);
  Primary one(1);
  Primary zero(0);
  CHECK(cu.cuCtxDisablePeerAccess(one.handle) == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  CHECK_CU(cu.cuCtxEnablePeerAccess(one.handle, 0));
  CHECK(cu.cuCtxEnablePeerAccess(one.handle, 0) == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  CHECK(cu.cuCtxEnablePeerAccess(one.handle, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu.cuCtxEnablePeerAccess(zero.handle, 0) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK_CU(cu.cuCtxDisablePeerAccess(one.handle));
}

TEST_CASE("handles that are none, or no longer, are refused", "[emulator][driver]") {
  const Emulated& cu = started();
  Primary zero(0);
  CUstream stream = nullptr;
  CHECK_CU(cu.cuStreamCreate(&stream, 0));
  CHECK_CU(cu.cuStreamDestroy_v2(stream));
  CHECK(cu.cuStreamQuery(stream) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cu.cuStreamDestroy_v2(stream) == CUDA_ERROR_INVALID_HANDLE);
  CUevent event = nullptr;
  CHECK_CU(cu.cuEventCreate(&event, 0));
  CHECK(cu.cuEventRecord(event, stream) == CUDA_ERROR_INVALID_HANDLE);
  CHECK_CU(cu.cuEventDestroy_v2(event));
  CHECK(cu.cuEventQuery(event) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cu.cuStreamWaitEvent(nullptr, event, 0) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cu.cuCtxPushCurrent_v2(nullptr) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cu.cuStreamCreate(nullptr, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu.cuStreamCreate(&stream, 8) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu.cuModuleUnload(nullptr) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cu.cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr) == CUDA_ERROR_INVALID_HANDLE);
}
