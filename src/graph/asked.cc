#include "graph/asked.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

#include "graph/join.h"
#include "graph/load.h"

namespace ronde::graph {
namespace {

using topo::ArcId;
using topo::Machine;
using topo::NodeId;

/// Where users ask for orders.
constexpr const char* kSource = "RONDE_RINGS or RONDE_GRAPH_FILE";

/// The ways inside each kind of node, and how often its ports have been chosen.
struct Kind {
  Ways ways;
  std::map<ArcId, int> taken;
};

std::string words(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) text.append(text.empty() ? "" : " ").append(std::to_string(number));
  return text;
}

class Asked {
 public:
  Asked(const Machine& machine, std::span<const NodeId> devices, const Units& units, Shape shape, const Limits& limits)
      : m_(machine), devices_(devices), units_(units), shape_(shape), limits_(limits), place_(devices.size()) {
    for (size_t u = 0; u < units.all.size(); ++u) {
      const std::vector<int>& ranks = units.all[u].ranks;
      for (size_t i = 0; i < ranks.size(); ++i) place_[static_cast<size_t>(ranks[i])] = {u, static_cast<int>(i)};
    }
    for (const UnitKind& kind : units.kinds) {
      Ways ways = ways_between(kind.machine, kind.devices, Reach::far, limits.rules);
      if (units.all.size() > 1) add_gate(kind.machine, limits.rules, limits.rules.pxn && shape == Shape::ring, ways);
      kinds_.push_back({std::move(ways), {}});
    }
  }

  Result<std::vector<Channel>> run() {
    RONDE_TRY(const auto orders, parse_orders(limits_.rules.asked));
    if (orders.size() > static_cast<size_t>(limits_.max_channels)) {
      return fail(Code::invalid_usage,
                  fmt::format("{} channels are asked for, but {} is the most; name fewer in {}, or raise RONDE_MAX_NCHANNELS.",
                              orders.size(), limits_.max_channels, kSource));
    }
    twice_ = 2 * orders.size() <= static_cast<size_t>(limits_.max_channels);
    std::vector<Channel> channels;
    for (size_t i = 0; i < orders.size(); ++i) {
      RONDE_TRY(const bool ranks, is_of_ranks(orders[i], i));
      if (ranks || units_.all.size() == 1) {
        RONDE_TRY(channels.emplace_back(), by_rank(ranks ? orders[i] : by_number(0, orders[i])));
      } else {
        RONDE_TRY(std::vector<Channel> some, by_node(orders[i]));
        for (Channel& channel : some) channels.push_back(std::move(channel));
      }
    }
    return channels;
  }

 private:
  struct Place {
    size_t unit = 0;
    int device = 0;
  };

  /// True for an order of all ranks, false for one of the device numbers of every node.
  Result<bool> is_of_ranks(const std::vector<int>& order, size_t number) const {
    std::vector<int> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    std::vector<int> all(devices_.size());
    std::iota(all.begin(), all.end(), 0);
    if (sorted == all) return true;
    for (const UnitKind& kind : units_.kinds) {
      const std::vector<int> numbers = numbers_of(kind);
      const bool distinct = std::adjacent_find(numbers.begin(), numbers.end()) == numbers.end();
      if (distinct && sorted == numbers) continue;
      return fail(Code::invalid_usage,
                  fmt::format("Order {} asked for, \"{}\", has neither each of {} ranks once nor each device of {} once ({}); "
                              "write either in {}, or none, so that one is searched.",
                              number + 1, words(order), devices_.size(), name_of(kind), words(numbers), kSource));
    }
    return false;
  }

  std::string name_of(const UnitKind& kind) const {
    return "the node with " +
           topo::describe(m_, devices_[static_cast<size_t>(units_.all[static_cast<size_t>(kind.first)].ranks[0])]);
  }

  /// Of a kind's devices, sorted: of CPU ranks their places.
  static std::vector<int> numbers_of(const UnitKind& kind) {
    std::vector<int> numbers;
    for (size_t i = 0; i < kind.devices.size(); ++i) numbers.push_back(number_of(kind, static_cast<int>(i)));
    std::sort(numbers.begin(), numbers.end());
    return numbers;
  }
  static int number_of(const UnitKind& kind, int device) {
    const NodeId node = kind.devices[static_cast<size_t>(device)];
    const bool gpu = kind.machine.node(node).kind == topo::NodeKind::gpu;
    return gpu ? kind.machine.gpu(node).dev : device;
  }

  /// The places of a kind's devices with those numbers.
  std::vector<int> places(int kind, const std::vector<int>& numbers) const {
    const UnitKind& own = units_.kinds[static_cast<size_t>(kind)];
    std::map<int, int> place;
    for (int i = 0; i < static_cast<int>(own.devices.size()); ++i) place[number_of(own, i)] = i;
    std::vector<int> order;
    for (const int number : numbers) order.push_back(place.at(number));
    return order;
  }
  std::vector<int> by_number(size_t unit, const std::vector<int>& numbers) const {
    std::vector<int> ranks;
    for (const int device : places(units_.all[unit].kind, numbers))
      ranks.push_back(units_.all[unit].ranks[static_cast<size_t>(device)]);
    return ranks;
  }

  /// The nearest way to or from the network: by `rail` if that is not -1 and there is one, of several the one taken least.
  const Way* door(Kind& kind, int device, bool in, int rail) {
    const int gate = kind.ways.gate();
    const std::vector<Way>& ways = in ? kind.ways.from_to(gate, device) : kind.ways.from_to(device, gate);
    const Way* best = nullptr;
    const auto port = [&](const Way& way) { return in ? way.arcs.front() : way.arcs.back(); };
    const auto cost = [&](const Way& way) {
      return std::tuple(rail != -1 && way.rail != rail, way.distance, kind.taken[port(way)]);
    };
    for (const Way& way : ways) {
      if (best == nullptr || cost(way) < cost(*best)) best = &way;
    }
    if (best != nullptr) ++kind.taken[port(*best)];
    return best;
  }

  Error no_way(int from, int to) const {
    const auto name = [&](int rank) { return topo::describe(m_, devices_[static_cast<size_t>(rank)]); };
    return fail(Code::invalid_usage,
                fmt::format("The order asked for leads from rank {} to rank {}, but from {} to {} there is no way; name one in "
                            "{} in which they are not neighbours, or none, so that one is searched.",
                            from, to, name(from), name(to), kSource));
  }

  Result<std::vector<ArcId>> hop(int from, int to) {
    const Place a = place_[static_cast<size_t>(from)];
    const Place b = place_[static_cast<size_t>(to)];
    const Unit& here = units_.all[a.unit];
    const Unit& there = units_.all[b.unit];
    std::vector<ArcId> arcs;
    if (a.unit == b.unit) {
      const auto& between = kinds_[static_cast<size_t>(here.kind)].ways.from_to(a.device, b.device);
      if (between.empty()) return no_way(from, to);
      append_arcs(here, between[0].arcs, false, arcs);
      return arcs;
    }
    const Way* out = door(kinds_[static_cast<size_t>(here.kind)], a.device, false, -1);
    if (out == nullptr) return no_way(from, to);
    const Way* in = door(kinds_[static_cast<size_t>(there.kind)], b.device, true, out->rail);
    if (in == nullptr) return no_way(from, to);
    append_arcs(here, out->arcs, false, arcs);
    append_arcs(there, in->arcs, false, arcs);
    return arcs;
  }

  Result<Channel> by_rank(const std::vector<int>& order) {
    Channel channel;
    channel.rate = 1;
    channel.hops.resize(order.size());
    if (shape_ == Shape::ring) {
      channel.ring = order;
      for (size_t i = 0; i < order.size() && order.size() > 1; ++i) {
        RONDE_TRY(channel.hops[i], hop(order[i], order[(i + 1) % order.size()]));
      }
      return channel;
    }
    channel.parent.assign(order.size(), -1);
    for (size_t i = 1; i < order.size(); ++i) {
      const auto rank = static_cast<size_t>(order[i]);
      channel.parent[rank] = order[i - 1];
      RONDE_TRY(channel.hops[rank], hop(order[i], order[i - 1]));
    }
    return channel;
  }

  Result<std::vector<Channel>> by_node(const std::vector<int>& numbers) {
    Strands strands;
    strands.rate = 1;
    strands.times = shape_ == Shape::chain && units_.all.size() > 2 && twice_ ? 2 : 1;
    for (size_t k = 0; k < kinds_.size(); ++k) {
      Strand& strand = strands.of_kind.emplace_back().emplace_back();
      strand.devices = places(static_cast<int>(k), numbers);
      const auto rank = [&](size_t i) {
        return units_.all[static_cast<size_t>(units_.kinds[k].first)].ranks[static_cast<size_t>(strand.devices[i])];
      };
      for (size_t i = 1; i < strand.devices.size(); ++i) {
        const auto& between = kinds_[k].ways.from_to(strand.devices[i - 1], strand.devices[i]);
        if (between.empty()) return no_way(rank(i - 1), rank(i));
        strand.hops.push_back(between[0].arcs);
      }
      const Way* in = door(kinds_[k], strand.devices.front(), true, -1);
      if (in == nullptr) return no_way(units_.all[k == 0 ? units_.all.size() - 1 : 0].ranks[0], rank(0));
      const bool same = limits_.rules.cross_nic == CrossNic::never;
      const Way* out = door(kinds_[k], strand.devices.back(), false, same ? in->rail : -1);
      if (out == nullptr) return no_way(rank(strand.devices.size() - 1), units_.all[k == 0 ? units_.all.size() - 1 : 0].ranks[0]);
      strand.in = in->arcs;
      strand.out = out->arcs;
    }
    return join(units_, strands, shape_, static_cast<int>(devices_.size()));
  }

  const Machine& m_;
  const std::span<const NodeId> devices_;
  const Units& units_;
  const Shape shape_;
  const Limits& limits_;
  std::vector<Place> place_;  ///< by rank
  std::vector<Kind> kinds_;
  bool twice_ = false;  ///< trees come in pairs: there is room for two of each order
};

Error bad(const std::string& text, const std::string& what) {
  return fail(Code::invalid_argument,
              fmt::format("The orders of channels \"{}\" cannot be read: {}; write numbers between blanks, and bars "
                          "between channels, as \"0 1 2 3 | 3 2 1 0\".",
                          text, what));
}

}  // namespace

Result<std::vector<std::vector<int>>> parse_orders(const std::string& text) {
  std::vector<std::vector<int>> orders(1);
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == ' ' || c == '\t' || c == '\n') {
      ++at;
    } else if (c == '|') {
      if (orders.back().empty()) return bad(text, fmt::format("nothing stands before the bar at character {}", at + 1));
      orders.emplace_back();
      ++at;
    } else {
      int number = 0;
      const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), number);
      if (error != std::errc() || number < 0) return bad(text, fmt::format("expected a number at character {}", at + 1));
      orders.back().push_back(number);
      at = static_cast<size_t>(end - text.data());
    }
  }
  if (orders.back().empty() && orders.size() > 1) orders.pop_back();
  if (orders.back().empty()) return bad(text, "there is none");
  return orders;
}

Result<Joined> asked_channels(const Machine& machine, std::span<const NodeId> devices, const Units& units, Shape shape,
                              const Limits& limits) {
  Joined joined;
  RONDE_TRY(joined.channels, Asked(machine, devices, units, shape, limits).run());
  const Load load = load_of(machine, devices, joined.channels);
  int64_t rate = std::max(limits.max_rate, int64_t{1});
  Overload narrowest;
  for (size_t i = 0; i < load.by_arc.size(); ++i) {
    const auto arc = static_cast<ArcId>(i);
    if (load.by_arc[i] == 0) continue;
    const int64_t capacity = machine.link(topo::link_of(arc)).rate;
    if (capacity / load.by_arc[i] >= rate) continue;
    rate = capacity / load.by_arc[i];
    narrowest = {arc, load.by_arc[i], capacity};
  }
  if (rate == 0) {
    return fail(
        Code::invalid_usage,
        fmt::format("{} channels in the orders asked for are more than the links carry, at 1 MB/s each ({}); name fewer in "
                    "{}, or none, so that some are searched.",
                    joined.channels.size(), describe(machine, narrowest), kSource));
  }
  for (Channel& channel : joined.channels) channel.rate = rate;
  joined.bound = total_rate(joined.channels);
  return joined;
}

}  // namespace ronde::graph
