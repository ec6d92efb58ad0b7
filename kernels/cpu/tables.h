// The tables of the single instruction sets, for choose_reduce_table and the tests.
#pragma once

#include <span>
#include <string_view>

#include "kernels/cpu/reduce.h"

namespace ronde {

/// Each is compiled in its own file, for its own instruction set, and may be called only where its supported() is true.
extern const ReduceTable avx512_table;
extern const ReduceTable avx2_table;
extern const ReduceTable sse4_table;
extern const ReduceTable neon_table;
/// Plain C++, on every machine: the reference that the others equal bit for bit.
extern const ReduceTable scalar_table;

/// Whether the running machine and its operating system have what the table needs.
bool avx512_supported();
bool avx2_supported();
bool sse4_supported();
bool neon_supported();
bool scalar_supported();

/// choose_reduce_table among `tables`, which are sorted best first.
Result<const ReduceTable*> choose_reduce_table(std::string_view isa, std::span<const ReduceTable* const> tables);

}  // namespace ronde
