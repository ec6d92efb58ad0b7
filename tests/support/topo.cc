#include "support/topo.h"

#include <fmt/core.h>

#include "support/catch.h"

namespace ronde::test {

std::string links_text(const topo::Machine& machine) {
  std::string text;
  for (const topo::Link& link : machine.links) {
    text += fmt::format("{} - {}: {} x{} {} {}\n", describe(machine, link.a), describe(machine, link.b), to_string(link.kind),
                        link.count, link.gbps(), to_string(link.source));
  }
  return text;
}

topo::Reading read_machine(std::string_view xml) {
  auto read = topo::from_xml(xml, "m.xml");
  INFO((read.ok() ? std::string() : read.error().what));
  REQUIRE(read.ok());
  CHECK(check(read->machine) == std::vector<std::string>{});
  const std::string written = to_xml(read->machine);
  INFO(written);
  const auto again = topo::from_xml(written, "written.xml");
  INFO((again.ok() ? std::string() : again.error().what));
  REQUIRE(again.ok());
  CHECK(links_text(again->machine) == links_text(read->machine));
  CHECK(again->machine == read->machine);
  return std::move(*read);
}

std::string read_error(std::string_view xml) {
  const auto read = topo::from_xml(xml, "m.xml");
  REQUIRE_FALSE(read.ok());
  CHECK(read.error().code == Code::invalid_argument);
  return read.error().what;
}

}  // namespace ronde::test
