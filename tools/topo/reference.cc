#include "tools/topo/reference.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "graph/join.h"
#include "graph/load.h"

namespace ronde::topo::tool {
namespace {

using namespace graph;

constexpr double kMaxGbps = 100000;
constexpr int kMaxRank = 0xfffff;

/// Without orders where it is none.
ReferenceGraph graph_of(const nlohmann::json& json, Shape shape) {
  ReferenceGraph graph;
  graph.file = json.at("file");
  graph.two = json.at("case") == "multi";
  graph.shape = shape;
  // Of trees over two nodes the links of ports are passed once in each direction, so that bwIntra goes through them.
  const double gbps = json.at("bwIntra");
  // Beyond that none is meant, and sums could pass 2^63.
  if (!(gbps >= 0 && gbps <= kMaxGbps)) return graph;
  graph.rate = static_cast<int64_t>(gbps * 1000 + 0.5);
  graph.turning = json.at("crossNic") == 2;
  graph.ms = json.at("searchMs");
  for (const auto& channel : json.at("channels")) {
    graph.orders.push_back(channel.at("ranks").get<std::vector<int>>());
    if (channel.contains("net")) graph.nets.emplace_back(channel.at("net").at(0), channel.at("net").at(1));
  }
  return graph;
}

/// The same over a Machine.
struct Theirs {
  std::vector<std::vector<int>> orders;  ///< places in `devices`
  std::vector<std::pair<int, int>> nets;
  std::vector<NodeId> devices;
  int64_t rate = 0;
  bool turning = false;
};

/// No orders where the machine lacks one of the ranks, or where they are none.
Theirs theirs_of(const Machine& m, const ReferenceGraph& graph) {
  Theirs theirs{{}, graph.nets, {}, graph.rate, graph.turning};
  std::vector<int> ranks = graph.orders.empty() ? std::vector<int>() : graph.orders[0];
  std::sort(ranks.begin(), ranks.end());
  // A device without a rank is not meant by -1.
  if (!ranks.empty() && (ranks.front() < 0 || ranks.back() > kMaxRank)) return {};
  for (const int rank : ranks) theirs.devices.push_back(m.device_of_rank(rank));
  if (graph.two) {
    // Those of the second machine have the ranks that follow.
    const auto half = static_cast<int>(m.of_kind(NodeKind::gpu).size() / 2);
    for (const int rank : ranks) theirs.devices.push_back(m.device_of_rank(rank + half));
  }
  if (std::count(theirs.devices.begin(), theirs.devices.end(), kNone) > 0) return {};
  for (const std::vector<int>& order : graph.orders) {
    if (!std::is_permutation(order.begin(), order.end(), ranks.begin(), ranks.end())) return {};
    std::vector<int>& places = theirs.orders.emplace_back();
    for (const int rank : order)
      places.push_back(static_cast<int>(std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin()));
  }
  return theirs;
}

std::vector<Channel> on_one(const Theirs& theirs, Shape shape) {
  std::vector<Channel> channels;
  for (const std::vector<int>& order : theirs.orders) {
    Channel& made = channels.emplace_back();
    made.rate = theirs.rate;
    if (shape == Shape::ring) made.ring = order;
    if (shape == Shape::chain) made.parent.assign(order.size(), -1);
    for (size_t i = 1; i < order.size() && shape == Shape::chain; ++i) made.parent[static_cast<size_t>(order[i])] = order[i - 1];
  }
  return channels;
}

/// The nearest of the ways between a device and the network that take the port with that number of the device's host.
std::vector<ArcId> through_port(const Machine& m, const std::vector<Way>& ways, NodeId device, int dev, bool in) {
  const Way* best = nullptr;
  for (const Way& way : ways) {
    const NodeId port = m.link(link_of(in ? way.arcs.front() : way.arcs.back())).a;
    if (m.port(port).dev != dev || m.node(port).host != m.node(device).host) continue;
    if (best == nullptr || way.distance < best->distance) best = &way;
  }
  return best == nullptr ? std::vector<ArcId>() : best->arcs;
}

/// Over two such machines; none where a port is not there.
std::vector<Channel> on_two(const Machine& two, const Theirs& theirs, Shape shape) {
  const Units units = units_of(two, theirs.devices, false);
  if (units.all.size() != 2 || units.kinds.size() != 1 || theirs.nets.size() != theirs.orders.size()) return {};
  const UnitKind& kind = units.kinds[0];
  // Their places are in the order of ranks, those of strands in the order of the machine.
  Ways ways = ways_between(kind.machine, kind.devices, Reach::far, {});
  add_gate(kind.machine, {}, true, ways);
  std::vector<int> by_rank;
  for (int i = 0; i < ways.gate(); ++i) by_rank.push_back(i);
  std::sort(by_rank.begin(), by_rank.end(), [&](int a, int b) {
    return units.all[0].ranks[static_cast<size_t>(a)] < units.all[0].ranks[static_cast<size_t>(b)];
  });
  Strands strands{{{}}, theirs.rate, 1, theirs.turning, 0, 0};
  for (size_t c = 0; c < theirs.orders.size(); ++c) {
    Strand& strand = strands.of_kind[0].emplace_back();
    for (const int place : theirs.orders[c]) strand.devices.push_back(by_rank[static_cast<size_t>(place)]);
    for (size_t i = 1; i < strand.devices.size(); ++i) {
      const auto& between = ways.from_to(strand.devices[i - 1], strand.devices[i]);
      if (between.empty()) return {};
      strand.hops.push_back(between[0].arcs);
    }
    const auto node = [&](int device) { return kind.devices[static_cast<size_t>(device)]; };
    const int first = strand.devices.front();
    const int last = strand.devices.back();
    strand.in = through_port(kind.machine, ways.from_to(ways.gate(), first), node(first), theirs.nets[c].first, true);
    strand.out = through_port(kind.machine, ways.from_to(last, ways.gate()), node(last), theirs.nets[c].second, false);
    if (strand.in.empty() || (shape == Shape::ring && strand.out.empty())) return {};
  }
  return join(units, strands, shape, static_cast<int>(theirs.devices.size()));
}

}  // namespace

Result<std::vector<ReferenceGraph>> read_reference(const std::string& text, const std::string& file) {
  std::vector<ReferenceGraph> graphs;
  try {
    const nlohmann::json all = nlohmann::json::parse(text);
    for (const auto& json : all.at("graphs")) {
      if (json.at("pattern") == "RING") graphs.push_back(graph_of(json, Shape::ring));
      if (json.at("pattern") == "TREE") graphs.push_back(graph_of(json, Shape::chain));
    }
  } catch (const nlohmann::json::exception& error) {
    return fail(Code::invalid_argument, fmt::format("{}: no table of what NCCL finds: {}", file, error.what()));
  }
  return graphs;
}

ReferenceFigures figures_of(const std::vector<ReferenceGraph>& reference, const Machine& machine, const std::string& file,
                            bool two, Shape shape) {
  for (const ReferenceGraph& graph : reference) {
    if (graph.file != file || graph.two != two || graph.shape != shape) continue;
    const Theirs theirs = theirs_of(machine, graph);
    const auto channels = two ? on_two(machine, theirs, shape) : on_one(theirs, shape);
    return {channels.empty() ? 0 : fitting_rate(load_of(machine, theirs.devices, channels), channels), graph.ms};
  }
  return {};
}

}  // namespace ronde::topo::tool
