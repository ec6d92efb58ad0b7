// Machines that may be shown to anyone.
#pragma once

#include <string>
#include <string_view>

#include "topo/machine.h"

namespace ronde::topo::tool {

/// Without what names a host or an adapter: identities of hosts and NVLink domains and GUIDs become small numbers (equal ones
/// stay equal), texts that are no known vendor or architecture go, and names of ports keep their kind alone ("mlx5_bond_3" is a
/// mlx5_bond, what is not known to be a kind a "port") and get a number. Everything else stays: bus ids, PCI ids, models, CPUs,
/// speeds.
Machine anonymous(const Machine& machine);
/// "mlx5" of "mlx5_3"; "port" for names that nothing is known of.
std::string kind_of_port(std::string_view name);

/// What gather writes: the text form, below lines that say what it is and what is in it.
std::string report(const Machine& machine);

}  // namespace ronde::topo::tool
