// Which process of which job this is, from the variables that launchers set.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ronde::bench {

using Environment = std::map<std::string, std::string>;

/// An ancestor of this process. `environment` is what it was started with; nothing where it cannot be read.
struct Ancestor {
  int pid = 0;
  uint64_t start_time = 0;
  std::optional<Environment> environment;
};

/// Where the processes of a job meet: a TCP address, or a name on this host alone.
struct MeetingPlace {
  std::string host;  ///< "": `name` counts
  int port = 0;
  std::string name;
};

/// This process's place in its job.
struct Launch {
  int rank = 0;
  int size = 1;
  std::string launcher;  ///< whose variables were used, "" for a single process
  MeetingPlace place;    ///< of no meaning where size is 1
};

/// Understands the variables of torchrun and ronde-run (RANK, WORLD_SIZE), Open MPI (OMPI_COMM_WORLD_RANK, _SIZE), MPICH and
/// other launchers that speak PMI (PMI_RANK, PMI_SIZE), and Slurm (SLURM_PROCID with SLURM_STEP_NUM_TASKS or SLURM_NTASKS).
///
/// Where several launchers have left variables (mpirun inside a Slurm allocation), the innermost counts: the one whose variables
/// the nearest ancestor, in `ancestors` (nearest first), was not yet started with. Those that came in together must agree. Throws
/// TestFailure (invalid_usage) that names both for variables that contradict each other, a rank without a size or the other way
/// round, and a job on several hosts that says nowhere where to meet.
Launch detect_launch(const Environment& mine, const std::vector<Ancestor>& ancestors);

/// This process's environment, and its ancestors.
Environment own_environment();
std::vector<Ancestor> own_ancestors();

}  // namespace ronde::bench
