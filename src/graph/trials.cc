#include "graph/trials.h"

#include <algorithm>
#include <limits>

namespace ronde::graph {
namespace {

using topo::Machine;
using topo::NodeId;

/// How many ways of dividing a link are tried. Of eight chains that start at eight devices and end at eight, six load each device
/// twice and two once, so that a fourteenth of its link is the best rate, and the least part tried may be the third.
constexpr int64_t kMostPerLink = 12;

/// A rate, and how many orders at it there could be, or are.
struct Candidate {
  int64_t rate = 0;
  int count = 0;
  int64_t total() const { return rate * count; }
};
bool better(const Candidate& a, const Candidate& b) { return a.total() != b.total() ? a.total() > b.total() : a.count < b.count; }

int64_t divided_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// How many channels of a rate each arc carries.
std::vector<int64_t> room_at(const Ways& ways, int64_t rate) {
  std::vector<int64_t> room;
  for (const int64_t capacity : ways.capacity) room.push_back(capacity / rate);
  return room;
}

/// What buses carry: everything but the links between devices.
std::vector<int64_t> buses_of(const Machine& machine, const Ways& ways) {
  std::vector<int64_t> capacity = ways.capacity;
  for (size_t i = 0; i < machine.links.size(); ++i) {
    if (is_peer_link(machine.links[i].kind)) capacity[2 * i] = capacity[2 * i + 1] = 0;
  }
  return capacity;
}

/// The most that channels can carry together, in the unit of `room`; never more than `enough`.
int64_t bound_of(const topo::Wiring& wiring, const Ways& ways, Shape shape, const std::vector<int64_t>& room,
                 int64_t enough = std::numeric_limits<int64_t>::max()) {
  int64_t bound = least_flow(wiring, ways.nodes, room, enough);
  // Every hop of a chain leaves two devices.
  if (shape == Shape::chain) bound = std::min(bound, leaving_flow(wiring, ways.nodes, room) / (2 * (ways.devices - 1)));
  if (ways.outer == ways.times) return bound;
  const int64_t through = flow_from(wiring, ways.nodes.back(), std::span(ways.nodes).first(ways.nodes.size() - 1), room);
  return std::min(bound, through * ways.times / ways.outer);
}

/// What links carry, divided.
std::vector<int64_t> rates_worth_trying(const Ways& ways, Shape shape, const Limits& limits, int64_t bound) {
  const int64_t cap = std::max(limits.max_rate, divided_up(bound, limits.max_channels));
  std::vector<int64_t> whole = ways.capacity;
  whole.push_back(bound);
  std::sort(whole.begin(), whole.end());
  whole.erase(std::unique(whole.begin(), whole.end()), whole.end());
  std::vector<int64_t> rates;
  for (const int64_t capacity : whole) {
    for (const int64_t at_once : {ways.times, ways.outer}) {
      const int64_t least = std::max<int64_t>(1, divided_up(capacity, cap * at_once));
      for (int64_t parts = least; parts < least + kMostPerLink; ++parts) rates.push_back(capacity / (parts * at_once));
      if (ways.outer == ways.times) break;
    }
    // Whole turns of the wheel load all devices alike.
    const int64_t turn = ways.times * (shape == Shape::chain ? 2 * (ways.devices - 2) : ways.devices - 2);
    for (int64_t turns = 1; ways.wheel && turn > 0 && turns <= limits.max_channels / (ways.devices - 1); ++turns)
      rates.push_back(std::min(cap, capacity / (turn * turns)));
  }
  std::sort(rates.begin(), rates.end());
  rates.erase(std::unique(rates.begin(), rates.end()), rates.end());
  return rates;
}

/// Of more devices than these, flows at every rate would take longer than the packing.
constexpr int kMostFlows = 32;

/// The most promising first, of equals the highest rate.
std::vector<Candidate> candidates(const topo::Wiring& wiring, const Ways& ways, Shape shape, const Limits& limits,
                                  int64_t bound) {
  std::vector<Candidate> all;
  for (const int64_t rate : rates_worth_trying(ways, shape, limits, bound)) {
    if (rate == 0) continue;
    const int64_t enough = std::min<int64_t>(limits.max_channels, bound / rate);
    const int64_t channels = ways.devices > kMostFlows ? enough : bound_of(wiring, ways, shape, room_at(ways, rate), enough);
    const int64_t most = channels / ways.times;
    if (most > 0) all.push_back({rate, static_cast<int>(most)});
  }
  std::sort(all.begin(), all.end(), better);
  return all;
}

/// Tries one rate after the other and keeps the best.
class Trials {
 public:
  Trials(const Ways& ways, Shape shape) : table_(ways, shape) {}

  bool none() const { return orders_.empty(); }
  bool could_improve(const Candidate& candidate) const { return better(candidate, found_); }
  int64_t steps() const { return steps_; }

  void attempt(const Candidate& candidate, int64_t steps) {
    int64_t left = steps;
    std::vector<Order> packed = pack_at(table_, candidate.rate, candidate.count, left);
    steps_ += steps - std::max<int64_t>(left, 0);
    const Candidate now{candidate.rate, static_cast<int>(packed.size())};
    if (!better(now, found_)) return;
    found_ = now;
    orders_ = std::move(packed);
  }

  /// Moves what was found.
  void give(Packed& packed) {
    packed.orders = std::move(orders_);
    packed.rate = found_.rate;
    packed.steps = steps_;
  }

 private:
  const WayTable table_;
  Candidate found_;
  std::vector<Order> orders_;
  int64_t steps_ = 0;
};

/// A rate at which any order fits, as each hop takes an arc once in each direction at most.
Candidate safe(const Ways& ways, const Limits& limits) {
  int64_t narrowest = std::numeric_limits<int64_t>::max();
  for (const int64_t capacity : ways.capacity) narrowest = capacity > 0 ? std::min(narrowest, capacity) : narrowest;
  return {std::clamp<int64_t>(narrowest / (2 * ways.outer * ways.devices), 1, limits.max_rate), 1};
}

/// The best over the given ways; nothing where there are no such.
Packed pack_over(const topo::Wiring& wiring, Ways ways, Shape shape, const Limits& limits) {
  Packed best;
  best.ways = std::move(ways);
  best.bound = bound_of(wiring, best.ways, shape, best.ways.capacity);
  if (best.bound == 0) return best;
  Trials trials(best.ways, shape);
  // An order looks at each door, and from each device at all others.
  const int64_t order =
      int64_t{best.ways.devices} * best.ways.devices + static_cast<int64_t>(best.ways.in.size() + best.ways.out.size());
  const int64_t reserved = std::min(limits.steps, order);
  const std::vector<Candidate> all = candidates(wiring, best.ways, shape, limits, best.bound);
  // First what is found at once for each rate; then the most promising get most of the steps, and some are left for the others.
  for (const bool at_once : {true, false}) {
    for (const Candidate& candidate : all) {
      const int64_t left = limits.steps - reserved - trials.steps();
      if (left <= 0) break;
      const int64_t most = at_once ? 2 * order * (candidate.count + 1) : std::max(left / 4, 50 * order);
      if (trials.could_improve(candidate)) trials.attempt(candidate, std::min(left, most));
    }
  }
  if (trials.none()) trials.attempt(safe(best.ways, limits), reserved);
  trials.give(best);
  return best;
}

Ways ways_for(const Machine& machine, std::span<const NodeId> devices, Reach reach, const Rules& rules, const Gate& gate) {
  Ways ways = ways_between(machine, devices, reach, rules);
  if (gate.open) add_gate(machine, rules, gate.over_peers, ways);
  ways.one_rail = gate.one_rail;
  ways.times = gate.times;
  ways.outer = gate.outer;
  return ways;
}

/// One order of many devices takes a step for each two of them.
int64_t steps_for(const Limits& limits, size_t devices) {
  constexpr size_t kMany = 32;
  const auto times = static_cast<int64_t>(std::max<size_t>(1, devices * devices / (kMany * kMany)));
  return limits.steps * times;
}

}  // namespace

std::vector<Order> pack_at(const WayTable& table, int64_t rate, int most, int64_t& steps) {
  std::vector<int32_t> room;
  const int64_t enough = int64_t{4} * table.ways().outer * most;
  for (const int64_t channels : room_at(table.ways(), rate)) room.push_back(static_cast<int32_t>(std::min(channels, enough)));
  return pack(table, room, most, steps);
}

Packed pack_best(const Machine& machine, std::span<const NodeId> devices, Shape shape, const Limits& limits, const Gate& gate) {
  Limits some = limits;
  some.steps = steps_for(limits, devices.size()) / 2;
  const topo::Wiring wiring(machine);
  Packed near = pack_over(wiring, ways_for(machine, devices, Reach::near, limits.rules, gate), shape, some);
  Ways ways = ways_for(machine, devices, Reach::far, limits.rules, gate);
  // Buses are not worth a hop where the links between devices carry more than all of them.
  const int64_t buses = bound_of(wiring, ways, shape, buses_of(machine, ways));
  if (!near.orders.empty() && near.total() >= buses) return near;
  some.steps = 2 * some.steps - near.steps;
  Packed far = pack_over(wiring, std::move(ways), shape, some);
  if (far.total() > near.total() || near.orders.empty()) {
    far.steps += near.steps;
    return far;
  }
  near.steps += far.steps;
  return near;
}

}  // namespace ronde::graph
