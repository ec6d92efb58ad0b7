#define HWY_BASELINE_TARGETS HWY_AVX3
#define RONDE_ISA avx512
#include "kernels/cpu/reduce-inl.h"
