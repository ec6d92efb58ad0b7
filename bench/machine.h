// What the benchmarks say about, and have to know of, the machine.
#pragma once

#include <cstddef>
#include <string>

namespace ronde::bench {

/// The host's name up to the first dot.
std::string host_name();
/// Tells hosts apart that have one name: the name and the kernel's boot id.
std::string host_identity();
/// The processor's name, as /proc/cpuinfo has it.
std::string cpu_name();
/// Bytes of memory that this process could still use: what the kernel calls available, and what its control group leaves.
size_t available_memory();
/// "HH:MM:SS" for -S, and the date and time with zone for JSON.
std::string time_of_day();
std::string date_and_time();

}  // namespace ronde::bench
