// NCCL_GRAPH_FILE and NCCL_GRAPH_DUMP_FILE of a communicator.
#pragma once

#include <span>
#include <string>

#include "base/config.h"
#include "base/result.h"
#include "comm/layout.h"

namespace ronde {

/// The text of RONDE_GRAPH_FILE; "" where none is set. Errors name the file.
Result<std::string> read_graph_file(const Config& config);

/// Orders of channels as graph::Rules::asked has them; "": not stated.
struct AskedOrders {
  std::string rings;
  std::string trees;
};

/// What a graph file's text asks for: its devices are those of the host of rank 0, and all hosts are alike. Errors say file:line.
Result<AskedOrders> asked_by_file(const std::string& text, const std::string& name, const topo::Machine& machine,
                                  std::span<const topo::NodeId> devices);

/// Writes rings and trees inside the host of `rank` to RONDE_GRAPH_DUMP_FILE, where that is set and this the rank to do it. An error
/// is no more than worth a warning.
Result<> dump_graphs(const Config& config, int rank, const Layout& layout);

}  // namespace ronde
