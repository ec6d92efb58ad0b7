#include "tools/topo/input.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "tools/topo/commands.h"
#include "topo/detect.h"
#include "topo/text.h"
#include "topo/xml.h"

namespace ronde::topo::tool {
namespace {

constexpr const char* kForms =
    "expected a topology file in NCCL's XML or in ronde's text form, or a folder with a host's sys/ and proc/";

struct Closer {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

Result<Reading> read_folder(const std::string& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder + "/sys", ignored)) {
    return fail(Code::invalid_argument,
                fmt::format("cannot read a host from the folder '{}': it has no folder sys; {}", folder, kForms));
  }
  return detect(folder);
}

}  // namespace

Result<std::string> contents_of(const std::string& file) {
  const std::string attempted = fmt::format("cannot read the file '{}'", file);
  const std::unique_ptr<std::FILE, Closer> opened(file == "-" ? fdopen(0, "r") : std::fopen(file.c_str(), "re"));
  if (opened == nullptr) return system_failure(errno, attempted, kForms);
  std::string text;
  char buffer[65536];
  while (const size_t got = std::fread(buffer, 1, sizeof buffer, opened.get())) text.append(buffer, got);
  if (std::ferror(opened.get()) != 0) return system_failure(errno, attempted, kForms);
  return text;
}

Result<Reading> read_input(const std::string& word) {
  if (word.empty()) return detect("");
  std::error_code ignored;
  if (std::filesystem::is_directory(word, ignored)) return read_folder(word);
  RONDE_TRY(const std::string text, contents_of(word));
  const size_t start = text.find_first_not_of(" \t\r\n\f\v");
  if (start == std::string::npos) return fail(Code::invalid_argument, fmt::format("the file '{}' is empty; {}", word, kForms));
  // A byte order mark comes before XML alone.
  const bool xml = text[start] == '<' || text.compare(0, 3, "\xef\xbb\xbf") == 0;
  return xml ? from_xml(text, word) : from_text(text, word);
}

Result<> write_output(const std::string& file, const std::string& text) {
  const bool named = !file.empty() && file != "-";
  const std::string attempted = fmt::format("cannot write {}", named ? "the file '" + file + "'" : "standard output");
  const std::string remedy = "name a file that can be written, on a device with room";
  std::FILE* out = named ? std::fopen(file.c_str(), "we") : stdout;
  if (out == nullptr) return system_failure(errno, attempted, remedy);
  const bool written = std::fwrite(text.data(), 1, text.size(), out) == text.size() && std::fflush(out) == 0;
  const int why = errno;
  const bool closed = !named || std::fclose(out) == 0;
  if (!written || !closed) return system_failure(written ? errno : why, attempted, remedy);
  return Done{};
}

int failed(const Error& error) {
  std::fprintf(stderr, "ronde-topo: %s\n", error.what.c_str());
  return kFailed;
}

void say_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) std::fprintf(stderr, "ronde-topo: warning: %s\n", note.c_str());
}

}  // namespace ronde::topo::tool
