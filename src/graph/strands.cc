#include "graph/strands.h"

#include <algorithm>
#include <set>

#include "graph/check.h"
#include "graph/double_tree.h"

namespace ronde::graph {
namespace {

Strand strand_of(const Ways& ways, const Order& order) {
  Strand strand;
  strand.devices.assign(order.devices.begin() + 1, order.devices.end());
  for (size_t hop = 0; hop < order.way.size(); ++hop) {
    const int to = order.devices[(hop + 1) % order.devices.size()];
    const Way& way = ways.from_to(order.devices[hop], to)[static_cast<size_t>(order.way[hop])];
    if (hop == 0) {
      strand.in = way.arcs;
      strand.rail = way.rail;
    } else if (to == ways.gate()) {
      strand.out = way.arcs;
    } else {
      strand.hops.push_back(way.arcs);
    }
  }
  return strand;
}

int rails_of(const topo::Machine& machine) {
  std::set<int> rails;
  int number = 0;
  for (const topo::Port& port : machine.ports) {
    rails.insert(port.rail >= 0 ? port.rail : number);
    ++number;
  }
  return static_cast<int>(rails.size());
}

/// Brings the kinds to one number of orders and one rate: those of the narrowest, or what all have anyway.
int64_t agree(std::vector<Packed>& all, Shape shape, const Limits& limits) {
  const auto narrowest =
      std::min_element(all.begin(), all.end(), [](const Packed& a, const Packed& b) { return a.total() < b.total(); });
  size_t fewest = narrowest->orders.size();
  int64_t rate = narrowest->rate;
  const auto agrees = [&](const Packed& kind) { return kind.rate == rate && kind.orders.size() == fewest; };
  if (std::all_of(all.begin(), all.end(), agrees)) return rate;
  std::vector<std::vector<Order>> packed;
  size_t common = fewest;
  for (const Packed& kind : all) {
    int64_t steps = limits.steps / 4;
    packed.push_back(agrees(kind) ? kind.orders : pack_at(WayTable(kind.ways, shape), rate, static_cast<int>(fewest), steps));
    common = std::min(common, packed.back().size());
  }
  int64_t lowest = rate;
  for (const Packed& kind : all) {
    lowest = std::min(lowest, kind.rate);
    fewest = std::min(fewest, kind.orders.size());
  }
  const bool anew = rate * static_cast<int64_t>(common) >= lowest * static_cast<int64_t>(fewest);
  for (size_t i = 0; i < all.size(); ++i) {
    if (anew) all[i].orders = std::move(packed[i]);
    all[i].orders.resize(anew ? common : fewest);
  }
  return anew ? rate : lowest;
}

/// Puts strands of one rail at the same place in every kind, where there are such.
void align(const std::vector<Strand>& to, std::vector<Strand>& strands) {
  for (size_t i = 0; i < strands.size(); ++i) {
    const auto same = std::find_if(strands.begin() + static_cast<std::ptrdiff_t>(i), strands.end(),
                                   [&](const Strand& strand) { return strand.rail == to[i].rail; });
    if (same != strands.end()) std::rotate(strands.begin() + static_cast<std::ptrdiff_t>(i), same, same + 1);
  }
}

/// More kinds of nodes than these share the steps.
constexpr size_t kManyKinds = 8;

Result<Strands> search_through(const Units& units, Shape shape, const Limits& limits, const Gate& gate) {
  std::vector<Packed> all;
  Strands strands;
  Limits each = limits;
  if (units.kinds.size() > kManyKinds)
    each.steps = limits.steps * static_cast<int64_t>(kManyKinds) / static_cast<int64_t>(units.kinds.size());
  for (const UnitKind& kind : units.kinds) {
    all.push_back(pack_best(kind.machine, kind.devices, shape, each, gate));
    if (all.back().orders.empty()) return no_channel(kind.machine, all.back().ways, shape, limits);
    strands.bound = all.size() == 1 ? all.back().bound : std::min(strands.bound, all.back().bound);
    strands.steps += all.back().steps;
  }
  strands.times = gate.times;
  strands.rate = agree(all, shape, each);
  for (const Packed& kind : all) {
    std::vector<Strand>& own = strands.of_kind.emplace_back();
    for (const Order& order : kind.orders) own.push_back(strand_of(kind.ways, order));
    align(strands.of_kind[0], own);
  }
  return strands;
}

}  // namespace

Result<Strands> search_strands(const Units& units, Shape shape, const Limits& limits) {
  const auto nodes = static_cast<int>(units.all.size());
  Gate gate;
  gate.open = true;
  if (shape == Shape::chain) {
    gate.times = nodes == 2 || limits.max_channels == 1 ? 1 : 2;
    gate.outer = nodes == 2 ? 1 : gate.times == 1 ? 3 : most_edges(nodes);
    return search_through(units, shape, limits, gate);
  }
  const CrossNic cross = limits.rules.cross_nic;
  gate.one_rail = cross != CrossNic::free;
  gate.over_peers = limits.rules.pxn;
  Limits some = limits;
  const bool others = cross == CrossNic::faster && std::all_of(units.kinds.begin(), units.kinds.end(),
                                                               [](const UnitKind& kind) { return rails_of(kind.machine) > 1; });
  if (others) some.steps /= 2;
  RONDE_TRY(Strands same, search_through(units, shape, some, gate));
  if (!others || same.total() >= same.bound) return same;
  // A way over another GPU leads out only, and backwards it would lead in.
  gate.one_rail = gate.over_peers = false;
  auto other = search_through(units, shape, some, gate);
  if (!other.ok() || other->total() <= same.total()) return same;
  other->turning = true;
  return other;
}

}  // namespace ronde::graph
