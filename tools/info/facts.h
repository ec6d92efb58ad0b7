// What ronde-info tells, as JSON: one object with an entry for each section, in the order in which they are printed.
#pragma once

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "tools/info/pairs.h"
#include "topo/machine.h"

namespace ronde::info {

using Json = nlohmann::ordered_json;

/// Versions of the library, its API and its reductions.
Json library();
/// The host: name, identity, kernel, usable CPUs, memory.
Json host();
/// GPUs, then the CPUs of NUMA nodes: where they are and what their links carry in each direction.
Json devices(const topo::Machine& machine);
/// What CUDA shows to this process and whether ranks can be on it; a text that says why where there is nothing.
Json gpus();
/// Ports of network adapters: speed, rail, NUMA node, and whether they access the memory of GPUs.
Json network_adapters(const topo::Machine& machine);
/// Addresses that the bootstrap would use, best first.
Json interfaces();
/// Kinds of network between hosts, best first: their devices, or why there are none; and which one a communicator would use.
Json networks();
/// Libraries that are looked for at run time: where they are, or why they cannot be loaded.
Json run_time_libraries();
/// Limits of this process and the kernel that decide what can be done.
Json limits();
/// One row for each kind of pair: transport, reason, and the pairs themselves.
Json transports(const std::vector<Pair>& pairs);
/// Every setting: name, value, where it came from, what it is for.
Json settings();

/// The facts for people: a heading for each section, tables with columns as wide as they must be.
std::string as_text(const Json& facts, bool all_settings);

}  // namespace ronde::info
