// Inputs whose reductions are exact in every order of evaluation, and what must come out. Nothing here uses the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "bench/element.h"

namespace ronde::bench {

/// none: data is only moved. mulsum: a pre-multiplied sum whose scalar is premul_scalar(rank).
enum class Op { sum, prod, min, max, avg, mulsum, none };
inline constexpr int kReductions = 6;

/// nccl-tests' name: sum, prod, min, max, avg, mulsum, none.
std::string_view op_name(Op op);
std::optional<Op> op_from_name(std::string_view name);

/// 1 on even ranks, 2 on odd ones.
inline int premul_scalar(int rank) { return rank % 2 == 0 ? 1 : 2; }

/// The inputs of all ranks for one type, operation and number of ranks, as functions of (element index, seed, rank).
///
/// Integers take their full range (arithmetic wraps), but for avg, whose sum stays within the type. Floats:
/// - sum, mulsum: small integers times a power of two that depends on the index alone, bounded so that every partial sum is a
/// number of the
///   type. Where a type is too narrow for all ranks (8-bit floats), a few ranks, other ones at each index, hold non-zeros.
/// - prod: powers of two, one of the ranks with a mantissa, exponents bounded likewise.
/// - min, max: any finite number.
/// - avg: one rank, another at each index, holds a number whose quotient by the number of ranks rounds the same way however it is
///   computed (division, or multiplication with the reciprocal); the others hold zeros.
/// Data that is only moved is any bit pattern. Const member functions may be called from several threads.
class Inputs {
 public:
  Inputs(ncclDataType_t type, Op op, int nranks, uint64_t seed);
  ~Inputs();
  Inputs(Inputs&&) noexcept;
  Inputs& operator=(Inputs&&) noexcept;

  /// Writes elements [first, first + count) of `rank`'s input to `out` (any alignment).
  void input(int rank, size_t first, size_t count, void* out) const;
  /// Writes what the reduction of elements [first, first + count) over all ranks must be. Not for Op::none.
  void reduced(size_t first, size_t count, void* out) const;

 private:
  struct Recipe;
  std::unique_ptr<Recipe> recipe_;
};

}  // namespace ronde::bench
