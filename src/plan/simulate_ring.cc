// The closed form of a ring in which every rank does the same at the same time.
#include <algorithm>

#include "plan/simulate_impl.h"

namespace ronde {
// Of each slice, a block crosses 2 (n-1) hops: the first is fetched while the next is sent, partial sums are sent, whole ones
// fetched. Where there are more than two ranks, the Move that completes a sum finds both operands in its own memory. A hop has
// its latency and a slot at both ends; a lane begins its next slice when it has ended one.
int64_t even_ring_nanos(const EvenRing& ring, const Conditions& conditions) {
  const Costs& costs = conditions.costs != nullptr ? *conditions.costs : built_in_costs();
  const HopCost& hop = costs.hop(conditions.protocol, ring.kind);
  const auto n = static_cast<uint64_t>(ring.ranks);
  const uint64_t part = std::min(ring.bytes, sim::share_of(ring.bytes, static_cast<uint64_t>(ring.channels)));
  const uint64_t block = std::min(part, sim::share_of(part, n));
  const auto speed =
      static_cast<uint64_t>(std::max<int64_t>(1, std::min(costs.gpu_channel, ring.rate / ring.channels * hop.efficiency / 1000)));
  const auto own = static_cast<uint64_t>(costs.gpu_channel);
  const uint64_t steps = 2 * (n - 1);
  const uint64_t slice = std::min(conditions.slice, block);
  const uint64_t slices = slice == 0 ? 1 : (block + slice - 1) / slice;
  const uint64_t fixed = slices * (steps * static_cast<uint64_t>(hop.latency) + 2 * steps * static_cast<uint64_t>(hop.slot));
  const uint64_t data = (block * sim::kWorkPerByte / speed * steps + (n > 2 ? block * sim::kWorkPerByte / own : 0)) / sim::kPicos;
  const bool lends = conditions.lends && conditions.protocol == Protocol::simple && slice >= conditions.lend_threshold;
  return costs.gpu_launch + static_cast<int64_t>(fixed + data) + (lends ? hop.latency : 0);
}

}  // namespace ronde
