// Calls that run on GPUs: who watches over them while no thread of the program does.
#pragma once

#include <memory>
#include <vector>

#include "exec/cuda/gpu_rank.h"

namespace ronde::gpu {

/// Hands the Works of one launch over to the watch, which ends them: when their kernel has, or when the communicator has failed. `ranks` are by Work,
/// and live until wait_landed() has returned for them.
void take_off(std::vector<std::unique_ptr<Work>> works, std::vector<GpuRank*> ranks);

/// Waits until none of the rank's Works is in flight; at most `seconds`. False: some still are, so that nothing that they use may be freed.
bool wait_landed(const GpuRank& rank, double seconds);

}  // namespace ronde::gpu
