// What else the language makes of kernels: tables, calls, local memory, bit tricks.
#include <stdint.h>
#include <stdio.h>

__constant__ int table[8] = {3, 1, 4, 1, 5, 9, 2, 6};
__device__ int counter = 5;
__device__ int* pointer = &counter;
__device__ float values[4] = {1.5f, -2.f, 0.f, 8.f};

extern "C" __global__ void switches(int* out, const int* in, int n) {
  int i = threadIdx.x;
  if (i >= n) return;
  int v = in[i], r;
  switch (v) {
    case 0: r = v * 3; break;
    case 1: r = __popc(i) + 100; break;
    case 2: r = __clz(i) ^ 5; break;
    case 3: r = i / 3; break;
    case 4: r = __brev(i) >> 3; break;
    case 5: r = __ffs(i); out[i + n] = 4; break;
    case 6: r = table[i & 7]; break;
    case 7: r = counter + *pointer; break;
    case 8: r = int(values[i & 3] * 2.f); break;
    default: r = -1;
  }
  out[i] = r;
}

__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
extern "C" __global__ void recursion(int* out) { out[threadIdx.x] = fibonacci(threadIdx.x % 10); }

typedef int (*Operation)(int, int);
__device__ __noinline__ int add(int a, int b) { return a + b; }
__device__ __noinline__ int multiply(int a, int b) { return a * b; }
__device__ Operation operations[2] = {add, multiply};
extern "C" __global__ void pointers(int* out, int a) { out[threadIdx.x] = operations[threadIdx.x & 1](a, threadIdx.x); }

extern "C" __global__ void local(int* out, int n) {
  int stack[32];
  for (int i = 0; i < n; i++) stack[(i * 7 + threadIdx.x) & 31] = i;
  int sum = 0;
  for (int i = 0; i < n; i++) sum += stack[i & 31] * i;
  out[threadIdx.x] = sum;
}

struct Big {
  int v[64];
  const char* name;
  short s;
};
extern "C" __global__ void structs(int* out, const __grid_constant__ Big big) { out[threadIdx.x] = big.v[threadIdx.x & 63] + big.s; }

extern "C" __global__ void dynamic_shared(int* out) {
  extern __shared__ int4 dynamic[];
  __shared__ short fixed[33];
  dynamic[threadIdx.x] = make_int4(threadIdx.x, 1, 2, 3);
  if (threadIdx.x < 33) fixed[threadIdx.x] = threadIdx.x * 2;
  __syncthreads();
  int4 v = dynamic[blockDim.x - 1 - threadIdx.x];
  out[threadIdx.x] = v.x + v.y * v.z + v.w + fixed[threadIdx.x % 33];
}

extern "C" __global__ void bits(uint32_t* u, uint64_t* l, const uint32_t* a, const uint64_t* b) {
  int i = threadIdx.x;
  uint32_t x = a[i], y = a[i ^ 1];
  uint64_t p = b[i], q = b[i ^ 1];
  u[i * 8 + 0] = __byte_perm(x, y, 0x5140) + __byte_perm(x, y, y & 0x7777);
  u[i * 8 + 1] = __funnelshift_l(x, y, y) + __funnelshift_rc(x, y, x & 63);
  u[i * 8 + 2] = __umulhi(x, y) + __mulhi(int(x), int(y)) + __umul24(x, y) + __mul24(x, y);
  u[i * 8 + 3] = (x & y) | (~x & p) ^ (x >> (y & 31));
  u[i * 8 + 4] = __sad(x, y, 3) + __usad(x, y, 4) + __hadd(int(x), int(y)) + abs(int(x)) + min(int(x), int(y)) + max(x, y);
  u[i * 8 + 5] = (int8_t)x + (int16_t)y + (uint8_t)(x >> 8) + (x == y) + (int(x) < int(y));
  u[i * 8 + 6] = (x >> 5 & 0x1ff) | (y & 0x1f) << 20;
  u[i * 8 + 7] = __vadd4(x, y) ^ __vmaxu2(x, y) ^ __dp4a(x, y, 1u);
  l[i * 4 + 0] = __umul64hi(p, q) + p * q + __mul64hi(p, q);
  l[i * 4 + 1] = __popcll(p) + __clzll(q) + __brevll(p) + __ffsll(q);
  l[i * 4 + 2] = (p << (x & 63)) + (q >> (y & 63)) + uint64_t(int64_t(p) >> 7) + p / (q | 1) + p % (q | 1);
  l[i * 4 + 3] = uint64_t(float(int(x))) + uint64_t(double(q)) + uint64_t(int64_t(float(int64_t(p)))) + __float_as_uint(float(y)) + llrint(double(p));
}

extern "C" __global__ void prints(int n) {
  if (threadIdx.x == 0) printf("n is %d\n", n);
}
extern "C" __global__ void traps(int n) {
  if (threadIdx.x == n) __trap();
}
extern "C" __global__ void specials(uint32_t* out) {
  uint32_t v[8];
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(v[0]));
  asm volatile("mov.u32 %0, %%warpid;" : "=r"(v[1]));
  asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(v[2]));
  asm volatile("{ .reg .pred p; .reg .b32 t; mov.u32 t, %%tid.x; setp.gt.u32 p, t, 3; selp.b32 t, 1, 0, p; @!p mov.u32 t, %%ctaid.x; add.u32 %0, t, 1; }" : "=r"(v[3]));
  asm volatile("mov.u32 %0, %%nsmid;" : "=r"(v[4]));
  uint64_t t0 = clock64(), g;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(g));
  v[5] = clock() != 0;
  v[6] = g > 1000 && clock64() >= t0;
  asm volatile("{\n\t.reg .pred p;\n\t{ .reg .u32 a; mov.u32 a, 5; setp.eq.u32 p, a, 5; }\n\tselp.u32 %0, 9, 8, p;\n\t}" : "=r"(v[7]));
  for (int i = 0; i < 8; i++) out[threadIdx.x * 8 + i] = v[i];
}
