// Running a grid of an emulated GPU.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "gpu-emulator/ptx/module.h"

namespace emu {

class Memory;

/// A launch: what cuLaunchKernel is given.
struct Grid {
  const Module* module = nullptr;
  const Function* function = nullptr;
  std::array<uint32_t, 3> blocks{1, 1, 1};
  std::array<uint32_t, 3> threads{1, 1, 1};
  uint32_t shared_bytes = 0;              ///< dynamic shared memory
  std::span<const std::byte> parameters;  ///< laid out as function->parameters says; copied when the launch begins
  int device = 0;
  bool cooperative = false;
  /// Where the module's variables lie on this device.
  std::function<uint64_t(const Variable&)> address_of;
};

/// How the emulated hardware behaves. A launch alone on its memory is repeatable for one seed.
struct Options {
  uint64_t seed = 1;
  /// Stores that are no releases wait in a buffer of their warp and leave it in any order, until a fence, release or barrier.
  bool weak_stores = false;
  /// Loads that are no acquires may return what their block has read before, until a fence or acquire.
  bool stale_loads = false;
  /// A vector's store may become visible in pieces of 8 bytes.
  bool harsh_vectors = false;
  /// Diverged lanes run in any order, not so that they meet again soon.
  bool any_order = false;
  /// Ordinary accesses that no acquire and release order are errors. Slow.
  bool races = false;
  /// Ends a launch with a dump of its warps after so many milliseconds; 0: never.
  uint64_t limit_ms = 0;
};

/// Runs `grid` to its end in the calling thread. Blocks of a grid are all resident at once; grids that must wait for each other
/// need a thread each. Empty when all threads have ended; otherwise what went wrong, with kernel, block, thread, PTX line and
/// source line. When `stop` is set the launch ends within a few milliseconds; the text then tells where each warp stands. Thread
/// safe.
std::string run(const Grid& grid, Memory& memory, const Options& options, const std::atomic<bool>& stop);

}  // namespace emu
