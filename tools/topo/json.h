// A Machine for programs.
#pragma once

#include <string>

#include "tools/topo/channel_sets.h"
#include "topo/machine.h"

namespace ronde::topo::tool {

/// An object with hosts, nodes, links, paths (where the devices and ports are few enough for a table), channels (of `sets`) and
/// notes; docs/tools.md lists the names. Bandwidths are MB/s in each direction.
std::string to_json(const Reading& reading, const std::vector<ChannelSet>& sets);

}  // namespace ronde::topo::tool
