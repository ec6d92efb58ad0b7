// The Bells of this process: one page set that every process which shares a communicator with it maps.
#pragma once

#include <cstdint>

#include "base/bell.h"
#include "base/result.h"

namespace ronde {

inline constexpr uint32_t kBells = 4096;
inline constexpr size_t kBellBytes = kBells * sizeof(Bell);

/// Keeps this process's Bells in being: they exist while something holds them (each Fabric and each lease does).
class BellHold {
 public:
  BellHold() = default;
  static Result<BellHold> take();
  BellHold(BellHold&& other) noexcept;
  BellHold& operator=(BellHold&& other) noexcept;
  ~BellHold();

 private:
  bool held_ = false;
};

/// This process's Bells; valid while a BellHold or a lease lives.
Bell* own_bells();
/// The descriptor of their memory, to be passed to a peer. Owned by the page set.
int bells_descriptor();
/// Rings every Bell that is leased: something happened that any thread may be waiting for.
void ring_leased_bells();

}  // namespace ronde
