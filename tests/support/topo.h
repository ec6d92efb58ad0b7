// Machines in tests: short texts to compare with, and the round trip that every one of them has to survive.
#pragma once

#include <string>
#include <string_view>

#include "topo/xml.h"

namespace ronde::test {

/// One line a link: "gpu 0 - switch 0000:01:00.0: PCI x16 24 derived", in GB/s for each direction.
std::string links_text(const topo::Machine& machine);

/// The folder with files of real machines that TEST_TOPOLOGIES names; "" where there is none.
std::string topologies();

/// Reads `xml`; requires that it succeeds, that check() finds nothing, and that to_xml() gives the same
/// Machine back.
topo::Reading read_machine(std::string_view xml);

/// The same for the text form.
topo::Reading read_text(std::string_view text);

/// The text of the error that reading `xml` as the file "m.xml" gives; requires that there is one.
std::string read_error(std::string_view xml);

}  // namespace ronde::test
