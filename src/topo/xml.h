// NCCL's topology files (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE), version 1, and version 2 as RCCL writes it. docs/topology.md lists
// what is understood.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "topo/machine.h"

namespace ronde::topo {

/// Reads the text of a topology file, or of a file that hwloc wrote (the XML of lstopo); `file` is its name for messages. What is
/// missing is unknown and gets a conservative value; what is broken (no XML, another root, a number that is none, a second GPU at
/// an address) is an invalid_argument that names file:line, element and attribute. Any input gives one or the other.
Result<Reading> from_xml(std::string_view text, const std::string& file);

/// Writes version 1, or 2 where the machine has AMD GPUs. from_xml gives the same Machine back. CPU ranks stand in <cpurank>
/// elements, which other readers do not know.
std::string to_xml(const Machine& machine);

}  // namespace ronde::topo
