// How long what an algorithm does takes, by the table of constants.
#include <algorithm>
#include <utility>

#include "base/integers.h"
#include "tune/model.h"

namespace ronde {
namespace {

constexpr uint64_t kMostTouched = uint64_t{1} << 40;  // curves are flat long before

// Counts reach 2^63 bytes and 2^20 rank pairs: hence times() and plus(), for which too much is as good as infinite.

uint64_t at_least_one(int64_t value) { return static_cast<uint64_t>(std::max<int64_t>(1, value)); }

const Costs& table_of(const TuneInputs& inputs) { return inputs.costs != nullptr ? *inputs.costs : built_in_costs(); }
HopKind between_ranks(const TuneInputs& inputs) { return inputs.one_process ? HopKind::process : HopKind::shm; }

/// MB/s where all ranks are at it and each touches `bytes`; so bounded that fewer bytes never take longer.
uint64_t rate_of(const Curve& curve, uint64_t bytes) {
  uint64_t rate = static_cast<uint64_t>(curve.at(static_cast<int64_t>(bytes)).shared);
  for (const CurvePoint& point : curve.points) {
    const uint64_t from = static_cast<uint64_t>(point.bytes);
    if (from < bytes) rate = std::min(rate, times(static_cast<uint64_t>(point.shared), bytes) / from);
  }
  return std::max<uint64_t>(1, rate);
}
uint64_t nanos_at(uint64_t bytes, uint64_t rate) { return times(bytes, 1000) / rate; }

/// What a call's ranks spend on its parts: ns, and MB/s.
struct Pace {
  uint64_t slot, fold, copy, publish, far_slot, send, receive;
  bool lent;

  Pace(const Footprint& footprint, const Execution& run, const TuneInputs& inputs) {
    const Costs& costs = table_of(inputs);
    const uint64_t in_slot = times(std::min<uint64_t>(run.block, run.slice), run.merged ? footprint.widest : 1);
    lent = inputs.lends && run.block > 0 && in_slot >= inputs.lend_threshold;
    const bool alone = inputs.nodes.several() && inputs.nodes.most == 1;  // on its node: what comes, comes over the network
    const HopKind memory = lent && !alone ? between_ranks(inputs) : HopKind::process;  // slots lie in the memory of both
    // What all ranks together hold of the data, once read and once written.
    const uint64_t all = times(times(run.block, footprint.blocks), 2 * static_cast<uint64_t>(run.channels));
    const uint64_t touched = std::clamp<uint64_t>(all, 64, kMostTouched);
    const auto rate = [&](CpuWork work, HopKind kind) { return rate_of(costs.curve(work, kind), touched); };
    slot = static_cast<uint64_t>(costs.hop(Protocol::simple, between_ranks(inputs)).slot);
    fold = rate(CpuWork::fold, memory);
    copy = rate(CpuWork::pull, memory);
    if (!lent) copy = std::min(copy, rate(CpuWork::take, memory));
    publish = rate(CpuWork::publish, HopKind::process);
    far_slot = static_cast<uint64_t>(costs.cpu_net_slot);
    send = static_cast<uint64_t>(costs.cpu_net_send);
    receive = static_cast<uint64_t>(costs.cpu_net_receive);
  }
};

/// Nanoseconds that one core needs for `work` on blocks of run.block bytes, the network aside.
uint64_t work_nanos(const Work& work, const Execution& run, uint64_t slices, const Pace& pace) {
  const uint64_t written = work.written + (pace.lent ? 0 : work.staged);
  const uint64_t messages = times(run.merged ? work.merged_messages : work.messages, slices);
  const uint64_t kept =
      plus(nanos_at(times(work.reduced, run.block), pace.fold), nanos_at(times(work.copied, run.block), pace.copy));
  return plus(plus(kept, nanos_at(times(written, run.block), pace.publish)), times(messages, pace.slot));
}

/// Nanoseconds that one core needs for what `work` sends to other nodes and receives from them, where cores do that.
uint64_t network_nanos(const Work& work, const Execution& run, uint64_t slices, const Pace& pace) {
  const uint64_t blocks = plus(work.sent, work.received);
  const uint64_t merged = ceil_div(times(blocks, work.merged_messages), std::max<uint64_t>(1, work.messages));
  const uint64_t slots = times(times(run.merged ? merged : blocks, slices), pace.far_slot);
  return plus(slots, plus(nanos_at(times(work.sent, run.block), pace.send), nanos_at(times(work.received, run.block), pace.receive)));
}

/// A hop from node to node: its own time, and writing and reading the slot.
uint64_t far_hop(const Costs& costs) {
  const HopCost& hop = costs.hop(Protocol::simple, HopKind::network);
  return static_cast<uint64_t>(hop.latency + 2 * hop.slot);
}

/// What a call's channels have of a rate that all together have.
int64_t of_channels(int64_t rate, const TuneInputs& inputs, int channels) {
  const int all = std::max(1, inputs.links.channels);
  return rate / all * std::min(channels, all);
}

/// MB/s of data that the channels of a call carry from node to node; 0: no limit is known.
uint64_t far_rate(const TuneInputs& inputs, int channels) {
  const int64_t rate = of_channels(inputs.links.network, inputs, channels);
  return static_cast<uint64_t>(rate * table_of(inputs).hop(Protocol::simple, HopKind::network).efficiency / 1000);
}

/// What crosses between nodes, in ns.
uint64_t crossing_nanos(const Footprint& footprint, const Execution& run, const TuneInputs& inputs) {
  const uint64_t rate = far_rate(inputs, run.channels);
  const uint64_t bytes = times(times(footprint.crossing, run.block), static_cast<uint64_t>(run.channels));
  return rate == 0 || footprint.crossing == 0 ? 0 : nanos_at(bytes, rate);
}

uint64_t joined(const Footprint& footprint, uint64_t inside, uint64_t between) {
  return footprint.by_turns ? plus(inside, between) : std::max(inside, between);
}

// Devices that move data over links by themselves, with all channels at once:
//   time = launch + hops + the data of the busiest rank and node, and what its slots take; a pipeline must be filled first
uint64_t nanos_over_links(const Footprint& footprint, const Execution& run, const TuneInputs& inputs) {
  const Costs& costs = table_of(inputs);
  const HopCost& hop = costs.hop(Protocol::simple, inputs.links.kind);
  const uint64_t channels = static_cast<uint64_t>(run.channels);
  const int64_t carried = of_channels(inputs.links.inside, inputs, run.channels);
  const uint64_t rate = at_least_one(std::min(carried, costs.gpu_channel * run.channels) * hop.efficiency / 1000);
  const uint64_t slices = std::max<uint64_t>(1, ceil_div(run.block, run.slice));
  const uint64_t messages = times(run.merged ? footprint.busiest.merged_messages : footprint.busiest.messages, slices);
  const uint64_t near =
      plus(nanos_at(times(times(footprint.near, run.block), channels), rate), times(messages, static_cast<uint64_t>(hop.slot)));
  const uint64_t between = crossing_nanos(footprint, run, inputs);
  const uint64_t near_hops = footprint.depth - footprint.far_hops;
  const uint64_t waiting =
      plus(times(near_hops, static_cast<uint64_t>(hop.latency + 2 * hop.slot)), times(footprint.far_hops, far_hop(costs)));
  const uint64_t slice = times(std::min<uint64_t>(run.block, run.slice), channels);
  uint64_t fill = 0;
  if (footprint.pipelined) {
    const uint64_t out = far_rate(inputs, run.channels);
    fill = plus(times(near_hops, nanos_at(slice, rate)), out == 0 ? 0 : times(footprint.far_hops, nanos_at(slice, out)));
  }
  return plus(plus(static_cast<uint64_t>(costs.gpu_launch), waiting), plus(joined(footprint, near, between), fill));
}

/// CPU ranks whose cores also move what goes from node to node. All their work takes as long as on one node, and:
///   - a hop to another node has a latency that no core can shorten, in each slice anew unless a pipeline hides it;
///   - a pipeline is full when the first slice has been sent and received at each hop;
///   - without a pipeline ranks wait in each turn for those that share a core with them, so that cores stand still: for up to as long as one rank works.
uint64_t nanos_over_sockets(const Footprint& footprint, const Execution& run, const TuneInputs& inputs, uint64_t cores, uint64_t shared) {
  const Costs& costs = table_of(inputs);
  const auto awake = static_cast<uint64_t>(costs.hop(Protocol::simple, between_ranks(inputs)).latency);
  const uint64_t first = shared == 1 ? awake : static_cast<uint64_t>(costs.cpu_wake);
  const uint64_t later = shared == 1 ? awake : static_cast<uint64_t>(costs.cpu_switch);
  const Pace pace(footprint, run, inputs);
  const uint64_t slices = std::max<uint64_t>(1, ceil_div(run.block, run.slice));
  const uint64_t near_hops = footprint.depth - footprint.far_hops;
  const uint64_t far = times(footprint.far_hops, static_cast<uint64_t>(costs.cpu_net_latency));
  const uint64_t inside = work_nanos(footprint.busiest, run, slices, pace);
  const uint64_t busiest = plus(inside, network_nanos(footprint.busiest, run, slices, pace));
  const uint64_t total = plus(work_nanos(footprint.total, run, slices, pace), network_nanos(footprint.total, run, slices, pace));
  uint64_t again, fill = 0, turns = 0;
  if (footprint.pipelined) {
    const Work hop{.messages = 1, .merged_messages = 1, .sent = 1, .received = 1};
    const Execution one{std::min(run.block, run.slice), run.slice, run.merged, 1};
    again = times(slices - 1, times(footprint.turns, shared * later)) / std::max(1u, inputs.slots);
    fill = plus(times(inside / slices, near_hops), times(footprint.far_hops, network_nanos(hop, one, 1, pace)));
  } else {
    again = times(plus(times(near_hops, later), far), slices - 1);
    turns = times(shared - 1, busiest) / shared;
  }
  const uint64_t waiting = plus(plus(times(near_hops, first), far), plus(again, turns));
  const uint64_t work = std::max(plus(busiest, fill), total / cores);
  // The channels of a CPU rank take turns, so that each has the network for itself.
  const uint64_t between = crossing_nanos(footprint, run, inputs) / static_cast<uint64_t>(run.channels);
  return times(plus(waiting, joined(footprint, work, between)), static_cast<uint64_t>(run.channels));
}

}  // namespace

// time = launch + waiting + work
//   waiting  hops of the longest path, or the switches of one core if its ranks have to take turns and those are more; again for
//   each slice,
//            when all are awake, except that a pipeline then pays only for the slots that run empty
//   work     the busiest rank's, or all ranks' work divided by the cores if that is more; a pipeline must be filled first
uint64_t nanos_of(const Footprint& footprint, int ranks, const Execution& run, const TuneInputs& inputs) {
  if (!footprint.known) return UINT64_MAX;
  if (ranks > 1 && inputs.links.inside > 0) return nanos_over_links(footprint, run, inputs);
  const uint64_t n = static_cast<uint64_t>(ranks);
  const uint64_t shared = static_cast<uint64_t>(std::max(1, inputs.ranks_per_core));
  const uint64_t cores = ceil_div(n, shared);
  const Costs& costs = table_of(inputs);
  if (inputs.links.by_cpu && footprint.total.sent > 0) {
    return plus(static_cast<uint64_t>(costs.cpu_launch), nanos_over_sockets(footprint, run, inputs, cores, shared));
  }
  const auto awake = static_cast<uint64_t>(costs.hop(Protocol::simple, between_ranks(inputs)).latency);
  // Ranks that share a core sleep before the call, and yield in the midst of it.
  const uint64_t first = shared == 1 ? awake : static_cast<uint64_t>(costs.cpu_wake);
  const uint64_t later = shared == 1 ? awake : static_cast<uint64_t>(costs.cpu_switch);
  const Pace pace(footprint, run, inputs);
  const uint64_t slices = std::max<uint64_t>(1, ceil_div(run.block, run.slice));
  const uint64_t near_hops = std::max(footprint.depth - footprint.far_hops, footprint.turns * shared);
  const uint64_t waiting = plus(times(near_hops, first), times(footprint.far_hops, far_hop(costs)));
  const uint64_t busiest = work_nanos(footprint.busiest, run, slices, pace);
  const uint64_t total = work_nanos(footprint.total, run, slices, pace);
  uint64_t again = times(near_hops * later, slices - 1);
  uint64_t fill = 0;
  if (footprint.pipelined) {
    again = times(slices - 1, footprint.turns * shared * later) / std::max(1u, inputs.slots);
    fill = times(busiest / slices, footprint.depth - std::min<uint64_t>(1, footprint.depth));
  }
  const uint64_t work = std::max(plus(busiest, fill), total / cores);
  // The channels of a CPU rank take turns, so that each has the network for itself.
  const uint64_t between = crossing_nanos(footprint, run, inputs) / static_cast<uint64_t>(run.channels);
  const uint64_t each = times(plus(plus(waiting, again), joined(footprint, work, between)), static_cast<uint64_t>(run.channels));
  return plus(static_cast<uint64_t>(costs.cpu_launch), each);
}

size_t largest_block(Coll coll, size_t bytes, int channels, uint64_t blocks) {
  const size_t lines = ceil_div(ceil_div(bytes, 64), static_cast<uint64_t>(channels));
  return std::min<size_t>(ceil_div(lines, counts_per_rank(coll) ? 1 : blocks), SIZE_MAX / 64) * 64;
}

}  // namespace ronde
