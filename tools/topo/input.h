// Where the tool's machines come from, and where its texts go.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "topo/machine.h"

namespace ronde::topo::tool {

/// The machine that a word of the command line means: "" is this host as ronde takes it (RONDE_TOPO_FILE counts), anything else a
/// file or folder that holds one. Errors name the file, the line where there is one, and the remedy.
Result<Reading> read_input(const std::string& word);

/// Writes `text` to a file, or to standard output for "". An error says why not.
Result<> write_output(const std::string& file, const std::string& text);

/// Says an error on standard error; returns the exit status for it.
int failed(const Error& error);
/// Says what a source leaves open, on standard error.
void say_notes(const std::vector<std::string>& notes);

}  // namespace ronde::topo::tool
