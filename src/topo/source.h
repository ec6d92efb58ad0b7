// Where a process takes its machine from: files, folders, and the running host.
#pragma once

#include <cstdint>
#include <string>

#include "base/config.h"
#include "base/result.h"
#include "topo/machine.h"

namespace ronde::topo {

/// The machine that a path holds by itself, for planning: a file with one of the forms that are read, known by its contents
/// (NCCL's topology file, hwloc's XML, ronde's text form), or a folder with a copy of a host's sys and proc. Errors name file and
/// line.
Result<Reading> load_machine(const std::string& path);

/// Which CPUs NUMA nodes have on the running host.
enum class Cpus : uint8_t {
  of_thread,  ///< those that the calling thread may use
  of_host,    ///< whatever its affinity, so that all processes of a host find the same; RONDE_IGNORE_CPU_AFFINITY means this too
};

/// Whether drivers of GPUs are asked. One that a process has initialised is of no use to its children after fork().
enum class Drivers : uint8_t { asked, left_alone };

/// The machine that this process runs on, under the identity `host_hash` where it is one host. Detected, with what drivers and
/// hwloc know; where RONDE_TOPO_FILE names a file or folder, what that says counts, and detection adds what it lacks: what a
/// file's PCI functions are, the CPUs that may be used, ports and devices. Ranks in the file are dropped. A file that is not
/// there is a note, and an error with RONDE_STRICT; a broken one is an error, and a note where no setting names it. Notes say
/// what of the file is not on this host, and whether it seems to be another machine's.
Result<Reading> machine_of_host(const Config& config, uint64_t host_hash, Cpus cpus = Cpus::of_thread,
                                Drivers drivers = Drivers::asked);

/// Writes the machine to RONDE_TOPO_DUMP_FILE as NCCL's topology file, where that is set and `rank` is the one that writes
/// (RONDE_TOPO_DUMP_FILE_RANK). For the machine of the rank's own host (or NVLink domain), as other readers expect it. An error
/// is no more than worth a warning.
Result<> dump_machine(const Config& config, int rank, const Machine& machine);

}  // namespace ronde::topo
