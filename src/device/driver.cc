#include "device/driver.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <span>

#include "base/config.h"
#include "base/symbols.h"

namespace ronde::device {
namespace {

using cu::CUresult;

constexpr int kOldest = 11070;  // CUDA 11.7: all that is called without a look exists there

Result<Driver> load() {
  const std::shared_ptr<const Config> config = current_config();
  const std::string& named = config->text(Setting::cuda_library);
  const std::string name = named.empty() ? "libcuda.so.1" : named;
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    return fail(Code::system_error, fmt::format("loading CUDA's driver: {}", why != nullptr ? why : name));
  }
  Driver driver;
#define RONDE_CU_FIND(name, suffix, version, parameters) find_symbol(library, #name #suffix, driver.name##suffix);
  RONDE_CU_ENTRIES(RONDE_CU_FIND)
#undef RONDE_CU_FIND
  if (driver.cuInit == nullptr || driver.cuDriverGetVersion == nullptr) {
    return fail(Code::system_error, fmt::format("loading CUDA's driver: {} has no cuInit", name));
  }
  const CUresult code = driver.cuInit(0);
  if (code == cu::CUDA_ERROR_NO_DEVICE) return fail(Code::system_error, "CUDA's driver finds no GPU");
  if (code != cu::CUDA_SUCCESS) return fail(Code::system_error, fmt::format("CUDA's driver cannot be used: cuInit gives error {}", static_cast<int>(code)));
  driver.cuDriverGetVersion(&driver.version);
  if (driver.version < kOldest) {
    return fail(Code::system_error, fmt::format("CUDA's driver is of version {}.{}, and {}.{} is needed", driver.version / 1000, driver.version % 1000 / 10,
                                                kOldest / 1000, kOldest % 1000 / 10));
  }
  return driver;
}

const Result<Driver>& loaded() {
  // Never destroyed: library threads may call the driver while the process exits.
  static const Result<Driver>& once = *new Result<Driver>(load());
  return once;
}

}  // namespace

Result<const Driver*> driver() {
  const Result<Driver>& once = loaded();
  if (!once.ok()) return once.error();
  return &*once;
}

Error driver_error(CUresult code, std::string_view what) {
  const char* name = nullptr;
  const char* words = nullptr;
  const Result<const Driver*> all = driver();
  if (all.ok()) {
    if ((*all)->cuGetErrorName != nullptr) (*all)->cuGetErrorName(code, &name);
    if ((*all)->cuGetErrorString != nullptr) (*all)->cuGetErrorString(code, &words);
  }
  return fail(Code::cuda_error, fmt::format("{}: {} ({})", what, name != nullptr ? name : fmt::format("error {}", static_cast<int>(code)),
                                                      words != nullptr ? words : "the driver has no words for it"));
}

}  // namespace ronde::device
