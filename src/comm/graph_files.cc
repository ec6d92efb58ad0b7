#include "comm/graph_files.h"

#include <fmt/core.h>

#include <vector>

#include "base/files.h"
#include "graph/graph_file.h"

namespace ronde {
namespace {

constexpr size_t kMaxBytes = size_t{16} << 20;

/// The ranks on the host of `rank`, ascending.
std::vector<int> ranks_with(int rank, const topo::Machine& machine, std::span<const topo::NodeId> devices) {
  const auto host_of = [&](size_t r) { return machine.node(devices[r]).host; };
  std::vector<int> ranks;
  for (size_t r = 0; r < devices.size(); ++r) {
    if (host_of(r) == host_of(static_cast<size_t>(rank))) ranks.push_back(static_cast<int>(r));
  }
  return ranks;
}

}  // namespace

Result<std::string> read_graph_file(const Config& config) {
  if (!config.is_set(Setting::graph_file)) return std::string();
  const std::string& path = config.text(Setting::graph_file);
  const auto refused = [](const std::string& why) {
    return fail(Code::invalid_usage, fmt::format("RONDE_GRAPH_FILE: {}", why), Scope::communicator);
  };
  Result<std::string> text = read_file(path, kMaxBytes);
  if (!text.ok()) return refused(text.error().what);
  if (text->empty()) return refused(fmt::format("{} is empty; name a graph file, or none", path));
  return text;
}

Result<AskedOrders> asked_by_file(const std::string& text, const std::string& name, const topo::Machine& machine,
                                  std::span<const topo::NodeId> devices) {
  const std::vector<int> members = ranks_with(0, machine, devices);
  std::vector<topo::NodeId> local;
  for (const int rank : members) local.push_back(devices[static_cast<size_t>(rank)]);
  RONDE_TRY(const std::vector<graph::FileGraph> graphs, graph::from_graph_xml(text, name, machine, local));
  // On one host orders are of ranks; on several of what a node's devices are numbered by.
  const auto number = [&](int place) {
    const auto i = static_cast<size_t>(place);
    if (members.size() == devices.size()) return members[i];
    return machine.node(local[i]).kind == topo::NodeKind::gpu ? machine.gpu(local[i]).dev : place;
  };
  AskedOrders asked;
  for (const graph::FileGraph& graph : graphs) {
    if (graph.id != graph::kRingGraph && graph.id != graph::kTreeGraph) continue;
    std::string& orders = graph.id == graph::kRingGraph ? asked.rings : asked.trees;
    for (const graph::HostChannel& channel : graph.channels) {
      if (!orders.empty()) orders += " |";
      for (const int place : channel.order) orders += fmt::format(" {}", number(place));
    }
  }
  return asked;
}

Result<> dump_graphs(const Config& config, int rank, const Layout& layout) {
  if (!config.is_set(Setting::graph_dump_file) || config.integer(Setting::graph_dump_file_rank) != rank) return {};
  const std::vector<int> members = ranks_with(rank, layout.machine, layout.devices);
  std::vector<topo::NodeId> local;
  for (const int member : members) local.push_back(layout.devices[static_cast<size_t>(member)]);
  RONDE_TRY(graph::FileGraph rings, graph::graph_of(layout.machine, layout.devices, layout.rings, graph::Shape::ring, members));
  RONDE_TRY(graph::FileGraph trees, graph::graph_of(layout.machine, layout.devices, layout.trees, graph::Shape::chain, members));
  const graph::FileGraph graphs[] = {std::move(rings), std::move(trees)};
  return write_file(config.text(Setting::graph_dump_file), graph::to_graph_xml(graphs, layout.machine, local));
}

}  // namespace ronde
