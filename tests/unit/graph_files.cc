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

#include "graph/load.h"
#include "graph/search.h"
#include "support/catch.h"
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

/// NCCL's channels on one machine, over the devices that it took part with.
struct Theirs {
  std::vector<NodeId> devices;
  std::vector<Channel> channels;
};

/// From an entry of "graphs"; no channels where the machine lacks one of its ranks.
Theirs theirs_of(const Machine& m, const nlohmann::json& graph, Shape shape) {
  Theirs theirs;
  std::vector<int> ranks;
  for (const auto& channel : graph.at("channels")) {
    const auto order = channel.at("ranks").get<std::vector<int>>();
    if (ranks.empty()) {
      ranks = order;
      std::sort(ranks.begin(), ranks.end());
      for (const int rank : ranks) theirs.devices.push_back(m.device_of_rank(rank));
      if (std::count(theirs.devices.begin(), theirs.devices.end(), kNone) > 0) return {};
    }
    Channel made;
    made.rate = static_cast<int64_t>(graph.at("bwIntra").get<double>() * 1000 + 0.5);
    std::vector<int> places;
    for (const int rank : order)
      places.push_back(static_cast<int>(std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin()));
    if (shape == Shape::ring) made.ring = places;
    if (shape == Shape::chain) made.parent.assign(places.size(), -1);
    for (size_t i = 1; i < places.size() && shape == Shape::chain; ++i)
      made.parent[static_cast<size_t>(places[i])] = places[i - 1];
    theirs.channels.push_back(made);
  }
  return theirs;
}

/// NCCL's total in MB/s, as far as the links carry it; 0 where nothing is known.
int64_t their_rate(const Machine& m, const nlohmann::json& reference, const std::string& file, Shape shape) {
  for (const auto& graph : reference.value("graphs", nlohmann::json::array())) {
    if (graph.at("file") != file || graph.at("case") != "single" ||
        graph.at("pattern") != (shape == Shape::ring ? "RING" : "TREE")) {
      continue;
    }
    const Theirs theirs = theirs_of(m, graph, shape);
    return fitting_rate(load_of(m, theirs.devices, theirs.channels), theirs.channels);
  }
  return 0;
}

/// One line of the table.
std::string row(const Machine& m, const std::string& file, Shape shape, const nlohmann::json& reference) {
  const auto devices = test::gpus(m);
  const std::clock_t start = std::clock();
  const auto ours = search(m, devices, shape);
  const double ms = 1000.0 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  const std::string head = fmt::format("{:<52} {:>3} {:<5}", file, devices.size(), shape == Shape::ring ? "ring" : "chain");
  if (!ours.ok()) return fmt::format("{} {}", head, ours.error().what);
  const Load load = load_of(m, devices, ours->channels);
  CHECK(load.faults == std::vector<std::string>{});
  for (const Overload& over : load.over) FAIL_CHECK(describe(m, over));
  const double total = static_cast<double>(total_rate(ours->channels)) / 1000;
  const double theirs = static_cast<double>(their_rate(m, reference, file, shape)) / 1000;
  return fmt::format("{} {:>2} x {:>6.2f} = {:>7.2f} GB/s (bound {:>7.2f}), NCCL {:>7.2f}, ratio {}, {:.2f} ms", head,
                     ours->channels.size(), static_cast<double>(ours->channels[0].rate) / 1000, total,
                     static_cast<double>(ours->bound) / 1000, theirs, theirs > 0 ? fmt::format("{:.3f}", total / theirs) : "-",
                     ms);
}

}  // namespace

TEST_CASE("channels on real machines overload no link", "[unit][graph]") {
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
    for (const Shape shape : {Shape::ring, Shape::chain}) std::printf("%s\n", row(m, file, shape, reference).c_str());
  }
}
