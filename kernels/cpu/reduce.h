// Reductions on the CPU: one table of functions per instruction set, from one source.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "base/types.h"

namespace ronde {

/// What is multiplied before and divided after a reduction.
struct Scale {
  int pre_index = -1;     ///< sum, premul_sum: this source is multiplied by `factor` first (the product rounded to the type); -1: none
  uint64_t factor = 0;    ///< bits of one element of the type, in the low bytes (little-endian memory order)
  int64_t divisor = 1;    ///< avg: the result is divided by it (number of ranks, at least 1); 1 leaves a plain sum
};

/// dst[i] = src[0][i] op src[1][i] op ... op src[n-1][i], a left fold, for i in [0, count). n >= 1. dst may be the same address as any of
/// the sources, and otherwise does not overlap them. No alignment is required beyond none at all: pointers may be odd.
/// 16- and 8-bit floats fold in fp32 and round once; docs/numerics.md defines every bit. One source that is neither multiplied nor
/// divided is copied. Any thread, any floating-point mode.
using ReduceFn = void (*)(void* dst, const void* const* src, int n, size_t count, Scale scale);

/// The functions of one instruction set. premul_sum has the function of sum (Scale does it).
struct ReduceTable {
  std::string_view isa;  ///< scalar, sse4, avx2, avx512, neon
  bool (*supported)();   ///< on the running machine
  ReduceFn fn[kDataTypes][kReduceOps];
};

/// Every table of this build, best first, the scalar one last.
std::span<const ReduceTable* const> reduce_tables();
/// The table named `isa` ("" or "auto": the best supported one). invalid_argument names the tables that would do.
Result<const ReduceTable*> choose_reduce_table(std::string_view isa);

}  // namespace ronde
