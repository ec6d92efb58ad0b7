// Channels for the devices of one host, or of one NVLink domain.
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "graph/pack.h"
#include "graph/rules.h"

namespace ronde::graph {

/// As many are searched together; more only where one NVLink switch joins them all. (The ways between them grow with the square.)
inline constexpr size_t kMostDevices = 1024;

struct Limits {
  int max_channels = 32;
  int min_channels = 1;  ///< of fewer, some are divided
  /// What one channel's threads move at most, in MB/s; more only where max_channels times this is not enough for the links.
  int64_t max_rate = 50000;
  /// How many ways between devices are looked at, in all: bounds the time, by a number that is the same on every rank. Of more
  /// than 32 devices as many times more as there are more pairs.
  int64_t steps = 450000;
  Rules rules;
};

struct Channels {
  std::vector<Channel> channels;  ///< all of one shape and rate; at least one
  int64_t bound = 0;              ///< MB/s that no set of channels over these ways exceeds in total
  int64_t steps = 0;              ///< that were taken
};

/// The channels with the highest total rate that the search finds; of equal totals the fewest channels. No link carries more
/// than it can. devices[r] is the device of rank r, at least one, none twice; which rank has which device does not change the
/// channels but for the ranks in them. An error, which names two devices, where some have no way to each other but a network, and
/// where they are too many. Integers throughout and no clock: equal input gives equal channels on every host.
Result<Channels> search(const topo::Machine& machine, std::span<const topo::NodeId> devices, Shape shape,
                        const Limits& limits = {});

}  // namespace ronde::graph
