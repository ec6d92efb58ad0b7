// Whether a communicator has a tuner plugin: all ranks the same one, or none.
#pragma once

#include <cstdint>

#include "tune/plugin.h"

namespace ronde {

/// What a rank tells the others: equal words for the same plugin in the same version; 0: nothing wanted; 1: wanted, and not to be
/// had.
uint64_t tuner_word(const Tuner* tuner, const Config& config);

}  // namespace ronde
