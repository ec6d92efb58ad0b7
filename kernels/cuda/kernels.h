// The interpreter kernels as the library carries them.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/types.h"

namespace ronde::gpu {

/// The kernels of one family of element types: a fatbin with code for the GPUs that the build names.
struct Image {
  std::string_view family;
  std::span<const unsigned long long> fatbin;
};

/// Every image of this build; empty where it was made without nvcc.
std::span<const Image> images();

/// Where a kernel is: which of images(), and its name there.
struct KernelName {
  int image = 0;
  std::string name;
};
/// The kernel that folds elements of `type` by `op`.
KernelName reducing_kernel(DataType type, ReduceOp op);
/// The kernel that moves bytes and changes none.
KernelName copying_kernel();

}  // namespace ronde::gpu
