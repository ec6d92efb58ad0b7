// Several of one machine, for plans of what is not there.
#pragma once

#include "topo/machine.h"

namespace ronde::topo {

/// `n` copies, at least one, joined by their ports' network. Copy i has hosts of its own (of another identity), and ranks above
/// those of copy i - 1: rank + i * (highest rank + 1), or none where that passes 2^31. n = 1 is the Machine itself.
Machine copies(const Machine& machine, int n);

}  // namespace ronde::topo
