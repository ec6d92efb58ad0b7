// ronde-plan explain: what would be chosen for a call of each size, what the alternatives would cost, and why.
#pragma once

#include <cstdint>
#include <string>

#include "base/config.h"
#include "base/result.h"

namespace ronde::plan::tool {

/// Ranks that need not exist. The settings of the choice (NCCL_ALGO, RONDE_SLICE, ...) are the process's; a tuner plugin is asked
/// too.
struct ExplainOptions {
  std::string machine;  ///< as ronde-topo takes it: all its GPUs, or CPU ranks, instead of `ranks` and `nodes`; "": those
  int copies = 1;       ///< of the machine
  int ranks = 2;
  int cores = 0;           ///< that the ranks of a host share; 0: those that this process may use
  int nodes = 1;           ///< hosts, with as many ranks each as fit evenly
  bool processes = false;  ///< each rank is a process of its own, not a thread of one
  std::string call = "AllReduce";
  std::string type = "float";
  std::string op = "sum";
  int root = 0;
  uint64_t least = 8;  ///< bytes of the larger buffer of a rank
  uint64_t most = 128 << 20;
  uint64_t factor = 4;  ///< from one size to the next
  bool json = false;
};

/// One size: the explanation in full. Several: a table of estimates, one line a size, the chosen one marked; below it why
/// algorithms are not among those to choose from. As JSON: an array with one object a size (docs/tuning.md). invalid_argument
/// names what is wrong in the options.
Result<std::string> explain(const ExplainOptions& options, const Config& config);

}  // namespace ronde::plan::tool
