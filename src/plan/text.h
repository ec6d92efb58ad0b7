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

}  // namespace ronde
