#define HWY_BASELINE_TARGETS HWY_SSE4
#define RONDE_ISA sse4
#include "kernels/cpu/reduce-inl.h"
