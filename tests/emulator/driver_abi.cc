// Entry points by name.
#include <dlfcn.h>

#include "emulator/emulated.h"

using namespace ronde::test;

TEST_CASE("every entry point is there, by name and by cuGetProcAddress", "[emulator][driver][abi]") {
  const Emulated& cu = emulated();
  int count = 0;
  const auto check = [&](const char* name, const char* full, int since) {
    INFO(full);
    void* const exported = dlsym(cu.library, full);
    REQUIRE(exported != nullptr);
    void* function = nullptr;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    CHECK_CU(cu.cuGetProcAddress_v2(name, &function, since, 0, &status));
    CHECK(status == CU_GET_PROC_ADDRESS_SUCCESS);
    CHECK(function == exported);
    ++count;
  };
#define RONDE_TEST_ENTRY(name, suffix, since, parameters) check(#name, #name #suffix, since);
  RONDE_CU_ENTRIES(RONDE_TEST_ENTRY)
#undef RONDE_TEST_ENTRY
  CHECK(count > 100);
}

TEST_CASE("cuGetProcAddress tells an unknown name from one that is too new", "[emulator][driver][abi]") {
  const Emulated& cu = emulated();
  void* function = &function;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  CHECK(cu.cuGetProcAddress_v2("cuNothing", &function, 13000, 0, &status) == CUDA_ERROR_NOT_FOUND);
  CHECK(function == nullptr);
  CHECK(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  CHECK(cu.cuGetProcAddress_v2("cuLaunchKernelEx", &function, 11000, 0, &status) == CUDA_ERROR_NOT_FOUND);
  CHECK(status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  // The newest that the version knows.
  CHECK_CU(cu.cuGetProcAddress_v2("cuStreamGetCaptureInfo", &function, 12000, 0, &status));
  CHECK(function == reinterpret_cast<void*>(cu.cuStreamGetCaptureInfo_v2));
  CHECK_CU(cu.cuGetProcAddress_v2("cuStreamGetCaptureInfo", &function, 13000, 0, &status));
  CHECK(function == reinterpret_cast<void*>(cu.cuStreamGetCaptureInfo_v3));
}
