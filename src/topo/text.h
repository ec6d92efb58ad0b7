// Machines as short texts, for hand and test use. docs/topology.md describes the language.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "topo/machine.h"

namespace ronde::topo {

/// Reads the text form; `file` is its name for messages. Errors are invalid_argument and say file:line. Any input gives a Machine
/// or an error.
Result<Reading> from_text(std::string_view text, const std::string& file);

/// Writes the text form. from_text gives the same Machine back.
std::string to_text(const Machine& machine);

}  // namespace ronde::topo
