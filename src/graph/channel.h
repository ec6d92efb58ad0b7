// A channel: one ring or tree over all devices of a communicator, what it carries, and the links that it takes.
#pragma once

#include <cstdint>
#include <vector>

#include "topo/paths.h"

namespace ronde::graph {

/// Devices are numbers into the list that the channel was made for: ranks. Either `ring` or `parent` is filled.
struct Channel {
  std::vector<int> ring;    ///< in the order in which data travels; the last sends to the first
  std::vector<int> parent;  ///< of a tree, by device; -1 for its root
  int64_t rate = 0;         ///< MB/s over every hop: of a ring once, in its direction; of a tree upwards and as much downwards
  /// Of a ring, the way from ring[i] to its successor; of a tree, from device i to its parent (and back over the same links),
  /// empty for the root. None at all: the best paths are meant.
  std::vector<std::vector<topo::ArcId>> hops;
  bool operator==(const Channel&) const = default;
};

}  // namespace ronde::graph
