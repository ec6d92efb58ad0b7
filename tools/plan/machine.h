// The ranks of a machine as the choice sees them.
#pragma once

#include "base/result.h"
#include "topo/machine.h"
#include "tune/choose.h"

namespace ronde::plan::tool {

struct MachineRanks {
  int ranks = 1;
  NodeShape nodes;
  LinkRates links;
};

/// All GPUs of `copies` of the machine, joined by the network, or all its CPU ranks where it has no GPU; rates are those of the
/// channels, at most `most_channels`, that a search finds. invalid_argument: neither, or nothing that joins them.
Result<MachineRanks> ranks_of(const topo::Machine& machine, int copies, int most_channels = kMostChannels);

}  // namespace ronde::plan::tool
