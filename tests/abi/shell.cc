#include "abi/shell.h"

#include <glob.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace ronde::test {

const std::string kCompilerC = RONDE_TEST_CC;
const std::string kCompilerCxx = RONDE_TEST_CXX;
const bool kSanitized = std::string(RONDE_TEST_SANITIZE) != "none";

Outcome shell(const std::string& command) {
  Outcome outcome;
  FILE* pipe = popen(("( " + command + " ) 2>&1").c_str(), "r");
  if (pipe == nullptr) return outcome;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) outcome.output.append(buffer, n);
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

Scratch::Scratch() {
  std::string pattern = (std::filesystem::temp_directory_path() / "ronde-abi-XXXXXX").string();
  if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
}

Scratch::~Scratch() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::istringstream file(contents(path));
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') lines.push_back(line);
  }
  return lines;
}

std::string source(const std::string& path) { return std::string(RONDE_TEST_SOURCE) + "/" + path; }
std::string built(const std::string& path) { return std::string(RONDE_TEST_BUILD) + "/" + path; }

std::string toolkit_with(const std::string& header) {
  for (const char* pattern : {"/usr/local/cuda", "/usr/local/cuda-*", "/opt/cuda"}) {
    glob_t found;
    std::string root;
    if (glob(pattern, 0, nullptr, &found) == 0) {
      for (size_t i = 0; i < found.gl_pathc && root.empty(); ++i) {
        if (std::filesystem::exists(std::string(found.gl_pathv[i]) + "/include/" + header)) root = found.gl_pathv[i];
      }
    }
    globfree(&found);
    if (!root.empty()) return root;
  }
  return "";
}

}  // namespace ronde::test
