#include <fmt/core.h>

#include <cstdio>
#include <filesystem>

#include "tools/topo/commands.h"
#include "tools/topo/input.h"
#include "topo/text.h"
#include "topo/xml.h"

namespace ronde::topo_tool {

int dump(const DumpOptions& options) {
  const auto reading = read_input(options.input);
  if (!reading.ok()) return failed(reading.error());
  say_notes(reading->notes);
  const std::string ending = std::filesystem::path(options.output).extension();
  const bool text = options.format == "text" || (options.format.empty() && (ending == ".machine" || ending == ".txt"));
  const auto written = write_output(options.output, text ? to_text(reading->machine) : to_xml(reading->machine));
  return written.ok() ? kDone : failed(written.error());
}

}  // namespace ronde::topo_tool
