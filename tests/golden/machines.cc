// Well-known machines in the text form, and the links that they give: a change of a table or a rule shows as a difference of a
// file. `test_golden "[.rewrite]"` writes the links anew; run from the root of the source.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "support/catch.h"
#include "support/topo.h"
#include "topo/text.h"

using namespace ronde;
using namespace ronde::topo;

namespace {

const std::filesystem::path kFolder = "tests/golden/machines";

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::filesystem::path> machines() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".machine") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string links_path(std::filesystem::path machine) { return machine.replace_extension(".links"); }

/// What is compared: the links, then what was assumed.
std::string listing(const Reading& reading) {
  std::string text = test::links_text(reading.machine);
  for (const std::string& note : reading.notes) text += "note: " + note + "\n";
  return text;
}

}  // namespace

TEST_CASE("golden: machines have the links on file", "[topo]") {
  const auto files = machines();
  CHECK(files.size() == 16);
  for (const auto& path : files) {
    const Reading reading = test::read_text(contents(path));
    INFO(path.string());
    CHECK(listing(reading) == contents(links_path(path)));
    // The other form says the same.
    CHECK(test::read_machine(to_xml(reading.machine)).machine == reading.machine);
  }
}

TEST_CASE("golden: write the machines' links anew", "[.rewrite]") {
  for (const auto& path : machines()) std::ofstream(links_path(path)) << listing(test::read_text(contents(path)));
}
