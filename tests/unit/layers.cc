// Nothing looks upwards: each folder includes only what lies below it in the map of src/README.md.
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "support/catch.h"

namespace {

/// The layer of an include path such as "base/log.h" or "transport/shm/hub.h"; -1 for what is no part of the library.
int layer_of(const std::string& path) {
  static const std::vector<std::string> order = {"base/", "fifo/", "boot/", "topo/", "graph/", "plan/", "tune/", "transport/", "kernels/", "exec/", "comm/", "api/"};
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

}  // namespace

TEST_CASE("no layer includes a higher one", "[unit][layers]") {
  REQUIRE(layer_of("base/log.h") < layer_of("comm/group.h"));
  REQUIRE(included("#include \"exec/work.h\"") == "exec/work.h");
  int files = 0;
  for (const std::string root : {"src", "transport", "kernels"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      const std::string ending = entry.path().extension();
      if (ending != ".h" && ending != ".cc") continue;
      const std::string path = root == "src" ? entry.path().lexically_relative("src").string() : entry.path().string();
      ++files;
      std::ifstream file(entry.path());
      for (std::string line; std::getline(file, line);) {
        const std::string header = included(line);
        INFO(entry.path().string() << ": " << line);
        if (!header.empty() && layer_of(header) >= 0) CHECK(layer_of(header) <= layer_of(path));
      }
    }
  }
  CHECK(files > 50);
}
