// ronde-plan show and verify: Programs of an algorithm, or a user's own, printed and proven.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "plan/text.h"

namespace ronde::plan::tool {

/// Which Programs: those of a file (docs/programs.md), or else an algorithm's for one collective.
struct ProgramOptions {
  std::string file;
  std::string algorithm = "ring";
  std::string call = "AllReduce";
  int ranks = 4;
  int nodes = 1;  ///< with as many ranks each as fit evenly, rank after rank
  int root = 0;
};

/// invalid_argument names what is wrong in the options, or file and line.
Result<std::vector<PlacedSchedule>> programs_of(const ProgramOptions& options);

/// The text form; several Schedules follow each other.
Result<std::string> show_text(const ProgramOptions& options);
/// What each lane does in each step, as steps.h has it. invalid_argument where the Programs do not end.
Result<std::string> show_steps(const ProgramOptions& options);
/// The same as a drawing, an SVG file.
Result<std::string> show_svg(const ProgramOptions& options);

struct Proof {
  std::string text;  ///< for each Schedule and channel: right or its faults, slots needed, canonical or not
  bool right = true;
};
/// Proves the Programs, in place and not, for connections of `slots` slots.
Result<Proof> prove(const ProgramOptions& options, int slots);

}  // namespace ronde::plan::tool
