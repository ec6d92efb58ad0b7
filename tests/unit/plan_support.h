// What the tests of plan share: worlds of Programs, and an executor that runs them on numbers in any order it likes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/algorithm.h"
#include "plan/verify.h"

namespace ronde::test {

std::vector<int> ordered_ring(int n);
/// A permutation of 0..n-1 that depends on n and seed alone.
std::vector<int> shuffled_ring(int n, uint32_t seed);

/// A channel over nodes of these sizes: by default rank after rank, with `interleaved` in turn (0, 1, 0, 1 ..) as long as a node has
/// room; `seed` other than 0 shuffles nodes and the ranks within each.
Channel channel_of(const std::vector<int>& node_sizes, bool interleaved = false, uint32_t seed = 0);

/// The Programs of all ranks. A failure of build() is a std::logic_error.
std::vector<Program> world_of(const Algorithm& algorithm, const CollSpec& spec, const Channel& channel);
std::vector<Program> world_of(const Algorithm& algorithm, const CollSpec& spec, const std::vector<int>& ring);

/// All faults in one text.
std::string faults_of(const Verdict& verdict);
std::string describe(const Algorithm& algorithm, const CollSpec& spec);

/// How play() runs a world.
struct Play {
  bool in_place = false;
  bool merged = false;
  int slots = 2;
  int slices = 3;
  int lend_percent = 100;  ///< of the slots that may lend
  uint32_t seed = 0;       ///< of the order in which lanes run
};

/// Runs the Programs event by event on 64-bit numbers in an order that `seed` decides: independent of verify, and no proof. Reads
/// of a lent block see what it holds when they happen. Inputs are scaled where they are read as input, results where they are
/// Final. Returns what is wrong in the end, or nothing. The Programs must have passed verify's checks of shape.
std::string play(const CollSpec& spec, const std::vector<Program>& world, const Play& how);

}  // namespace ronde::test
