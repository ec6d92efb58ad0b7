#include "tools/topo/svg.h"

#include <fmt/core.h>

#include <algorithm>

#include "tools/topo/svg_parts.h"
#include "tools/topo/tree.h"

namespace ronde::topo::tool {
namespace {

constexpr size_t kMostBuilds = 4;  ///< kinds of hosts that are drawn side by side

/// "host 0 and 17 like it (1-17)".
std::string heading(const HostGroup& group) {
  std::string text = fmt::format("host {}", group.hosts[0]);
  if (group.hosts.size() > 1)
    text += fmt::format(" and {} like it ({})", group.hosts.size() - 1,
                        number_list(std::vector<int>(group.hosts.begin() + 1, group.hosts.end())));
  return text;
}

}  // namespace

std::string drawing(const Machine& machine, const std::vector<ChannelSet>& sets) {
  const Family family(machine);
  Canvas canvas;
  Placed placed;
  canvas.text(16, 30, summary(machine), Align::left, 14, true);
  const auto groups = alike(machine, family);
  // Links between NUMA nodes that are no neighbours pass above them.
  const double y = (machine.hosts.size() > 1 ? 76 : 50) + (machine.numas.size() > 2 * machine.hosts.size() ? 20 : 0);
  double x = 16;
  for (size_t i = 0; i < groups.size() && i < kMostBuilds; ++i) {
    if (machine.hosts.size() > 1) canvas.text(x, 56, heading(groups[i]), Align::left, 12, true);
    draw_host(canvas, machine, family, groups[i].hosts[0], x, y, placed);
    x = placed.right + 60;
  }
  draw_links(canvas, machine, family, placed);
  draw_legend(canvas, machine, placed);
  if (groups.size() > kMostBuilds) {
    placed.bottom += 18;
    canvas.text(16, placed.bottom, fmt::format("and {} more kinds of hosts", groups.size() - kMostBuilds), Align::left);
  }
  for (const ChannelSet& set : sets) draw_channels(canvas, machine, set, placed);
  return canvas.finish(summary(machine));
}

}  // namespace ronde::topo::tool
