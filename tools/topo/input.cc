#include "tools/topo/input.h"

#include <cerrno>
#include <cstdio>

#include "base/config.h"
#include "base/files.h"
#include "tools/topo/commands.h"
#include "topo/source.h"

namespace ronde::topo::tool {

Result<Reading> read_input(const std::string& word) {
  return word.empty() ? machine_of_host(*current_config(), 0) : load_machine(word);
}

Result<> write_output(const std::string& file, const std::string& text) {
  if (!file.empty()) return write_file(file, text);
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return Done{};
  return system_failure(errno, "cannot write to standard output", "send it to where there is room");
}

int failed(const Error& error) {
  std::fprintf(stderr, "ronde-topo: %s\n", error.what.c_str());
  return kFailed;
}

void say_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) std::fprintf(stderr, "ronde-topo: warning: %s\n", note.c_str());
}

}  // namespace ronde::topo::tool
