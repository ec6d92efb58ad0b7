#include <filesystem>

#include "tools/topo/commands.h"
#include "tools/topo/diff.h"
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

int diff(const DiffOptions& options) {
  const auto a = read_input(options.a);
  if (!a.ok()) return failed(a.error());
  const auto b = read_input(options.b);
  if (!b.ok()) return failed(b.error());
  const auto found = differences(a->machine, b->machine, options.a, options.b);
  std::string text;
  for (const std::string& line : found) text += line + "\n";
  const auto written = write_output("", text);
  if (!written.ok()) return failed(written.error());
  return found.empty() ? kDone : kNo;
}

}  // namespace ronde::topo::tool
