// Running what was built, as a user would: in a folder of its own, with its output and status.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace ronde::test {

/// A file of the build folder, for example "tools/ronde-run".
std::string built_file(const std::string& path);
/// The whole file; "" where it cannot be read.
std::string text_of(const std::filesystem::path& path);
std::vector<std::string> sorted_lines(const std::string& text);

/// A new folder that lives as long as this.
struct Folder {
  std::filesystem::path path;
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
};

struct Outcome {
  int status = -1;  ///< 1000 and the number where a signal ended it
  std::string out;
  std::string err;
  double seconds = 0;
};

/// Starts a shell command in `folder`, its output in the files out and err there. It is the shell's last: its process is the
/// command's.
pid_t launch(const Folder& folder, const std::string& command);
/// Waits for it.
Outcome finish(const Folder& folder, pid_t pid);
Outcome run_command(const std::string& command, const Folder& folder = {});

}  // namespace ronde::test
