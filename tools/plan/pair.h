// Two ranks of this host that do the same Tasks at the same time. Part of measure().
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "nccl.h"
#include "tools/plan/measure.h"
#include "tools/plan/places.h"

namespace ronde::plan::tool {

inline constexpr int kRanks = 2;

/// In a cache line of its own, as the library's counters are.
struct alignas(64) Count {
  std::atomic<uint64_t> value{0};
};

/// What both ranks see.
struct Board {
  std::atomic<uint32_t> arrived{0};
  std::atomic<uint32_t> round{0};
  std::atomic<uint32_t> failed{0};
  Count published[kRanks];  ///< pieces
  Count taken[kRanks];
  Count steps[kRanks];
  Count ball;                                 ///< goes to and fro
  alignas(64) std::atomic<uint32_t> over{0};  ///< 1: there are samples enough
  pid_t pid[kRanks] = {};
  std::byte* from[kRanks] = {};  ///< what the other may read: written before, and written just now
  std::byte* fresh[kRanks] = {};
  ncclUniqueId ids[2] = {};
  char what[256] = {};
};

/// A rank's whole life: it does `tasks` over and over, and writes its samples into `samples`. What fails is said on the board.
void live(Board& board, int rank, HopKind kind, const std::vector<Task>& tasks, Samples samples);

}  // namespace ronde::plan::tool
