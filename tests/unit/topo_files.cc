// Topology files of real machines, where there are some: TEST_TOPOLOGIES names a folder with files ending in .xml.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/topo.h"
#include "topo/xml.h"

using namespace ronde;
using namespace ronde::topo;

namespace {

std::vector<std::filesystem::path> xml_files(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".xml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// An error has to say where; "" for one that does, else the error.
std::string placeless(const std::string& what, const std::string& file) {
  const size_t colon = file.size();
  const bool placed = what.rfind(file + ":", 0) == 0 && what.find_first_not_of("0123456789", colon + 1) > colon + 1;
  return placed ? "" : what;
}

}  // namespace

TEST_CASE("files of real machines give a machine, and what is assumed of it is said; or an error with its place",
          "[unit][topo]") {
  const std::string folder = test::topologies();
  if (folder.empty())
    RONDE_SKIP("TEST_TOPOLOGIES names no folder with topology files");
  int machines = 0;
  for (const auto& path : xml_files(folder)) {
    const std::string file = path.filename();
    INFO(file);
    const std::string text = contents(path);
    const auto read = from_xml(text, file);
    if (!read.ok()) {
      CHECK(placeless(read.error().what, file) == "");
      // Files of other kinds, and those that were cut off, are all that may fail.
      CHECK((text.find("<system") == std::string::npos || text.find("</system>") == std::string::npos));
      continue;
    }
    ++machines;
    const Machine& m = read->machine;
    CHECK(check(m) == std::vector<std::string>{});
    const bool assumed =
        std::any_of(m.links.begin(), m.links.end(), [](const Link& link) { return link.source == Source::assumed; });
    CHECK((!assumed || !read->notes.empty()));
    for (const std::string& note : read->notes) CHECK(note.find("is not known") == std::string::npos);
    const auto again = from_xml(to_xml(m), file);
    REQUIRE(again.ok());
    CHECK(again->machine == m);
  }
  CHECK(machines > 0);
}
