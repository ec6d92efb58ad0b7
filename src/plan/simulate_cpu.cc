// What a CPU rank spends on a Move's data: it does everything itself, one thing after the other.
#include "plan/simulate_impl.h"

namespace ronde::sim {
namespace {

/// Adds up work on the same bytes, while the rank is alone at it and while all are.
class Times {
 public:
  Times(const Costs& costs, int64_t touched, uint64_t bytes) : costs_(costs), touched_(touched), bytes_(bytes) {}

  void add(CpuWork work, HopKind kind, uint64_t times = 1) {
    const CurvePoint point = costs_.curve(work, kind).at(touched_);
    alone_ += times * picos(point.alone);
    shared_ += times * picos(point.shared);
  }
  /// What `more` takes beyond `less`, where it does.
  void add_beyond(CpuWork more, CpuWork less, HopKind kind, uint64_t times = 1) {
    const CurvePoint high = costs_.curve(more, kind).at(touched_);
    const CurvePoint low = costs_.curve(less, kind).at(touched_);
    alone_ += times * (picos(std::min(high.alone, low.alone)) - picos(low.alone));
    shared_ += times * (picos(std::min(high.shared, low.shared)) - picos(low.shared));
  }
  bool none() const { return alone_ == 0; }
  /// The two rates of a flow of the bytes.
  void rate(FlowSpec& spec) const {
    spec.alone = static_cast<int64_t>(std::max<uint64_t>(1, bytes_ * kWorkPerByte / alone_));
    spec.shared = static_cast<int64_t>(std::max<uint64_t>(1, bytes_ * kWorkPerByte / std::max<uint64_t>(1, shared_)));
  }

 private:
  uint64_t picos(int64_t rate) const { return bytes_ * kWorkPerByte / static_cast<uint64_t>(rate); }

  const Costs& costs_;
  int64_t touched_;
  uint64_t bytes_;
  uint64_t alone_ = 0, shared_ = 0;
};

}  // namespace

bool cpu_flow(Net& net, const Lane& lane, FlowSpec* spec) {
  const Move& move = *lane.at;
  Times times(net.costs, net.touched[static_cast<size_t>(lane.rank)], lane.bytes);
  const uint32_t operands = move.in_count + (move.src != Buf::none ? 1u : 0u);
  const bool computes = move.in_count > 0 || move.dst != Buf::none;
  HopKind kind = HopKind::process;
  uint64_t fresh = 0;
  for (uint32_t i = 0; i < move.in_count; ++i) {
    const Connection& c = net.connections[net.in_of[lane.ports + move.in_first + i]];
    const SlotState& slot = net.slot(c, c.head);
    fresh += slot.fresh && c.from != c.to ? 1 : 0;
    if (!slot.lent || c.kind == HopKind::network) continue;  // what was lent comes over the network as bytes
    if (c.kind == HopKind::shm) kind = HopKind::shm;
    spec->way = c.way;
  }
  const bool lends = net.lends(move, lane.bytes) && (move.dst != Buf::none || !computes);
  if (computes && operands > 1) {
    times.add(CpuWork::fold, kind, operands - 1);
    times.add_beyond(CpuWork::take, CpuWork::pull, kind, fresh);
  } else if (computes && move.in_count == 1) {
    times.add(fresh > 0 ? CpuWork::take : CpuWork::pull, kind);
  } else if (computes) {
    times.add(CpuWork::copy, HopKind::process);
  }
  HopKind outwards = HopKind::process;
  for (uint32_t i = 0; i < move.out_count; ++i) {
    if (net.connections[net.out_of[lane.ports + move.out_first + i]].kind == HopKind::shm) outwards = HopKind::shm;
  }
  // Peers have read the block, or the slot that serves in its place, in an earlier call.
  const bool handed = computes && move.out_count > 0 && (lends || move.dst == Buf::none);
  if (handed) times.add_beyond(CpuWork::publish, CpuWork::copy, outwards);
  const uint32_t in_place = computes && move.dst == Buf::none ? 1 : 0;
  if (!lends && move.out_count > in_place) times.add(CpuWork::publish, outwards, move.out_count - in_place);
  if (times.none()) return false;
  times.rate(*spec);
  return true;
}

}  // namespace ronde::sim
