#include "graph/channels.h"

#include <fmt/core.h>

#include <algorithm>

#include "graph/asked.h"
#include "graph/check.h"
#include "graph/join.h"
#include "graph/load.h"

namespace ronde::graph {
namespace {

using topo::Machine;
using topo::NodeId;

/// Each of a few channels becomes several, together as wide.
void divide(std::vector<Channel>& channels, const Limits& limits) {
  const size_t found = channels.size();
  const auto least = static_cast<size_t>(std::min(limits.min_channels, limits.max_channels));
  if (found >= least) return;
  const size_t parts = (least + found - 1) / found;
  const int64_t rate = channels[0].rate / static_cast<int64_t>(parts);
  if (rate == 0) return;
  const size_t count = parts * found <= static_cast<size_t>(limits.max_channels) ? parts * found : least;
  for (size_t i = found; i < count; ++i) channels.push_back(channels[i - found]);
  for (Channel& channel : channels) channel.rate = rate;
}

Result<> check_ports(const Machine& machine, std::span<const NodeId> devices, const Units& units) {
  for (const UnitKind& kind : units.kinds) {
    if (!kind.machine.ports.empty()) continue;
    const auto device = [&](size_t unit) { return devices[static_cast<size_t>(units.all[unit].ranks[0])]; };
    const auto here = static_cast<size_t>(kind.first);
    return fail(
        Code::invalid_usage,
        fmt::format("There is no way from {} to {}: its host has no network port; add one, or describe it in RONDE_TOPO_FILE.",
                    topo::describe(machine, device(here)), topo::describe(machine, device(here == 0 ? 1 : 0))));
  }
  return {};
}

Result<Joined> search_nodes(const Machine& machine, std::span<const NodeId> devices, const Units& units, Shape shape,
                            const Limits& limits) {
  RONDE_TRY(check_ports(machine, devices, units));
  for (const UnitKind& kind : units.kinds) RONDE_TRY(check_size(kind.devices.size()));
  RONDE_TRY(const Strands strands, search_strands(units, shape, limits));
  Joined joined;
  joined.channels = join(units, strands, shape, static_cast<int>(devices.size()));
  joined.bound = strands.bound;
  joined.steps = strands.steps;
  return joined;
}

}  // namespace

Result<Joined> find_channels(const Machine& machine, std::span<const NodeId> devices, Shape shape, const Limits& limits) {
  RONDE_TRY(check_devices(machine, devices, limits));
  const Units units = units_of(machine, devices, !limits.rules.asked.empty());
  Joined joined;
  if (!limits.rules.asked.empty()) {
    if (units.all.size() > 1) RONDE_TRY(check_ports(machine, devices, units));
    RONDE_TRY(joined, asked_channels(machine, devices, units, shape, limits));
  } else if (units.all.size() == 1) {
    RONDE_TRY(Channels found, search(machine, devices, shape, limits));
    joined.channels = std::move(found.channels);
    joined.bound = found.bound;
    joined.steps = found.steps;
  } else {
    RONDE_TRY(joined, search_nodes(machine, devices, units, shape, limits));
  }
  divide(joined.channels, limits);
  joined.nodes = static_cast<int>(units.all.size());
  joined.node_of.resize(devices.size());
  for (size_t unit = 0; unit < units.all.size(); ++unit) {
    for (const int rank : units.all[unit].ranks) joined.node_of[static_cast<size_t>(rank)] = static_cast<int>(unit);
  }
  return joined;
}

}  // namespace ronde::graph
