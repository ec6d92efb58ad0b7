// What NCCL finds on topology files, as nccl-reference.json files have it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "graph/channel.h"
#include "graph/pack.h"

namespace ronde::topo::tool {

/// NCCL's channels on one machine.
struct ReferenceGraph {
  std::string file;
  bool two = false;  ///< over two such machines
  graph::Shape shape = graph::Shape::ring;
  std::vector<std::vector<int>> orders;   ///< of ranks
  std::vector<std::pair<int, int>> nets;  ///< by which number of port each channel comes and goes
  int64_t rate = 0;                       ///< MB/s of each
  bool turning = false;                   ///< every second machine passes the orders backwards
  double ms = 0;                          ///< of search
};

/// The rings and trees in such a file's text; `file` is its name for messages.
Result<std::vector<ReferenceGraph>> read_reference(const std::string& text, const std::string& file);

struct ReferenceFigures {
  int64_t rate = 0;  ///< NCCL's total in MB/s, as far as the links carry it; 0 where nothing is known
  double ms = 0;
};
/// Of the machine of a file, or of two copies() of it. Where NCCL overcommits a link its total is lowered until it fits.
ReferenceFigures figures_of(const std::vector<ReferenceGraph>& reference, const Machine& machine, const std::string& file,
                            bool two, graph::Shape shape);

}  // namespace ronde::topo::tool
