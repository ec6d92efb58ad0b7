#include <fmt/core.h>

#include <filesystem>

#include "tools/topo/commands.h"
#include "tools/topo/input.h"
#include "tools/topo/json.h"
#include "topo/text.h"
#include "topo/xml.h"

namespace ronde::topo::tool {

namespace {

std::string written(const Reading& reading, const std::string& format) {
  if (format == "text") return to_text(reading.machine);
  return format == "json" ? to_json(reading, {}) : to_xml(reading.machine);
}

/// Where nothing is said: what the file's name says.
std::string format_of(const std::string& file) {
  const std::string ending = std::filesystem::path(file).extension();
  if (ending == ".machine" || ending == ".txt") return "text";
  return ending == ".json" ? "json" : "xml";
}

}  // namespace

int dump(const DumpOptions& options) {
  const auto reading = read_input(options.input);
  if (!reading.ok()) return failed(reading.error());
  const std::string format = options.format.empty() ? format_of(options.output) : options.format;
  const auto done = write_output(options.output, written(*reading, format));
  if (!done.ok()) return failed(done.error());
  say_notes(reading->notes);
  return kDone;
}

}  // namespace ronde::topo::tool
