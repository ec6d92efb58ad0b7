// What ronde-topo shows of well-known machines, and the drawings in docs/. `test_golden "[.rewrite]"` writes both anew; run from
// the root of the source.
#include <filesystem>
#include <fstream>
#include <iterator>

#include "support/catch.h"
#include "tools/topo/channel_sets.h"
#include "tools/topo/svg.h"
#include "tools/topo/tree.h"
#include "topo/text.h"

using namespace ronde;
using namespace ronde::topo;

namespace {

const std::vector<std::string> kShown = {"bridge-pairs", "cpu-host", "dgx-1v", "gb200-nvl72", "hgx-h100"};
const std::vector<std::string> kDrawn = {"dgx-1v", "gb200-nvl72", "hgx-h100"};

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

Machine machine_of(const std::string& name) {
  auto read = from_text(contents("tests/golden/machines/" + name + ".machine"), name);
  REQUIRE(read.ok());
  return std::move(read->machine);
}

std::string shown_path(const std::string& name) { return "tests/golden/topo/" + name + ".show"; }
std::string drawn_path(const std::string& name) { return "docs/drawings/" + name + ".svg"; }

std::string shown(const Machine& machine) {
  const tool::Look look{false, true, 110};
  return tool::overview(machine, look, false) + "\n" + tool::channels_text(machine, tool::channel_sets(machine));
}

std::string drawn(const Machine& machine) { return tool::drawing(machine, tool::channel_sets(machine)); }

}  // namespace

TEST_CASE("golden: machines are shown as on file", "[topo_tool]") {
  for (const std::string& name : kShown) {
    INFO(name);
    CHECK(shown(machine_of(name)) == contents(shown_path(name)));
  }
}

TEST_CASE("golden: the drawings in docs are those that ronde-topo makes", "[topo_tool]") {
  for (const std::string& name : kDrawn) {
    INFO(name);
    const std::string text = drawn(machine_of(name));
    CHECK(text.size() < 64 * 1024);
    CHECK(text == contents(drawn_path(name)));
  }
}

TEST_CASE("golden: write what ronde-topo shows and draws anew", "[.rewrite]") {
  for (const std::string& name : kShown) std::ofstream(shown_path(name)) << shown(machine_of(name));
  for (const std::string& name : kDrawn) std::ofstream(drawn_path(name)) << drawn(machine_of(name));
}
