// Copies and reductions over device memory, in the forms that a library's kernels use.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <stdint.h>

/// Copies `n` vectors of 16 bytes, four in flight a thread.
extern "C" __global__ void copy16(uint4* to, const uint4* from, size_t n) {
  const size_t stride = size_t(gridDim.x) * blockDim.x;
  size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i + 3 * stride < n; i += 4 * stride) {
    uint4 v[4];
#pragma unroll
    for (int k = 0; k < 4; k++) v[k] = from[i + k * stride];
#pragma unroll
    for (int k = 0; k < 4; k++) to[i + k * stride] = v[k];
  }
  for (; i < n; i += stride) to[i] = from[i];
}

extern "C" __global__ void copy_bytes(char* to, const char* from, size_t n) {
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) to[i] = from[i];
}

template <class T>
__device__ T apply(T a, T b, int operation) {
  switch (operation) {
    case 0: return a + b;
    case 1: return a * b;
    case 2: return a < b ? a : b;
    default: return a > b ? a : b;
  }
}

template <class T>
__device__ void reduce(T* to, const T* a, const T* b, int n, int operation) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) to[i] = apply(a[i], b[i], operation);
}

#define REDUCE(name, type) \
  extern "C" __global__ void reduce_##name(type* to, const type* a, const type* b, int n, int operation) { \
    reduce(to, a, b, n, operation); \
  }
REDUCE(int8, int8_t)
REDUCE(uint8, uint8_t)
REDUCE(int32, int32_t)
REDUCE(uint32, uint32_t)
REDUCE(int64, int64_t)
REDUCE(uint64, uint64_t)
REDUCE(float, float)
REDUCE(double, double)
REDUCE(half, __half)
REDUCE(bfloat16, __nv_bfloat16)

/// Packed: two halves an instruction.
extern "C" __global__ void reduce_half2(__half2* to, const __half2* a, const __half2* b, int n, int operation) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  switch (operation) {
    case 0: to[i] = __hadd2(a[i], b[i]); break;
    case 1: to[i] = __hmul2(a[i], b[i]); break;
    case 2: to[i] = __hmin2(a[i], b[i]); break;
    case 3: to[i] = __hmax2(a[i], b[i]); break;
    case 4: to[i] = __hfma2(a[i], b[i], to[i]); break;
    case 5: to[i] = __hmin2_nan(a[i], b[i]); break;
    case 6: to[i] = __hadd2_sat(a[i], b[i]); break;
    default: to[i] = __hsub2(a[i], __hneg2(b[i]));
  }
}

extern "C" __global__ void reduce_bfloat162(__nv_bfloat162* to, const __nv_bfloat162* a, const __nv_bfloat162* b, int n, int operation) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  switch (operation) {
    case 0: to[i] = __hadd2(a[i], b[i]); break;
    case 1: to[i] = __hmul2(a[i], b[i]); break;
    case 2: to[i] = __hmin2(a[i], b[i]); break;
    case 3: to[i] = __hmax2(a[i], b[i]); break;
#if __CUDA_ARCH__ >= 800
    case 4: to[i] = __hfma2(a[i], b[i], to[i]); break;
#endif
    default: to[i] = __hsub2(a[i], __habs2(b[i]));
  }
}

/// Sums of 16-bit and 8-bit floats in fp32, rounded once.
extern "C" __global__ void sum_half_in_float(__half2* to, const __half2* a, const __half2* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float2 x = __half22float2(a[i]), y = __half22float2(b[i]);
  to[i] = __floats2half2_rn(x.x + y.x, x.y + y.y);
}
extern "C" __global__ void sum_bfloat16_in_float(__nv_bfloat162* to, const __nv_bfloat162* a, const __nv_bfloat162* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float2 x = __bfloat1622float2(a[i]), y = __bfloat1622float2(b[i]);
  to[i] = __floats2bfloat162_rn(x.x + y.x, x.y + y.y);
}
template <class F8x2, class F8>
__device__ void sum8(F8x2* to, const F8x2* a, const F8x2* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float2 x = float2(a[i]), y = float2(b[i]);
  to[i] = F8x2(make_float2(x.x + y.x, x.y + y.y));
}
extern "C" __global__ void sum_e4m3(__nv_fp8x2_e4m3* to, const __nv_fp8x2_e4m3* a, const __nv_fp8x2_e4m3* b, int n) {
  sum8<__nv_fp8x2_e4m3, __nv_fp8_e4m3>(to, a, b, n);
}
extern "C" __global__ void sum_e5m2(__nv_fp8x2_e5m2* to, const __nv_fp8x2_e5m2* a, const __nv_fp8x2_e5m2* b, int n) {
  sum8<__nv_fp8x2_e5m2, __nv_fp8_e5m2>(to, a, b, n);
}
extern "C" __global__ void sum_one_e4m3(__nv_fp8_e4m3* to, const __nv_fp8_e4m3* a, const __nv_fp8_e4m3* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = __nv_fp8_e4m3(float(a[i]) + float(b[i]));
}
extern "C" __global__ void scale_float(float* to, const float* a, float by, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = a[i] * by + to[i];
}
extern "C" __global__ void divide(double* d, float* f, long long* l, unsigned* u, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  d[i] = d[i] / double(n) + sqrt(d[i]);
  f[i] = f[i] / float(n) + sqrtf(f[i]) + rsqrtf(f[i]) + exp2f(f[i]) + log2f(f[i]) + __fdividef(f[i], 3.f) + rintf(f[i]) + floorf(f[i]);
  l[i] = l[i] / n + l[i] % (n + 1);
  u[i] = u[i] / n + u[i] % (n + 1);
}
