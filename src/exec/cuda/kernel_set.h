// The interpreter kernels, loaded on one GPU.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/gpu.h"
#include "kernels/cuda/kernels.h"

namespace ronde::gpu {

class KernelSet {
 public:
  /// Those of a GPU; loaded by the first call, kept as long as anyone holds them. system_error where this build has none, or none for such a GPU.
  static Result<std::shared_ptr<const KernelSet>> of(const std::shared_ptr<const device::Gpu>& gpu);
  ~KernelSet();
  KernelSet(const KernelSet&) = delete;

  cu::CUfunction find(const KernelName& kernel) const { return functions_.at(kernel.name); }

 private:
  explicit KernelSet(std::shared_ptr<const device::Gpu> gpu) : gpu_(std::move(gpu)) {}
  Result<> load();

  std::shared_ptr<const device::Gpu> gpu_;
  std::vector<cu::CUmodule> modules_;
  std::map<std::string, cu::CUfunction> functions_;
};

}  // namespace ronde::gpu
