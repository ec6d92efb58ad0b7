// Synchronisation between lanes, warps, blocks and devices.
#include <stdint.h>

#include <cuda/atomic>

__device__ inline uint64_t load_acquire(const uint64_t* p) {
  uint64_t v;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
__device__ inline void store_release(uint64_t* p, uint64_t v) { asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory"); }
__device__ inline void barrier(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

/// A FIFO of `slots` slots of blockDim.x words: side 0 sends, side 1 receives, `steps` times.
extern "C" __global__ void fifo(uint64_t* head, uint64_t* tail, uint32_t* buffer, uint32_t* out, int slots, int steps, int side) {
  const int t = threadIdx.x, n = blockDim.x;
  for (int step = 0; step < steps; step++) {
    uint32_t* slot = buffer + size_t(step % slots) * n;
    if (side == 0) {
      if (t == 0) while (load_acquire(head) + slots <= uint64_t(step)) {}
      __syncthreads();
      slot[t] = step * n + t;
      __syncthreads();
      if (t == 0) store_release(tail, step + 1);
    } else {
      if (t == 0) while (load_acquire(tail) <= uint64_t(step)) {}
      __syncthreads();
      out[size_t(step) * n + t] = slot[t];
      __syncthreads();
      if (t == 0) store_release(head, step + 1);
    }
  }
}

extern "C" __global__ void named_barriers(int* out) {
  __shared__ int data[256];
  const int half = threadIdx.x / 128, t = threadIdx.x % 128;
  for (int i = 0; i < 4; i++) {
    data[threadIdx.x] = i + t;
    barrier(1 + half, 128);
    out[threadIdx.x] += data[half * 128 + (t + 1) % 128];
    barrier(1 + half, 128);
  }
  int all = __syncthreads_count(out[threadIdx.x] > 300);
  int some = __syncthreads_or(t == 5), every = __syncthreads_and(t < 128);
  if (threadIdx.x == 0) out[256] = all * 100 + (some ? 10 : 0) + (every ? 1 : 0);
}

extern "C" __global__ void shuffles(uint32_t* out, uint64_t* out64) {
  const unsigned lane = threadIdx.x % 32;
  uint32_t v = lane * lane;
  out[threadIdx.x] = __shfl_sync(0xffffffff, v, 3) + __shfl_up_sync(0xffffffff, v, 1) + __shfl_down_sync(0xffffffff, v, 2, 8) +
                     __shfl_xor_sync(0xffffffff, v, 16);
  out64[threadIdx.x] = __shfl_xor_sync(0xffffffff, (unsigned long long)v << 32 | lane, 1);
  out[64 + threadIdx.x] = __ballot_sync(0xffffffff, lane & 1) + __popc(__activemask()) + (__any_sync(0xffffffff, lane == 3) ? 7 : 0) +
                          (__all_sync(0xffffffff, lane < 31) ? 11 : 0);
  out[128 + threadIdx.x] = __match_any_sync(0xffffffff, lane / 4);
  if (lane < 16) {
    __syncwarp(0xffff);
    out[192 + threadIdx.x] = __shfl_sync(0xffff, v, lane ^ 1);
  } else {
    out[192 + threadIdx.x] = __shfl_sync(0xffff0000, v, lane ^ 1);
  }
#if __CUDA_ARCH__ >= 800
  out[256 + threadIdx.x] = __reduce_add_sync(0xffffffff, lane) + __reduce_max_sync(0xffffffff, lane) + __reduce_xor_sync(0xffffffff, 1u << lane);
#endif
}

extern "C" __global__ void atomics(int* i, unsigned* u, unsigned long long* l, float* f, double* d, int* order) {
  atomicAdd(i, 1);
  atomicSub(i + 1, 2);
  atomicMax(i + 2, int(threadIdx.x));
  atomicMin(i + 3, -int(threadIdx.x));
  atomicAnd(u, ~(1u << threadIdx.x % 32));
  atomicOr(u + 1, 1u << threadIdx.x % 32);
  atomicXor(u + 2, threadIdx.x);
  atomicInc(u + 3, 10);
  atomicDec(u + 4, 10);
  atomicAdd(l, 1ull << 33);
  atomicAdd_system(l + 1, 3ull);
  atomicMax(l + 2, (unsigned long long)threadIdx.x);
  atomicAdd(f, 1.f);
  atomicAdd(d, 0.5);
  order[threadIdx.x] = atomicAdd(i + 4, 1);
  while (atomicCAS(i + 5, 0, 1) != 0) {}
  __threadfence();
  i[6]++;
  __threadfence();
  atomicExch(i + 5, 0);
}

extern "C" __global__ void cuda_atomics(int* p, int* out) {
  cuda::atomic_ref<int, cuda::thread_scope_device> a(p[0]);
  cuda::atomic_ref<int, cuda::thread_scope_system> b(p[1]);
  a.fetch_add(1, cuda::memory_order_acq_rel);
  b.fetch_add(2, cuda::memory_order_seq_cst);
  a.load(cuda::memory_order_acquire);
  b.store(b.load(cuda::memory_order_relaxed) | 1, cuda::memory_order_release);
  int expected = 0;
  out[threadIdx.x] = a.compare_exchange_strong(expected, 5, cuda::memory_order_acquire);
  cuda::atomic_thread_fence(cuda::memory_order_seq_cst, cuda::thread_scope_system);
  __nanosleep(100);
  __threadfence_block();
  __threadfence_system();
}

__device__ void meet(unsigned* counter, volatile unsigned* generation) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    unsigned g = *generation;
    if (atomicAdd(counter, 1) == gridDim.x - 1) {
      __threadfence();
      *counter = 0;
      __threadfence();
      *generation = g + 1;
    } else {
      while (*generation == g) {}
    }
    __threadfence();
  }
  __syncthreads();
}

extern "C" __global__ void grid_barrier(unsigned* counter, volatile unsigned* generation, unsigned* data, unsigned* out, int rounds) {
  for (int r = 0; r < rounds; r++) {
    data[blockIdx.x * blockDim.x + threadIdx.x] = r * 1000 + blockIdx.x;
    meet(counter, generation);
    out[blockIdx.x * blockDim.x + threadIdx.x] += data[(blockIdx.x + 1) % gridDim.x * blockDim.x + threadIdx.x];
    meet(counter, generation);
  }
}
