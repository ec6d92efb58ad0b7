// Settings and inputs for tests of the choice, and what it wrote to the log.
#pragma once

#include <unistd.h>
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "base/log.h"
#include "tune/choose.h"

namespace ronde::test {

/// A Config from these variables and nothing else.
inline Config config_of(const std::map<std::string, std::string>& variables) {
  return read_config(
      [&](const char* name) -> const char* {
        const auto at = variables.find(name);
        return at == variables.end() ? nullptr : at->second.c_str();
      },
      {}, nullptr);
}

/// The error's text; "" for none.
inline std::string parse_error(const std::map<std::string, std::string>& variables) {
  const Result<TuneRules> rules = TuneRules::parse(config_of(variables));
  return rules.ok() ? "" : rules.error().what;
}

/// Rules that must parse.
inline TuneRules rules_of(const std::map<std::string, std::string>& variables) {
  return TuneRules::parse(config_of(variables)).value();
}

inline TuneInputs inputs_of(int ranks, int ranks_per_core = 1, bool lends = true) {
  TuneInputs inputs;
  inputs.ranks = ranks;
  inputs.ranks_per_core = ranks_per_core;
  inputs.lends = lends;
  return inputs;
}

/// Sends the log to a file while it lives.
class CapturedLog {
 public:
  CapturedLog() {
    char path[] = "/tmp/ronde-log-XXXXXX";
    const int fd = mkstemp(path);
    if (fd >= 0) close(fd);
    path_ = path;
    setenv("RONDE_DEBUG_FILE", path_.c_str(), 1);
    setenv("RONDE_DEBUG", "WARN", 1);
    log_reset();
  }
  ~CapturedLog() {
    unsetenv("RONDE_DEBUG_FILE");
    unsetenv("RONDE_DEBUG");
    log_reset();
    unlink(path_.c_str());
  }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;

  std::string text() const {
    std::stringstream all;
    all << std::ifstream(path_).rdbuf();
    return all.str();
  }
  size_t lines() const {
    const std::string all = text();
    return static_cast<size_t>(std::count(all.begin(), all.end(), '\n'));
  }

 private:
  std::string path_;
};

}  // namespace ronde::test
