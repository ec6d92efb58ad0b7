#include "graph/check.h"

#include <fmt/core.h>

namespace ronde::graph {

using topo::Machine;
using topo::NodeId;
using topo::NodeKind;

Result<> check_devices(const Machine& machine, std::span<const NodeId> devices, const Limits& limits) {
  if (devices.empty()) return fail(Code::invalid_argument, "A channel search needs at least one device.");
  if (limits.max_channels < 1 || limits.max_rate < 1) {
    return fail(Code::invalid_argument, fmt::format("A channel search may find {} channels of {} MB/s: both have to be above 0.",
                                                    limits.max_channels, limits.max_rate));
  }
  std::vector<size_t> rank_of(machine.nodes.size(), devices.size());
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    const NodeId node = devices[rank];
    if (node < 0 || static_cast<size_t>(node) >= machine.nodes.size()) {
      return fail(Code::invalid_argument,
                  fmt::format("Rank {} has device {}, but the machine has {} nodes.", rank, node, machine.nodes.size()));
    }
    const NodeKind kind = machine.node(node).kind;
    if (kind != NodeKind::gpu && kind != NodeKind::cpu_rank) {
      return fail(Code::invalid_argument,
                  fmt::format("Rank {} cannot run on {}: it is no device.", rank, topo::describe(machine, node)));
    }
    size_t& first = rank_of[static_cast<size_t>(node)];
    if (first != devices.size()) {
      return fail(Code::invalid_usage,
                  fmt::format("Ranks {} and {} both run on {}.", first, rank, topo::describe(machine, node)));
    }
    first = rank;
  }
  return {};
}

Result<> check_size(size_t devices) {
  if (devices <= kMostDevices) return {};
  return fail(Code::invalid_usage, fmt::format("Channels through {} devices cannot be searched at once, only through {}: search "
                                               "those of one host and join hosts.",
                                               devices, kMostDevices));
}

Error no_channel(const Machine& machine, const Ways& ways, Shape shape, const Limits& limits) {
  for (int to = 1; to < ways.devices; ++to) {
    if (!ways.from_to(0, to).empty()) continue;
    return fail(
        Code::invalid_usage,
        fmt::format("There is no way from {} to {} inside the machine; devices that only a network joins are "
                    "searched host by host.",
                    topo::describe(machine, ways.nodes[0]), topo::describe(machine, ways.nodes[static_cast<size_t>(to)])));
  }
  const char* name = shape == Shape::ring ? "ring" : "chain";
  if (ways.gated) {
    return fail(Code::invalid_usage,
                fmt::format("No {} through {} devices and a port was found in {} steps; links that carry little may be why.",
                            name, ways.gate(), limits.steps));
  }
  return fail(Code::internal_error,
              fmt::format("No {} through {} devices was found in {} steps.", name, ways.devices, limits.steps));
}

}  // namespace ronde::graph
