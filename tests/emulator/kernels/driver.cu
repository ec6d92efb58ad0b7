// A kernel with all that a driver must do for one: parameters, constants, variables with an initial value, shared memory, barriers.
#include <stdint.h>

__constant__ uint32_t factors[2] = {1, 2};
__device__ unsigned long long total = 100;

/// data[i] *= value * 2; adds the sum of the new data to `total`.
extern "C" __global__ void scale_and_sum(uint32_t* data, uint32_t count, uint32_t value) {
  __shared__ unsigned long long sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  unsigned long long mine = 0;
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    data[i] *= value * factors[1];
    mine += data[i];
  }
  atomicAdd(&sum, mine);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(&total, sum);
}
