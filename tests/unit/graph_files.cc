// Channels on real machines, where there are files of some: RONDE_TOPOLOGIES names a folder with files ending in .xml, and next
// to them may lie nccl-reference.json, with the channels that NCCL finds on them.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "graph/channels.h"
#include "graph/join.h"
#include "graph/load.h"
#include "support/catch.h"
#include "topo/copies.h"
#include "topo/xml.h"
#include "unit/graph_support.h"

using namespace ronde;
using namespace ronde::graph;
using namespace ronde::topo;

namespace {

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

int64_t in_mbs(const nlohmann::json& gbs) { return static_cast<int64_t>(gbs.get<double>() * 1000 + 0.5); }

/// What stands in an entry of "graphs": orders of ranks, and the ports by which each comes and goes.
struct Theirs {
  std::vector<std::vector<int>> orders;  ///< places in `devices`
  std::vector<std::pair<int, int>> nets;
  std::vector<NodeId> devices;
  int64_t rate = 0;
  bool turning = false;
};

/// No orders where the machine lacks one of the ranks.
Theirs theirs_of(const Machine& m, const nlohmann::json& graph, bool two) {
  Theirs theirs;
  std::vector<int> ranks;
  // Of trees over two nodes the links of ports are passed once in each direction, so that bwIntra goes through them.
  theirs.rate = in_mbs(graph.at("bwIntra"));
  theirs.turning = graph.at("crossNic") == 2;
  for (const auto& channel : graph.at("channels")) {
    const auto order = channel.at("ranks").get<std::vector<int>>();
    if (ranks.empty()) {
      ranks = order;
      std::sort(ranks.begin(), ranks.end());
      for (const int rank : ranks) theirs.devices.push_back(m.device_of_rank(rank));
      if (std::count(theirs.devices.begin(), theirs.devices.end(), kNone) > 0) return {};
    }
    std::vector<int>& places = theirs.orders.emplace_back();
    for (const int rank : order)
      places.push_back(static_cast<int>(std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin()));
    if (channel.contains("net")) theirs.nets.emplace_back(channel.at("net").at(0), channel.at("net").at(1));
  }
  // Those of the second machine have the ranks that follow.
  const auto half = static_cast<int>(test::gpus(m).size() / 2);
  for (size_t i = 0; two && i < ranks.size(); ++i) theirs.devices.push_back(m.device_of_rank(ranks[i] + half));
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

struct Figures {
  int64_t rate = 0;  ///< NCCL's total in MB/s, as far as the links carry it; 0 where nothing is known
  double ms = 0;
};

Figures figures(const Machine& m, const nlohmann::json& reference, const std::string& file, bool two, Shape shape) {
  for (const auto& graph : reference.value("graphs", nlohmann::json::array())) {
    if (graph.at("file") != file || graph.at("case") != (two ? "multi" : "single") ||
        graph.at("pattern") != (shape == Shape::ring ? "RING" : "TREE")) {
      continue;
    }
    const Theirs theirs = theirs_of(m, graph, two);
    const auto channels = two ? on_two(m, theirs, shape) : on_one(theirs, shape);
    return {channels.empty() ? 0 : fitting_rate(load_of(m, theirs.devices, channels), channels), graph.at("searchMs")};
  }
  return {};
}

/// One line of the table; fails where NCCL has more.
std::string row(const Machine& m, const std::string& file, bool two, Shape shape, const nlohmann::json& reference) {
  const auto devices = test::gpus(m);
  const std::clock_t start = std::clock();
  const auto ours = find_channels(m, devices, shape);
  const double ms = 1000.0 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  const std::string head = fmt::format("{:<52} {} {:>3} {:<4}", file, two ? "multi " : "single", devices.size(),
                                       shape == Shape::ring ? "ring" : "tree");
  const Figures nccl = figures(m, reference, file, two, shape);
  if (!ours.ok()) {
    CHECK(nccl.rate == 0);
    return fmt::format("{} {}", head, ours.error().what);
  }
  const Load load = load_of(m, devices, ours->channels);
  CHECK(load.faults == std::vector<std::string>{});
  for (const Overload& over : load.over) FAIL_CHECK(describe(m, over));
  const int64_t total = total_rate(ours->channels);
  // Each of our rates is rounded down to a whole number.
  CHECK(total + static_cast<int64_t>(ours->channels.size()) >= nccl.rate);
  const auto gbs = [](int64_t rate) { return static_cast<double>(rate) / 1000; };
  return fmt::format("{} {:>2} x {:>6.2f} = {:>7.2f} GB/s (bound {:>7.2f}), NCCL {:>7.2f}, ratio {}, {:.2f} ms, NCCL {:.2f}",
                     head, ours->channels.size(), gbs(ours->channels[0].rate), gbs(total), gbs(ours->bound), gbs(nccl.rate),
                     nccl.rate > 0 ? fmt::format("{:.3f}", gbs(total) / gbs(nccl.rate)) : "-", ms, nccl.ms);
}

}  // namespace

TEST_CASE("channels on real machines overload no link, and carry what NCCL's do", "[unit][graph]") {
  const char* folder = std::getenv("RONDE_TOPOLOGIES");
  if (folder == nullptr || !std::filesystem::is_directory(folder)) {
    RONDE_SKIP("RONDE_TOPOLOGIES names no folder with topology files");
  }
  nlohmann::json reference = nlohmann::json::object();
  if (std::ifstream file(std::filesystem::path(folder) / "nccl-reference.json"); file) file >> reference;
  std::map<std::string, Machine> machines;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".xml") continue;
    const std::string file = entry.path().lexically_relative(folder);
    auto read = from_xml(contents(entry.path()), file);
    if (read.ok() && test::gpus(read->machine).size() >= 2) machines.emplace(file, std::move(read->machine));
  }
  CHECK_FALSE(machines.empty());
  for (const auto& [file, m] : machines) {
    INFO(file);
    for (const Shape shape : {Shape::ring, Shape::chain}) {
      std::printf("%s\n", row(m, file, false, shape, reference).c_str());
      if (!m.ports.empty()) std::printf("%s\n", row(copies(m, 2), file, true, shape, reference).c_str());
    }
  }
}
