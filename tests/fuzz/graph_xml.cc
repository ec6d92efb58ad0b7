#include <algorithm>
#include <vector>

#include "fuzz/target.h"
#include "graph/graph_file.h"
#include "graph/load.h"
#include "topo/text.h"

namespace {

using namespace ronde;

/// Eight GPUs, as in the seeds, and as many ports on one host.
const topo::Machine& machine() {
  static const topo::Machine one =
      topo::from_text("2 cpu { 4 switch { gpu h100; nic 400G } }\nnvlink 0-7 switch x18\n", "machine")->machine;
  return one;
}

/// A channel as it stands in a file, with the best ways between its devices.
graph::Channel channel_of(const graph::FileGraph& graph, const graph::HostChannel& part, size_t devices) {
  graph::Channel channel;
  channel.rate = graph.rate_intra;
  if (graph.pattern == graph::Pattern::ring) {
    channel.ring = part.order;
    return channel;
  }
  channel.parent.assign(devices, -1);
  for (size_t i = 1; i < part.order.size(); ++i) channel.parent[static_cast<size_t>(part.order[i])] = part.order[i - 1];
  return channel;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::vector<topo::NodeId> devices = machine().of_kind(topo::NodeKind::gpu);
  const auto graphs = graph::from_graph_xml(fuzz::text_of(data, size), "input", machine(), devices);
  if (!graphs.ok()) return 0;
  for (const graph::FileGraph& graph : *graphs) {
    if (graph.pattern > graph::Pattern::ring || graph.rate_intra == 0) continue;
    std::vector<graph::Channel> channels;
    for (const graph::HostChannel& part : graph.channels) channels.push_back(channel_of(graph, part, devices.size()));
    channels.resize(std::min<size_t>(channels.size(), 16));
    // A file may ask for more than links carry, but not for what is no channel.
    for (const std::string& fault : graph::load_of(machine(), devices, channels).faults) fuzz::require(false, fault);
  }
  const std::string text = to_graph_xml(*graphs, machine(), devices);
  const auto again = graph::from_graph_xml(text, "written", machine(), devices);
  fuzz::require(again.ok(), again.ok() ? "" : again.error().what + " in\n" + text);
  fuzz::require(to_graph_xml(*again, machine(), devices) == text, "graphs that come back are others:\n" + text);
  return 0;
}
