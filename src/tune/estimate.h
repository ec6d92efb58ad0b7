// How long calls take by the cost model, alone and with others.
#pragma once

#include <cstdint>

#include "tune/choose.h"

namespace ronde {

/// One call on one rank, in nanoseconds.
struct Estimate {
  uint64_t nanos = 0;  ///< from start to end
  uint64_t busy = 0;   ///< of those, what the rank's thread works; it may do other calls' work in the rest
};

/// A collective that runs as chosen.
Estimate estimate(const CallShape& call, const Choice& choice, const TuneInputs& inputs);
/// A message of `bytes`, at either end.
Estimate estimate_message(size_t bytes, const TuneInputs& inputs);

}  // namespace ronde
