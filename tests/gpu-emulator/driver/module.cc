#include "gpu-emulator/driver/module.h"

#include <fmt/core.h>

#include <cstring>
#include <utility>

#include "gpu-emulator/driver/fatbin.h"
#include "gpu-emulator/driver/limits.h"

namespace emu::driver {
namespace {

void write_memory(Memory& memory, uint64_t address, const void* from, size_t bytes) {
  const auto* source = static_cast<const std::byte*>(from);
  for (const auto& [at, part] : memory.pieces(address, bytes)) {
    std::memcpy(at, source, part);
    source += part;
  }
}

CUresult place_variables(Driver& driver, LoadedModule& module) {
  Memory& memory = driver.memory();
  for (const Variable& variable : module.code->variables()) {
    const auto address = memory.allocate(module.context->device, variable.bytes == 0 ? 1 : variable.bytes);
    if (!address) return CUDA_ERROR_OUT_OF_MEMORY;
    module.addresses[variable.name] = *address;
    write_memory(memory, *address, variable.initial.data(), variable.initial.size());
  }
  for (const Variable& variable : module.code->variables()) {
    for (const Relocation& relocation : variable.relocations) {
      const auto target = module.addresses.find(relocation.target);
      if (target == module.addresses.end()) {
        driver.report(fmt::format("variable {} holds the address of {}, which is none", variable.name, relocation.target));
        return CUDA_ERROR_INVALID_PTX;
      }
      const uint64_t value = target->second + relocation.addend;
      write_memory(memory, module.addresses[variable.name] + relocation.offset, &value, sizeof value);
    }
  }
  return CUDA_SUCCESS;
}

void free_variables(Driver& driver, LoadedModule& module) {
  for (const auto& [name, address] : module.addresses) driver.memory().release(address);
  module.addresses.clear();
}

}  // namespace

CUresult load_code(Driver& driver, const void* image, std::shared_ptr<const Module>& code) {
  static std::mutex mutex;
  static auto* known = new std::map<std::string, std::weak_ptr<const Module>>;
  std::string text;
  std::string why;
  if (image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = ptx_of(image, driver.settings().capability, text, why);
  if (result != CUDA_SUCCESS) {
    driver.report("loading a module: " + why);
    return result;
  }
  std::lock_guard lock(mutex);
  code = (*known)[text].lock();
  if (code != nullptr) return CUDA_SUCCESS;
  auto module = load_module(text);
  if (!module) {
    driver.report("loading a module: " + module.error().what);
    return CUDA_ERROR_INVALID_PTX;
  }
  code = std::move(*module);
  (*known)[text] = code;
  return CUDA_SUCCESS;
}

CUresult load_into(Driver& driver, const std::shared_ptr<Context>& context, std::shared_ptr<const Module> code,
                   CUmodule& handle) {
  auto module = std::make_shared<LoadedModule>();
  module->code = std::move(code);
  module->context = context;
  if (const CUresult result = place_variables(driver, *module); result != CUDA_SUCCESS) {
    free_variables(driver, *module);
    return result;
  }
  handle = driver.modules.put(module);
  module->handle = handle;
  return CUDA_SUCCESS;
}

CUresult function_of(Driver& driver, const std::shared_ptr<LoadedModule>& module, const char* name, CUfunction& handle) {
  const Function* function = module->code->function(name);
  if (function == nullptr || !function->entry) return CUDA_ERROR_NOT_FOUND;
  std::lock_guard lock(driver.mutex);
  CUfunction& known = module->entries[name];
  if (known == nullptr) {
    auto entry = std::make_shared<Entry>();
    entry->module = module;
    entry->function = function;
    entry->most_dynamic = kSharedBytes - static_cast<int>(function->shared_bytes);
    known = driver.functions.put(std::move(entry));
  }
  handle = known;
  return CUDA_SUCCESS;
}

void unload(Driver& driver, const std::shared_ptr<LoadedModule>& module) {
  driver.modules.drop(module->handle);
  driver.functions.drop_if([&](const Entry& entry) { return entry.module == module; });
  free_variables(driver, *module);
}

void unload_modules(Driver& driver, const Context& context) {
  for (const auto& module : driver.modules.drop_if([&](const LoadedModule& one) { return one.context.get() == &context; }))
    unload(driver, module);
}

extern "C" {

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return in_context([&](Driver& driver, const std::shared_ptr<Context>& context) {
    std::shared_ptr<const Module> code;
    if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult result = driver.refuse_in_capture(); result != CUDA_SUCCESS) return result;
    const CUresult result = load_code(driver, image, code);
    return result != CUDA_SUCCESS ? result : load_into(driver, context, std::move(code), *module);
  });
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*, void**) {
  return cuModuleLoadData(module, image);
}

CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) { return cuModuleLoadData(module, image); }

CUresult cuModuleUnload(CUmodule handle) {
  return in_context([&](Driver& driver, const std::shared_ptr<Context>& context) {
    const auto module = driver.modules.get(handle);
    if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult result = driver.refuse_in_capture(); result != CUDA_SUCCESS) return result;
    context->synchronize();
    unload(driver, module);
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule handle, const char* name) {
  return in_context([&](Driver& driver, const std::shared_ptr<Context>&) {
    if (function == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto module = driver.modules.get(handle);
    return module == nullptr ? CUDA_ERROR_INVALID_HANDLE : function_of(driver, module, name, *function);
  });
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes, CUmodule handle, const char* name) {
  return in_context([&](Driver& driver, const std::shared_ptr<Context>&) {
    const auto module = driver.modules.get(handle);
    if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    for (const Variable& variable : module->code->variables()) {
      if (variable.name != name) continue;
      if (address != nullptr) *address = module->addresses.find(variable.name)->second;
      if (bytes != nullptr) *bytes = variable.bytes;
      return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
  });
}

}  // extern "C"

}  // namespace emu::driver
