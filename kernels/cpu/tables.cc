#include "kernels/cpu/tables.h"

#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <fmt/core.h>

#include "base/words.h"

namespace ronde {
namespace {

#if defined(__x86_64__)
constexpr const ReduceTable* kTables[] = {&avx512_table, &avx2_table, &sse4_table, &scalar_table};
#elif defined(__aarch64__)
constexpr const ReduceTable* kTables[] = {&neon_table, &scalar_table};
#else
constexpr const ReduceTable* kTables[] = {&scalar_table};
#endif

std::string names(std::span<const ReduceTable* const> tables, bool supported_only) {
  std::string list;
  for (const ReduceTable* table : tables) {
    if (supported_only && !table->supported()) continue;
    list += list.empty() ? "" : ", ";
    list += table->isa;
  }
  return list;
}

}  // namespace

#if defined(__x86_64__)
bool sse4_supported() { return __builtin_cpu_supports("sse4.2"); }

bool avx2_supported() {
  // Not every compiler's __builtin_cpu_supports knows the half conversions. Whether the system saves the registers, avx2 has
  // answered.
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
  return f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2");
}

bool avx512_supported() {
  return avx2_supported() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd");
}
#endif

bool neon_supported() { return true; }  // part of every aarch64 machine
bool scalar_supported() { return true; }

std::span<const ReduceTable* const> reduce_tables() { return kTables; }

Result<const ReduceTable*> choose_reduce_table(std::string_view isa) { return choose_reduce_table(isa, kTables); }

Result<const ReduceTable*> choose_reduce_table(std::string_view isa, std::span<const ReduceTable* const> tables) {
  const bool any = isa.empty() || same_word(isa, "auto");
  bool known = false;
  for (const ReduceTable* table : tables) {
    if (!any && !same_word(table->isa, isa)) continue;
    if (table->supported()) return table;
    known = true;
  }
  return fail(
      Code::invalid_argument,
      fmt::format("Instruction set '{}' cannot be used for reductions: {}. This build has {}; this machine supports {}. Set "
                  "RONDE_ISA to one of the latter, or to auto for the best of them.",
                  isa, known ? "this machine does not have it" : "there is no such name", names(tables, false),
                  names(tables, true)),
      Scope::process);
}

}  // namespace ronde
