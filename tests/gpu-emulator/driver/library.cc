// Libraries and kernels: code that contexts load when they need it.
#include "gpu-emulator/driver/module.h"

namespace emu::driver {
namespace {

CUresult module_of(Driver& driver, Library& library, const std::shared_ptr<Context>& context, CUmodule& module) {
  std::lock_guard lock(library.mutex);
  CUmodule& known = library.loaded[context->handle];
  CUresult result = CUDA_SUCCESS;
  if (known == nullptr) result = load_into(driver, context, library.code, known);
  module = known;
  return result;
}

}  // namespace

CUresult entry_of(Driver& driver, CUfunction handle, const std::shared_ptr<Context>& context, std::shared_ptr<Entry>& entry) {
  entry = driver.functions.get(handle);
  if (entry != nullptr) return CUDA_SUCCESS;
  const auto kernel = driver.kernels.get(reinterpret_cast<CUkernel>(handle));
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUresult result = module_of(driver, *kernel->library, context, module);
  if (result == CUDA_SUCCESS) result = function_of(driver, driver.modules.get(module), kernel->function->name.c_str(), function);
  if (result == CUDA_SUCCESS) entry = driver.functions.get(function);
  return result;
}

extern "C" {

CUresult cuLibraryLoadData(CUlibrary* out, const void* image, CUjit_option*, void**, unsigned, CUlibraryOption*, void**,
                           unsigned) {
  return call([&](Driver& driver) {
    auto library = std::make_shared<Library>();
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult result = load_code(driver, image, library->code); result != CUDA_SUCCESS) return result;
    *out = driver.libraries.put(library);
    library->handle = *out;
    return CUDA_SUCCESS;
  });
}

CUresult cuLibraryUnload(CUlibrary handle) {
  return call([&](Driver& driver) {
    const auto library = driver.libraries.drop(handle);
    if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    driver.kernels.drop_if([&](const Kernel& kernel) { return kernel.library == library; });
    std::lock_guard lock(library->mutex);
    for (const auto& [context_handle, module_handle] : library->loaded) {
      const auto module = driver.modules.get(module_handle);
      if (module == nullptr) continue;
      module->context->synchronize();
      unload(driver, module);
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuLibraryGetKernel(CUkernel* out, CUlibrary handle, const char* name) {
  return call([&](Driver& driver) {
    const auto library = driver.libraries.get(handle);
    if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (out == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const Function* function = library->code->function(name);
    if (function == nullptr || !function->entry) return CUDA_ERROR_NOT_FOUND;
    std::lock_guard lock(library->mutex);
    CUkernel& known = library->kernels[name];
    if (known == nullptr) known = driver.kernels.put(std::make_shared<Kernel>(Kernel{library, function}));
    *out = known;
    return CUDA_SUCCESS;
  });
}

CUresult cuLibraryGetModule(CUmodule* out, CUlibrary handle) {
  return in_context([&](Driver& driver, const std::shared_ptr<Context>& context) {
    const auto library = driver.libraries.get(handle);
    if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    return out == nullptr ? CUDA_ERROR_INVALID_VALUE : module_of(driver, *library, context, *out);
  });
}

CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary handle, const char* name) {
  CUmodule module = nullptr;
  const CUresult result = cuLibraryGetModule(&module, handle);
  return result != CUDA_SUCCESS ? result : cuModuleGetGlobal_v2(address, bytes, module, name);
}

CUresult cuKernelGetFunction(CUfunction* out, CUkernel handle) {
  return in_context([&](Driver& driver, const std::shared_ptr<Context>& context) {
    const auto kernel = driver.kernels.get(handle);
    if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUmodule module = nullptr;
    const CUresult result = module_of(driver, *kernel->library, context, module);
    if (result != CUDA_SUCCESS) return result;
    return function_of(driver, driver.modules.get(module), kernel->function->name.c_str(), *out);
  });
}

CUresult cuKernelGetName(const char** name, CUkernel handle) {
  return call([&](Driver& driver) {
    const auto kernel = driver.kernels.get(handle);
    if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *name = kernel->function->name.c_str();
    return CUDA_SUCCESS;
  });
}

}  // extern "C"

}  // namespace emu::driver
