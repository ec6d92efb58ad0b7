// Which transport carries data between each pair of ranks, found by doing it.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "boot/bootstrap.h"

namespace ronde::info {

/// How one rank's data reaches another.
struct Pair {
  int from = 0;
  int to = 0;
  std::string transport;  ///< "self", "inproc", "shm"
  std::string why;        ///< what it does there, and why nothing better
};

/// This process's place among those that ask together.
struct Party {
  UniqueId id;
  int first = 0;  ///< rank of this process's first thread
  int here = 1;   ///< ranks of this process, a thread each
  int ranks = 1;  ///< of all processes
};

/// The pairs of all ranks, in order of `from`, then `to`; the same in every process. Collective: connects the ranks as an init
/// does, with its time limit, and parts them again.
Result<std::vector<Pair>> connect_all(const Party& party, std::shared_ptr<const Config> config);

/// Two processes on this host, a parent and its child, with two threads each. Call it before this process has started a thread.
Result<std::vector<Pair>> connect_two_processes();

/// The process that RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT make this one, as ronde-run and torchrun set them; `ranks` is 1
/// where they are not set. invalid_usage for a set of them that makes no sense.
Result<Party> launched();

}  // namespace ronde::info
