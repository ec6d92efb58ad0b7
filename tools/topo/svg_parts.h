// The parts of a drawing.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/topo/canvas.h"
#include "tools/topo/channel_sets.h"
#include "tools/topo/facts.h"

namespace ronde::topo::tool {

/// Where things are drawn.
struct Placed {
  std::map<NodeId, Box> boxes;
  double right = 0;
  double bottom = 0;
};

/// The colour of a kind of links.
std::string colour_of(LinkKind kind);
/// Colour, width by what it carries, dashed where that is assumed.
Stroke stroke_of(const Link& link);
/// A number of GB/s for a label.
std::string label_of(const Link& link);

/// Draws the NUMA nodes of a host and all below them, with the links upwards, from (x, y).
void draw_host(Canvas& canvas, const Machine& machine, const Family& family, int32_t host, double x, double y, Placed& placed);
/// Draws the links between what is drawn already but those to parents, and the switches and the network that they lead to.
void draw_links(Canvas& canvas, const Machine& machine, const Family& family, Placed& placed);
/// What colours and lines mean.
void draw_legend(Canvas& canvas, const Machine& machine, Placed& placed);
/// The orders of channels, below all else.
void draw_channels(Canvas& canvas, const Machine& machine, const ChannelSet& set, Placed& placed);

}  // namespace ronde::topo::tool
