// NCCL's graph files (NCCL_GRAPH_FILE, NCCL_GRAPH_DUMP_FILE): the channels inside one host, and the ports by which they leave it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/channel.h"
#include "graph/pack.h"

namespace ronde::graph {

/// Numbers of graphs in files.
inline constexpr int kRingGraph = 0;
inline constexpr int kTreeGraph = 1;

/// NCCL's numbers.
enum class Pattern : uint8_t {
  balanced_tree = 1,
  split_tree = 2,
  tree = 3,
  ring = 4,
  nvls = 5,
  collnet_direct = 6,
};

/// A channel of one host. Devices are numbers into the list that the file is read or written for.
struct HostChannel {
  std::vector<int> order;         ///< of a ring as data travels; of a tree from its root down a chain; else the heads
  topo::NodeId in = topo::kNone;  ///< port by which it comes from other hosts; kNone: none is stated
  topo::NodeId out = topo::kNone;
  bool operator==(const HostChannel&) const = default;
};

struct FileGraph {
  int id = kRingGraph;
  Pattern pattern = Pattern::ring;
  int cross_nic = 0;
  int64_t rate_intra = 0;    ///< MB/s of each channel inside the host
  int64_t rate_inter = 0;    ///< MB/s of each channel between hosts
  double latency_inter = 0;  ///< microseconds
  topo::Distance type_intra = topo::Distance::loc;
  topo::Distance type_inter = topo::Distance::loc;
  int same_channels = 0;
  std::vector<HostChannel> channels;
  bool operator==(const FileGraph&) const = default;
};

/// Reads a graph file; `file` is its name for messages. `devices` are those of one host, which the file's numbers mean (in
/// hexadecimal, as there: of a GPU Gpu::dev, of a CPU rank, in ronde's own <cpurank>, its rank). Each channel of a ring or tree
/// has to pass all of them. Errors are invalid_argument and say file:line, element and attribute; any input gives graphs or an
/// error.
Result<std::vector<FileGraph>> from_graph_xml(std::string_view text, const std::string& file, const topo::Machine& machine,
                                              std::span<const topo::NodeId> devices);

/// Writes such a file; from_graph_xml gives the same graphs back (of latencies six digits).
std::string to_graph_xml(std::span<const FileGraph> graphs, const topo::Machine& machine, std::span<const topo::NodeId> devices);

/// What channels of a communicator are inside one of its hosts, for a file. `members` are the places in `devices` of that host's
/// ones; the result's orders are places in `members`. An error where a channel passes them in several pieces or, in a tree, with
/// branches: then it cannot be written.
Result<FileGraph> graph_of(const topo::Machine& machine, std::span<const topo::NodeId> devices, std::span<const Channel> channels,
                           Shape shape, std::span<const int> members);

}  // namespace ronde::graph
