// What tells two Machines apart.
#pragma once

#include <string>
#include <vector>

#include "topo/machine.h"

namespace ronde::topo::tool {

/// One sentence for each difference, where `a` and `b` name the Machines; none for equal ones. Nodes are the same by host and by
/// what identifies them there: NUMA number, bus id, rank, name; then by their place among what has nothing of that. What is there
/// once only comes first, then what is known of nodes, then links.
std::vector<std::string> differences(const Machine& one, const Machine& other, const std::string& a, const std::string& b);

}  // namespace ronde::topo::tool
