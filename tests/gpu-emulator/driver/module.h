// Modules, their functions and variables on a device, and launches.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gpu-emulator/driver/driver.h"
#include "gpu-emulator/ptx/module.h"

namespace emu::driver {

/// A module in a context: code, and where its variables lie.
struct LoadedModule {
  std::shared_ptr<const Module> code;
  std::shared_ptr<Context> context;
  CUmodule handle = nullptr;
  std::map<std::string, uint64_t, std::less<>> addresses;
  std::map<std::string, CUfunction, std::less<>> entries;  ///< those that were asked for; guarded by the driver's mutex
};

/// A function that can be launched.
struct Entry {
  std::shared_ptr<LoadedModule> module;
  const Function* function = nullptr;
  std::atomic<int> most_dynamic{0};  ///< bytes of dynamic shared memory that it may be launched with
};

/// Code apart from contexts: each loads it when it first needs it.
struct Library {
  std::shared_ptr<const Module> code;
  CUlibrary handle = nullptr;
  std::mutex mutex;
  std::map<CUcontext, CUmodule> loaded;
  std::map<std::string, CUkernel, std::less<>> kernels;
};

struct Kernel {
  std::shared_ptr<Library> library;
  const Function* function = nullptr;
};

struct Launch {
  std::array<uint32_t, 3> blocks{};
  std::array<uint32_t, 3> threads{};
  uint32_t shared_bytes = 0;
  bool cooperative = false;
};

/// Checks a launch and makes the work of it, for the function's context; of a kernel, for `op.context`, or else the thread's.
CUresult prepare_launch(Driver& driver, CUfunction handle, Launch launch, void** parameters, void** extra, Op& op);
/// The function that a handle means: itself, or, of a kernel, that of a context.
CUresult entry_of(Driver& driver, CUfunction handle, const std::shared_ptr<Context>& context, std::shared_ptr<Entry>& entry);
/// Blocks of so many threads and bytes of dynamic shared memory that fit into a multiprocessor.
int blocks_per_multiprocessor(const Function& function, int threads, size_t dynamic);
/// Parses an image; the same text is parsed once.
CUresult load_code(Driver& driver, const void* image, std::shared_ptr<const Module>& code);
/// Loads code into a context: its variables get memory there.
CUresult load_into(Driver& driver, const std::shared_ptr<Context>& context, std::shared_ptr<const Module> code, CUmodule& handle);
CUresult function_of(Driver& driver, const std::shared_ptr<LoadedModule>& module, const char* name, CUfunction& handle);
/// Unloads a module: its variables and functions end.
void unload(Driver& driver, const std::shared_ptr<LoadedModule>& module);
void unload_modules(Driver& driver, const Context& context);

}  // namespace emu::driver
