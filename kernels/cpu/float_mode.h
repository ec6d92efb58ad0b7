// Reductions compute in the default floating-point mode, whatever mode the caller's thread is in.
#pragma once

#include <cstdint>

namespace ronde {

/// While it lives: round to nearest even, subnormals kept, no traps. Programs built with -ffast-math run with subnormals flushed
/// to zero; without this, ranks in different programs would not get equal bits. Costs a few nanoseconds where nothing has to
/// change.
class FloatMode {
 public:
  FloatMode();
  ~FloatMode();
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;

 private:
  uint64_t saved_;
};

}  // namespace ronde
