// Machines as hwloc writes them: the XML of lstopo, versions 1 to 3 of its format.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "topo/machine.h"

namespace ronde::topo {

/// Reads the text of an hwloc XML file; `file` is its name for messages. NUMA nodes, PCI functions, GPUs, ports and the matrix of
/// NVLink bandwidths are read as detect() would find them; hwloc knows neither speeds of ports nor, mostly, models of GPUs. What
/// is missing is unknown; what is broken is an invalid_argument that names file:line, element and attribute.
Result<Reading> from_hwloc_xml(std::string_view text, const std::string& file);

}  // namespace ronde::topo
