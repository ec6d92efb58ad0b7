// GPUs for the benchmarks: CUDA's driver, loaded at run time, as far as buffers, streams and copies need it.
#pragma once

#include <cstddef>
#include <string>

#include "nccl.h"

namespace ronde::bench::gpu {

/// How many GPUs the driver has; 0 where there is none. RONDE_CUDA_LIBRARY names another driver, as for ronde itself.
int count();
/// "NVIDIA H200", with its place on PCI.
std::string name(int device);

// All throw TestFailure, naming the call and the driver's code.

/// Makes the GPU the calling thread's current one.
void use(int device);
/// Bytes of the current GPU's memory.
void* allocate(size_t bytes);
void release(void* memory);
void upload(void* to, const void* from, size_t bytes);
void download(void* to, const void* from, size_t bytes);
/// A stream of the current GPU that waits for no other.
cudaStream_t make_stream();
void destroy_stream(cudaStream_t stream);
/// Whether all that the stream holds is done.
bool idle(cudaStream_t stream);

}  // namespace ronde::bench::gpu
