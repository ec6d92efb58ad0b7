// Programs as text, for a few small worlds: a change of an algorithm shows as a difference of a file.
// The drawing of docs/programs.md too. `test_golden "[.rewrite]"` writes them anew; run from the root of the source.
#include <fmt/core.h>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "plan/algorithm.h"
#include "plan/text.h"
#include "support/catch.h"
#include "tools/plan/predict.h"
#include "tools/plan/programs.h"

using namespace ronde;

namespace {

const std::filesystem::path kFolder = "tests/golden/programs";
const std::filesystem::path kDrawing = "docs/drawings/ring-4.svg";

struct Golden {
  std::string name;
  std::string text;
};

/// The ring of n ranks that is used here: 0, then the rest backwards, so that rank and position differ.
Channel channel(int n) {
  Channel it;
  for (int i = 0; i < n; ++i) it.ring.push_back((n - i) % n);
  return it;
}

/// The same with its first two ranks on one node and the rest on another.
Channel two_nodes(int n) {
  Channel it = channel(n);
  it.node_of.assign(static_cast<size_t>(n), 1);
  it.node_of[static_cast<size_t>(it.ring[0])] = it.node_of[static_cast<size_t>(it.ring[1])] = 0;
  return it;
}

Golden golden(const Algorithm& algorithm, const CollSpec& spec, const Channel& channel, const std::string& shape) {
  Schedule schedule{spec, {}};
  for (int rank = 0; rank < spec.ranks; ++rank) {
    Result<Program> program = algorithm.build(spec, channel, rank);
    REQUIRE(program.ok());
    schedule.world.push_back(std::move(program).value());
  }
  return {fmt::format("{}_{}_{}.txt", algorithm.name, name_of(spec.coll), shape), to_text(schedule)};
}

std::vector<Golden> all() {
  std::vector<Golden> list;
  for (const Algorithm& algorithm : algorithms()) {
    for (int c = 0; c < static_cast<int>(Coll::send); ++c) {
      for (int n : {3, 4}) {
        const Coll coll = static_cast<Coll>(c);
        const CollSpec spec{coll, n, has_root(coll) ? 1 : 0};
        if (!algorithm.supports(spec)) continue;
        list.push_back(golden(algorithm, spec, channel(n), std::to_string(n)));
        if (algorithm.several_nodes || algorithm.name == "tree") {
          list.push_back(golden(algorithm, spec, two_nodes(n), fmt::format("2+{}", n - 2)));
        }
      }
    }
  }
  return list;
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream in(path);
  REQUIRE(in.good());
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("golden: each algorithm builds the Programs on file", "[plan]") {
  std::set<std::string> names;
  for (const Golden& golden : all()) {
    INFO(golden.name);
    REQUIRE(text_of(kFolder / golden.name) == golden.text);
    names.insert(golden.name);
  }
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    INFO(entry.path() << " belongs to no algorithm");
    REQUIRE(names.count(entry.path().filename().string()) == 1);
  }
}

TEST_CASE("golden: the drawing in docs is the one that ronde-plan makes", "[plan][tool]") {
  CHECK(text_of(kDrawing) == plan::tool::show_svg({}).value());
}

TEST_CASE("golden: docs have what ronde-plan says of published figures", "[plan][tool]") {
  const std::string docs = text_of("docs/simulation.md");
  std::istringstream rows(plan::tool::published("tests/golden/machines", built_in_costs(), 4).value());
  int count = 0;
  for (std::string row; std::getline(rows, row); ++count) {
    INFO(row);
    CHECK(docs.find(row + "\n") != std::string::npos);
  }
  CHECK(count > 10);
  CHECK_FALSE(plan::tool::published("/nonexistent", built_in_costs(), 1).ok());
}

TEST_CASE("golden: write the Programs' files anew", "[.rewrite]") {
  std::ofstream(kDrawing) << plan::tool::show_svg({}).value();
  std::filesystem::remove_all(kFolder);
  std::filesystem::create_directories(kFolder);
  for (const Golden& golden : all()) {
    std::ofstream out(kFolder / golden.name);
    out << golden.text;
    REQUIRE(out.good());
  }
}
