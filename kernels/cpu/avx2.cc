#define HWY_BASELINE_TARGETS HWY_AVX2
#define RONDE_ISA avx2
#include "kernels/cpu/reduce-inl.h"
