#include "exec/cuda/kernel_set.h"

#include <fmt/core.h>

#include <mutex>

namespace ronde::gpu {

Result<std::shared_ptr<const KernelSet>> KernelSet::of(const std::shared_ptr<const device::Gpu>& gpu) {
  static std::mutex mutex;
  static auto& loaded = *new std::map<const device::Gpu*, std::weak_ptr<const KernelSet>>();
  const std::lock_guard lock(mutex);
  if (std::shared_ptr<const KernelSet> there = loaded[gpu.get()].lock()) return there;
  std::shared_ptr<KernelSet> made(new KernelSet(gpu));
  RONDE_TRY(made->load());
  loaded[gpu.get()] = made;
  return std::shared_ptr<const KernelSet>(std::move(made));
}

KernelSet::~KernelSet() {
  const device::Current current(*gpu_);
  for (const cu::CUmodule module : modules_) gpu_->driver().cuModuleUnload(module);
}

Result<> KernelSet::load() {
  if (images().empty()) {
    return fail(Code::system_error, "this build of ronde has no kernels for GPUs: it was made without nvcc; build it where the CUDA Toolkit is, or set RONDE_DEVICE=cpu");
  }
  const device::Current current(*gpu_);
  const device::Driver& driver = gpu_->driver();
  for (const Image& image : images()) {
    cu::CUmodule module = nullptr;
    RONDE_TRY(device::check(driver.cuModuleLoadData(&module, image.fatbin.data()), [&] {
      return fmt::format("loading the kernels of {} on {} (compute capability {}.{})", image.family, gpu_->name(), gpu_->capability() / 10, gpu_->capability() % 10);
    }));
    modules_.push_back(module);
  }
  const auto take = [&](const KernelName& kernel) -> Result<> {
    cu::CUfunction& function = functions_[kernel.name];
    if (function != nullptr) return {};
    return device::check(driver.cuModuleGetFunction(&function, modules_[static_cast<size_t>(kernel.image)], kernel.name.c_str()),
                         [&] { return fmt::format("finding the kernel {}", kernel.name); });
  };
  RONDE_TRY(take(copying_kernel()));
  for (int type = 0; type < kDataTypes; ++type) {
    for (int op = 0; op < kReduceOps; ++op) RONDE_TRY(take(reducing_kernel(static_cast<DataType>(type), static_cast<ReduceOp>(op))));
  }
  return {};
}

}  // namespace ronde::gpu
