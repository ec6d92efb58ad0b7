// CUDA's driver, loaded at run time: its entry points and what its codes mean.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "device/driver_entries.h"

namespace ronde::cu {

/// Every entry point under its name with version suffix; nullptr where the driver is too old to have it.
struct Functions {
#define RONDE_CU_MEMBER(name, suffix, version, parameters) CUresult(*name##suffix) parameters = nullptr;
  RONDE_CU_ENTRIES(RONDE_CU_MEMBER)
#undef RONDE_CU_MEMBER
};

}  // namespace ronde::cu

namespace ronde::device {

struct Driver : cu::Functions {
  int version = 0;  ///< as cuDriverGetVersion: 12040 is 12.4
};

/// The driver of this process, initialised; loaded by the first call from RONDE_CUDA_LIBRARY or, where that is not set, libcuda.so.1. An error
/// says why there is none (no library, no GPU, a driver too old); it is the same on every later call. Any thread.
Result<const Driver*> driver();

/// The error that a failed call of the driver means: "WHAT: CUDA_ERROR_... (the driver's words)".
Error driver_error(cu::CUresult code, std::string_view what);

/// Fails where `code` is no success; `what` makes the text.
template <class What>
Result<> check(cu::CUresult code, What&& what) {
  if (code == cu::CUDA_SUCCESS) return {};
  return driver_error(code, what());
}

}  // namespace ronde::device
