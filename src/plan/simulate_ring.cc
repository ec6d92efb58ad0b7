// The closed form of a ring in which every rank does the same at the same time.
#include <algorithm>

#include "plan/simulate_impl.h"

namespace ronde {
namespace {

/// ns that `bytes` take at MB/s.
int64_t nanos_at(uint64_t bytes, int64_t rate) {
  return static_cast<int64_t>(static_cast<__int128>(bytes) * 1000 / std::max<int64_t>(1, rate));
}

/// MB/s of one channel on what all share.
int64_t channel_rate(const EvenRing& ring, int64_t all, const HopCost& hop) { return all / ring.channels * hop.efficiency / 1000; }

}  // namespace

// Of each slice, a block crosses 2 (n-1) hops: the first is fetched while the next is sent, partial sums are sent, whole ones
// fetched. Where there are more than two ranks, the Move that completes a sum finds both operands in its own memory. A hop has
// its latency and a slot at both ends; a lane begins its next slice when it has ended one. From node to node a slot is carried
// while the lane goes on, so that the network paces the ring only where it takes longer than a hop does in the mean.
int64_t even_ring_nanos(const EvenRing& ring, const Conditions& conditions) {
  const Costs& costs = conditions.costs != nullptr ? *conditions.costs : built_in_costs();
  const HopCost& near = costs.hop(conditions.protocol, ring.kind);
  const HopCost& far = costs.hop(conditions.protocol, HopKind::network);
  const uint64_t part = std::min(ring.bytes, sim::share_of(ring.bytes, static_cast<uint64_t>(ring.channels)));
  const uint64_t block = std::min(part, sim::share_of(part, static_cast<uint64_t>(ring.ranks)));
  const uint64_t slice = std::min(conditions.slice, block);
  const auto slices = static_cast<int64_t>(slice == 0 ? 1 : ceil_div(block, slice));
  const int64_t steps = 2 * (ring.ranks - 1);
  // Of the chain that crosses most often.
  const int64_t far_hops = ring.nodes > 1 ? (steps * ring.nodes + ring.ranks - 1) / ring.ranks : 0;
  // All slices together, as if the lane did one hop after the other.
  const int64_t data = nanos_at(block, std::min(costs.gpu_channel, channel_rate(ring, ring.rate, near)));
  const int64_t own = nanos_at(block, costs.gpu_channel);
  const int64_t carried = ring.nodes > 1 ? nanos_at(block, channel_rate(ring, ring.network, far)) : 0;
  const int64_t near_nanos = (steps - far_hops) * (slices * (near.latency + 2 * near.slot) + data);
  const int64_t far_nanos = far_hops * (slices * (far.latency + 2 * far.slot) + own + carried);
  const int64_t last = ring.ranks > 2 ? own : 0;
  const bool lends = conditions.lends && conditions.protocol == Protocol::simple && slice >= conditions.lend_threshold;
  return costs.gpu_launch + std::max(near_nanos + far_nanos, steps * carried) + last + (lends ? near.latency : 0);
}

}  // namespace ronde
