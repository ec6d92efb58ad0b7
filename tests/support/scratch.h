// Files and folders that go with the test that made them.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include "support/catch.h"

namespace ronde::test {

/// A new folder, which goes with all that is in it.
class Scratch {
 public:
  Scratch() {
    std::string name = std::filesystem::temp_directory_path() / "ronde-test-XXXXXX";
    REQUIRE(mkdtemp(name.data()) != nullptr);
    root_ = name;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::string& root() const { return root_; }
  std::string path(const std::string& name) const { return root_ + "/" + name; }
  /// Writes a file, in folders that are made for it, and returns its path.
  std::string write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }
  std::string read(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::string root_;
};

/// A new file with that text.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& text) : path_(folder_.write("file", text)) {}
  const std::string& path() const { return path_; }

 private:
  Scratch folder_;
  std::string path_;
};

}  // namespace ronde::test
