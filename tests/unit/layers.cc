// Nothing looks upwards: each folder includes only what lies below it in the map of src/README.md; programs see what that page
// says.
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "support/catch.h"

namespace {

/// The layer of an include path such as "base/log.h" or "transport/shm/hub.h"; -1 for what is no part of the library.
int layer_of(const std::string& path) {
  static const std::vector<std::string> order = {"base/", "device/", "fifo/", "boot/",    "topo/", "graph/", "plan/",
                                                 "tune/", "transport/", "kernels/", "exec/", "comm/",  "api/"};
  for (size_t i = 0; i < order.size(); ++i) {
    if (path.rfind(order[i], 0) == 0) return static_cast<int>(i);
  }
  return -1;
}

/// The project header that a line includes; "" for any other line.
std::string included(const std::string& line) {
  const std::string start = "#include \"";
  if (line.rfind(start, 0) != 0) return "";
  return line.substr(start.size(), line.find('"', start.size()) - start.size());
}

/// A line `header` of the file `path` includes.
struct Include {
  std::string path;
  std::string header;
};

/// All of the C++ files in a folder and those below it.
std::vector<Include> includes_of(const std::string& folder) {
  std::vector<Include> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string ending = entry.path().extension();
    if (ending != ".h" && ending != ".cc") continue;
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      const std::string header = included(line);
      if (!header.empty()) found.push_back({entry.path().string(), header});
    }
  }
  return found;
}

bool starts_with(const std::string& text, const std::string& start) { return text.rfind(start, 0) == 0; }

/// bench/ and the programs directly in tools/.
bool sees_the_api_alone(const std::string& path) {
  return starts_with(path, "bench/") || std::filesystem::path(path).parent_path() == "tools";
}

}  // namespace

TEST_CASE("no layer includes a higher one", "[unit][layers]") {
  REQUIRE(layer_of("base/log.h") < layer_of("comm/group.h"));
  REQUIRE(included("#include \"exec/work.h\"") == "exec/work.h");
  std::set<std::string> files;
  for (const std::string root : {"src", "transport", "kernels"}) {
    for (const Include& include : includes_of(root)) {
      INFO(include.path << " includes " << include.header);
      files.insert(include.path);
      const std::string path = root == "src" ? include.path.substr(4) : include.path;
      if (layer_of(include.header) >= 0) CHECK(layer_of(include.header) <= layer_of(path));
      CHECK_FALSE(starts_with(include.header, "tools/"));
      CHECK_FALSE(starts_with(include.header, "bench/"));
    }
  }
  CHECK(files.size() > 50);
}

TEST_CASE("programs see the API; those that see more lie in folders of tools/", "[unit][layers]") {
  REQUIRE(sees_the_api_alone("tools/ronde_run.cc"));
  REQUIRE_FALSE(sees_the_api_alone("tools/topo/main.cc"));
  int files = 0;
  int tools = 0;
  for (const std::string root : {"bench", "tools"}) {
    for (const Include& include : includes_of(root)) {
      INFO(include.path << " includes " << include.header);
      if (sees_the_api_alone(include.path)) {
        ++files;
        CHECK(layer_of(include.header) == -1);
        if (starts_with(include.header, "tools/")) CHECK(sees_the_api_alone(include.header));
      } else {
        ++tools;
      }
    }
  }
  CHECK(files > 10);
  CHECK(tools > 3);
}
