// The text form of Programs: what a user can read, save, edit and bring back.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "plan/program.h"

namespace ronde {

/// A whole set of Programs with what they are for.
struct Schedule {
  CollSpec spec;
  std::vector<Program> world;  ///< by rank; several channels follow each other
  bool operator==(const Schedule&) const = default;
};

std::string to_text(const Schedule& schedule);
/// from_text(to_text(x)) == x. Errors (invalid_argument) carry line number, the word found and what was expected. Never crashes on any input.
Result<Schedule> from_text(std::string_view text);

/// A Schedule and the line of its text where it begins.
struct PlacedSchedule {
  Schedule schedule;
  size_t line = 0;
};

/// One Schedule or several, one after the other. Errors begin with "path:line: ".
Result<std::vector<PlacedSchedule>> schedules_from_text(std::string_view text, std::string_view path);

}  // namespace ronde
