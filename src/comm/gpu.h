// CUDA ranks: how a group's calls become kernels.
#pragma once

#include <memory>
#include <vector>

#include "exec/cuda/gpu_rank.h"
#include "exec/work.h"

namespace ronde {

/// A numbered call of a rank on a GPU.
struct GpuCall {
  std::unique_ptr<Work> work;
  gpu::GpuRank* rank = nullptr;
  cu::CUstream stream = nullptr;
};

/// Whether kernels of this rank can go to the stream. invalid_usage while a graph is being captured from it.
Result<> check_stream(const gpu::GpuRank& rank, cu::CUstream stream);

/// Launches a group's calls: those of all ranks on one GPU together. Each rank's collectives run one after another, its messages after them. What
/// cannot be launched breaks its communicator.
Result<> launch_on_gpus(std::vector<GpuCall> calls);

}  // namespace ronde
