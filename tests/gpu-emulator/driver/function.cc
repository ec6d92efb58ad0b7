// What can be asked and set about functions.
#include "gpu-emulator/driver/limits.h"
#include "gpu-emulator/driver/module.h"

namespace emu::driver {
namespace {

CUresult get_attribute(const Driver& driver, const Entry& entry, CUfunction_attribute attribute, int& value) {
  const Function& function = *entry.function;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      value = static_cast<int>(function.max_threads);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      value = static_cast<int>(function.shared_bytes);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      value = 0;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      value = static_cast<int>(function.local_bytes);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      value = static_cast<int>(function.registers);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      value = entry.module->code->target();
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      value = driver.settings().capability;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      value = entry.most_dynamic.load();
      return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult set_attribute(Entry& entry, CUfunction_attribute attribute, int value) {
  if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) return CUDA_SUCCESS;
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 ||
      value > kSharedBytesOptIn - static_cast<int>(entry.function->shared_bytes))
    return CUDA_ERROR_INVALID_VALUE;
  entry.most_dynamic.store(value);
  return CUDA_SUCCESS;
}

/// The function of a kernel on a device: in its primary context.
CUresult kernel_entry(Driver& driver, CUkernel kernel, CUdevice device, std::shared_ptr<Entry>& entry) {
  const int index = driver.index_of(device);
  if (index < 0) return CUDA_ERROR_INVALID_DEVICE;
  std::shared_ptr<Context> context;
  {
    std::lock_guard lock(driver.mutex);
    context = driver.devices[static_cast<size_t>(index)].primary;
  }
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return entry_of(driver, reinterpret_cast<CUfunction>(kernel), context, entry);
}

}  // namespace

extern "C" {

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  return in_context([&](Driver& driver, const std::shared_ptr<Context>& context) {
    std::shared_ptr<Entry> entry;
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = entry_of(driver, function, context, entry);
    return result != CUDA_SUCCESS ? result : get_attribute(driver, *entry, attribute, *value);
  });
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  return in_context([&](Driver& driver, const std::shared_ptr<Context>& context) {
    std::shared_ptr<Entry> entry;
    const CUresult result = entry_of(driver, function, context, entry);
    return result != CUDA_SUCCESS ? result : set_attribute(*entry, attribute, value);
  });
}

CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device) {
  return call([&](Driver& driver) {
    std::shared_ptr<Entry> entry;
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = kernel_entry(driver, kernel, device, entry);
    return result != CUDA_SUCCESS ? result : get_attribute(driver, *entry, attribute, *value);
  });
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device) {
  return call([&](Driver& driver) {
    std::shared_ptr<Entry> entry;
    const CUresult result = kernel_entry(driver, kernel, device, entry);
    return result != CUDA_SUCCESS ? result : set_attribute(*entry, attribute, value);
  });
}

CUresult cuFuncGetModule(CUmodule* module, CUfunction handle) {
  return call([&](Driver& driver) {
    const auto entry = driver.functions.get(handle);
    if (entry == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *module = entry->module->handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuFuncGetName(const char** name, CUfunction handle) {
  return call([&](Driver& driver) {
    const auto entry = driver.functions.get(handle);
    if (entry == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *name = entry->function->name.c_str();
    return CUDA_SUCCESS;
  });
}

CUresult cuFuncGetParamInfo(CUfunction handle, size_t number, size_t* offset, size_t* bytes) {
  return call([&](Driver& driver) {
    const auto entry = driver.functions.get(handle);
    if (entry == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (offset == nullptr || number >= entry->function->parameters.size()) return CUDA_ERROR_INVALID_VALUE;
    *offset = entry->function->parameters[number].offset;
    if (bytes != nullptr) *bytes = entry->function->parameters[number].bytes;
    return CUDA_SUCCESS;
  });
}

CUresult cuFuncLoad(CUfunction handle) {
  return call([&](Driver& driver) { return driver.functions.get(handle) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS; });
}

}  // extern "C"

}  // namespace emu::driver
