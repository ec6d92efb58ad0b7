// Channels on real machines, where there are files of some: TEST_TOPOLOGIES names a folder with files ending in .xml, and next
// to them may lie nccl-reference.json, with the channels that NCCL finds on them.
#include <fmt/core.h>

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "graph/channels.h"
#include "graph/load.h"
#include "support/catch.h"
#include "support/topo.h"
#include "tools/topo/reference.h"
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

/// One line of the table; fails where NCCL has more.
std::string row(const Machine& m, const std::string& file, bool two, Shape shape,
                const std::vector<tool::ReferenceGraph>& reference) {
  const auto devices = test::gpus(m);
  const std::clock_t start = std::clock();
  const auto ours = find_channels(m, devices, shape);
  const double ms = 1000.0 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  const std::string head = fmt::format("{:<52} {} {:>3} {:<4}", file, two ? "multi " : "single", devices.size(),
                                       shape == Shape::ring ? "ring" : "tree");
  const tool::ReferenceFigures nccl = tool::figures_of(reference, m, file, two, shape);
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
  const std::string folder = test::topologies();
  if (folder.empty()) {
    RONDE_SKIP("TEST_TOPOLOGIES names no folder with topology files");
  }
  std::vector<tool::ReferenceGraph> reference;
  const auto table = std::filesystem::path(folder) / "nccl-reference.json";
  if (std::filesystem::exists(table)) {
    auto read = tool::read_reference(contents(table), table);
    REQUIRE(read.ok());
    reference = std::move(*read);
  }
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
