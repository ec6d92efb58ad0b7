// The settings that channels depend on.
#pragma once

#include <string>

#include "base/config.h"
#include "graph/search.h"

namespace ronde::graph {

/// What the settings say of rings, levels, adapters and channels; everything else as a Limits is by itself.
Limits limits_of(const Config& config);

/// All that of `limits` which decides what is found, for people and for hashing.
std::string describe(const Limits& limits);

}  // namespace ronde::graph
