// What ronde-topo does: one function a command. Each writes what was asked for to standard output or the file named, and what it
// has to say to standard error.
#pragma once

#include <string>

namespace ronde::topo_tool {

/// Exit statuses.
inline constexpr int kDone = 0;
inline constexpr int kNo = 1;      ///< the question has the answer no: machines differ, a check fails
inline constexpr int kUsage = 2;   ///< the command line is wrong
inline constexpr int kFailed = 3;  ///< something could not be read or written

struct DumpOptions {
  std::string input;   ///< as read_input() takes it
  std::string output;  ///< a file, or "" for standard output
  std::string format;  ///< "xml", "text"; "" by the output's ending, XML where that says nothing
};
/// Reads a machine and writes it in a form that ronde reads.
int dump(const DumpOptions& options);

}  // namespace ronde::topo_tool
