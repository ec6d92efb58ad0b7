// The kernels of one element type (RONDE_FAMILY), protocol Simple. Each has C linkage: ronde_<family>_<operation>.
#include "kernels/cuda/interpret.cuh"

using namespace ronde::gpu;

// A block has 512 threads and a multiprocessor to itself. What holds at 96 registers leaves room beside it.
#if RONDE_FAMILY == 1 || RONDE_FAMILY == 3 || RONDE_FAMILY == 6 || RONDE_FAMILY >= 8
#define RONDE_REGISTERS 128
#else
#define RONDE_REGISTERS 96
#endif
#define RONDE_KERNEL(name, ...)                                                                                  \
  extern "C" __global__ void __maxnreg__(RONDE_REGISTERS) name(const __grid_constant__ ronde::gpu::Launch launch) { \
    interpret<__VA_ARGS__>(launch);                                                      \
  }

#define RONDE_REAL(name, E)                                \
  RONDE_KERNEL(ronde_##name##_sum, RealSum<E>)      \
  RONDE_KERNEL(ronde_##name##_prod, RealProd<E>)      \
  RONDE_KERNEL(ronde_##name##_max, RealPick<E, true>)      \
  RONDE_KERNEL(ronde_##name##_min, RealPick<E, false>)

#define RONDE_INTEGER(bits, Wide)                                         \
  RONDE_KERNEL(ronde_uint##bits##_sum, IntegerSum<uint##bits##_t>) \
  RONDE_KERNEL(ronde_uint##bits##_prod, IntegerProd<uint##bits##_t>) \
  RONDE_KERNEL(ronde_uint##bits##_max, IntegerPick<uint##bits##_t, true>) \
  RONDE_KERNEL(ronde_uint##bits##_min, IntegerPick<uint##bits##_t, false>) \
  RONDE_KERNEL(ronde_int##bits##_max, IntegerPick<int##bits##_t, true>)   \
  RONDE_KERNEL(ronde_int##bits##_min, IntegerPick<int##bits##_t, false>)  \
  RONDE_KERNEL(ronde_uint##bits##_avg, IntegerAverage<uint##bits##_t, unsigned Wide>) \
  RONDE_KERNEL(ronde_int##bits##_avg, IntegerAverage<int##bits##_t, Wide>)

#if RONDE_FAMILY == 0
RONDE_KERNEL(ronde_copy, Copy)
#elif RONDE_FAMILY == 1
RONDE_INTEGER(8, int)
#elif RONDE_FAMILY == 2
RONDE_INTEGER(32, long long)
#elif RONDE_FAMILY == 3
RONDE_INTEGER(64, __int128)
#elif RONDE_FAMILY == 4
RONDE_REAL(half, Half)
#elif RONDE_FAMILY == 5
RONDE_REAL(float, Float)
#elif RONDE_FAMILY == 6
RONDE_REAL(double, Double)
#elif RONDE_FAMILY == 7
RONDE_REAL(bfloat16, Bfloat)
#elif RONDE_FAMILY == 8
RONDE_REAL(f8e4m3, E4m3)
#elif RONDE_FAMILY == 9
RONDE_REAL(f8e5m2, E5m2)
#endif
