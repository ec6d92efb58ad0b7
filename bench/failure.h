// How a benchmark fails: with nccl-tests' exit codes.
#pragma once

#include <stdexcept>
#include <string>

namespace ronde::bench {

/// The exit status of a benchmark. A bad command line is 255.
enum class Exit : int {
  good = 0,
  internal = 1,
  device = 2,
  library = 3,
  timeout = 4,
  not_implemented = 5,
  invalid_usage = 6,
  wrong_data = 7,
  bad_command_line = 255,
};

/// Ends the test; `what` is a sentence for the user. Thrown within bench/ only.
class TestFailure : public std::runtime_error {
 public:
  TestFailure(Exit code, const std::string& what, const char* file = __builtin_FILE(), int line = __builtin_LINE())
      : std::runtime_error(what), code_(code), file_(file), line_(line) {}
  Exit code() const { return code_; }
  const char* file() const { return file_; }
  int line() const { return line_; }

 private:
  Exit code_;
  const char* file_;
  int line_;
};

}  // namespace ronde::bench
