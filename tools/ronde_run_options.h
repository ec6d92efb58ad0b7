// What ronde-run is asked to do.
#pragma once

#include <string>
#include <vector>

#include "tools/ronde_run_hosts.h"

namespace ronde::run {

struct Options {
  int ranks = 0;
  bool prefix = true;
  double timeout = 0;  ///< seconds; 0: none
  double grace = 5;    ///< seconds between SIGTERM and SIGKILL
  Split split;         ///< of the ranks over hosts; empty: they run here
  Links links;
  char** command = nullptr;
};

/// Explains and ends the program where that is what the arguments come to.
Options parse(int argc, char** argv);

/// A line on standard error.
void say(const std::string& text);

}  // namespace ronde::run
