#define HWY_BASELINE_TARGETS HWY_NEON
#define RONDE_ISA neon
#include "kernels/cpu/reduce-inl.h"
