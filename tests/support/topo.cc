#include "support/topo.h"

#include <fmt/core.h>

#include <filesystem>

#include "base/config.h"
#include "support/catch.h"
#include "topo/text.h"

namespace ronde::test {

std::string links_text(const topo::Machine& machine) {
  std::string text;
  for (const topo::Link& link : machine.links) {
    text += fmt::format("{} - {}: {} x{} {} {}\n", describe(machine, link.a), describe(machine, link.b), to_string(link.kind),
                        link.count, link.gbps(), to_string(link.source));
  }
  return text;
}

namespace {

using Reader = Result<topo::Reading> (*)(std::string_view, const std::string&);

topo::Reading read_twice(std::string_view text, Reader read, std::string (*write)(const topo::Machine&)) {
  auto reading = read(text, "m");
  INFO((reading.ok() ? std::string() : reading.error().what));
  REQUIRE(reading.ok());
  CHECK(check(reading->machine) == std::vector<std::string>{});
  const std::string written = write(reading->machine);
  INFO(written);
  const auto again = read(written, "written");
  INFO((again.ok() ? std::string() : again.error().what));
  REQUIRE(again.ok());
  CHECK(links_text(again->machine) == links_text(reading->machine));
  CHECK(again->machine == reading->machine);
  return std::move(*reading);
}

}  // namespace

std::string topologies() {
  const char* folder = process_variable("TEST_TOPOLOGIES");
  return folder != nullptr && std::filesystem::is_directory(folder) ? folder : "";
}

topo::Reading read_machine(std::string_view xml) { return read_twice(xml, topo::from_xml, topo::to_xml); }

topo::Reading read_text(std::string_view text) { return read_twice(text, topo::from_text, topo::to_text); }

std::string read_error(std::string_view xml) {
  const auto read = topo::from_xml(xml, "m.xml");
  REQUIRE_FALSE(read.ok());
  CHECK(read.error().code == Code::invalid_argument);
  return read.error().what;
}

}  // namespace ronde::test
