// The registry of algorithms: pure functions from a CollSpec to Programs.
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"
#include "plan/program.h"

namespace ronde {

/// One way to do some collectives. `name` is the lower-case word of NCCL_ALGO (ring, tree) or ronde's own (hd, direct, oneshot, chain, hier).
/// `build` gives the Program of `rank`; it is called only where `supports` says yes, for rank in [0, spec.ranks), and channel.ring
/// a permutation of 0..ranks-1. Pure: no I/O, no globals; thread-safe.
/// `several_nodes`: made for ranks on several nodes (Channel::node_of); right for one node too, but nothing is gained by it there.
/// `canonical`: each element is reduced by one left fold over ranks 0..n-1 in a single Move (verify proves it), so that the bits of a result
/// depend on data and rank order alone, wide accumulation is rounded once, and integer averages cannot overflow on the way.
struct Algorithm {
  std::string_view name;
  bool (*supports)(const CollSpec&);
  bool (*canonical)(const CollSpec&);
  Result<Program> (*build)(const CollSpec&, const Channel&, int rank);
  bool several_nodes = false;
};

/// All algorithms, in order of preference when costs are equal.
std::span<const Algorithm> algorithms();
/// By name (case-insensitive); nullptr where there is none.
const Algorithm* find_algorithm(std::string_view name);

}  // namespace ronde
