// Building and running small programs, and files to compare them with.
#pragma once

#include <string>
#include <vector>

namespace ronde::test {

/// Exit status (128 + signal where one ended it) and everything a command wrote, both streams together.
struct Outcome {
  int status = -1;
  std::string output;
};

/// Runs a shell command.
Outcome shell(const std::string& command);

/// A folder that lives as long as this object.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// The whole file; "" where it cannot be read.
std::string contents(const std::string& path);
/// Its lines, without empty ones and comments (#).
std::vector<std::string> lines_of(const std::string& path);

/// Paths of the source tree and of what was built, and the compilers that built it.
std::string source(const std::string& path);
std::string built(const std::string& path);
extern const std::string kCompilerC, kCompilerCxx;
/// Built with a sanitizer: a program built without one cannot be linked to such a library.
extern const bool kSanitized;

/// Folder of an installed CUDA toolkit that has include/<header>; "" where there is none.
std::string toolkit_with(const std::string& header);

}  // namespace ronde::test
