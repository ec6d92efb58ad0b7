#include "proc/command.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <sstream>

#include "support/catch.h"

namespace ronde::test {

std::string built_file(const std::string& path) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / path;
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> sorted_lines(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

Folder::Folder() {
  std::string name = std::filesystem::temp_directory_path() / "ronde-test-XXXXXX";
  REQUIRE(mkdtemp(name.data()) != nullptr);
  path = name;
}

Folder::~Folder() { std::filesystem::remove_all(path); }

pid_t launch(const Folder& folder, const std::string& command) {
  const std::string line = "exec " + command + " > out 2> err";
  const pid_t pid = fork();
  if (pid == 0) {
    if (chdir(folder.path.c_str()) == 0) execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    _exit(99);
  }
  return pid;
}

Outcome finish(const Folder& folder, pid_t pid) {
  Outcome outcome;
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  outcome.out = text_of(folder.path / "out");
  outcome.err = text_of(folder.path / "err");
  return outcome;
}

Outcome run_command(const std::string& command, const Folder& folder) {
  const auto started = std::chrono::steady_clock::now();
  Outcome outcome = finish(folder, launch(folder, command));
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return outcome;
}

}  // namespace ronde::test
