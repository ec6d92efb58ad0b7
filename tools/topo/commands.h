// What ronde-topo does: one function a command. Each writes what was asked for to standard output or the file named, and what it
// has to say to standard error.
#pragma once

#include <string>
#include <vector>

namespace ronde::topo::tool {

/// Exit statuses.
inline constexpr int kDone = 0;
inline constexpr int kNo = 1;      ///< the question has the answer no: machines differ, a check fails
inline constexpr int kUsage = 2;   ///< the command line is wrong
inline constexpr int kFailed = 3;  ///< something could not be read or written

struct ShowOptions {
  std::string input;  ///< as read_input() takes it
  std::string svg;    ///< a file for a drawing in place of text
  bool json = false;
  bool channels = false;  ///< those found as well
  bool all = false;       ///< hosts like others, and paths however many
  std::string colour = "auto";
  int width = 0;  ///< 0: the terminal's
};
/// Shows a machine.
int show(const ShowOptions& options);

struct DumpOptions {
  std::string input;   ///< as read_input() takes it
  std::string output;  ///< a file, or "" for standard output
  std::string format;  ///< "xml", "text", "json"; "" by the output's ending, XML where that says nothing
};
/// Reads a machine and writes it in a form that ronde reads.
int dump(const DumpOptions& options);

struct DiffOptions {
  std::string a;
  std::string b;
};
/// Says what differs between two machines; kNo where something does.
int diff(const DiffOptions& options);

struct GatherOptions {
  std::string input;
  std::string output;
};
/// Writes a machine for a bug report.
int gather(const GatherOptions& options);

struct CheckOptions {
  std::vector<std::string> inputs;  ///< files and folders; none: this host
  bool strict = false;              ///< kNo also where a file cannot be read
  bool json = false;
};
/// Searches channels for machines, checks what they load links with, and compares them with NCCL's where those are known.
int check(const CheckOptions& options);

}  // namespace ronde::topo::tool
