// The channels that a machine gets, for tools to show.
#pragma once

#include <string>
#include <vector>

#include "graph/channels.h"

namespace ronde::topo::tool {

/// What was found of one shape.
struct ChannelSet {
  graph::Shape shape = graph::Shape::ring;
  std::vector<NodeId> devices;           ///< channels name places in it
  std::vector<graph::Channel> channels;  ///< none where there are no channels
  int nodes = 1;                         ///< hosts, or groups of hosts that NVLink joins
  int64_t bound = 0;                     ///< MB/s that no channels exceed in total
  double ms = 0;                         ///< processor time that it took
  std::string why_not;                   ///< why there are no channels
};

/// Over `devices`, all of them on equal terms.
ChannelSet channel_set(const Machine& machine, std::vector<NodeId> devices, graph::Shape shape);
/// Rings, and trees; none for less than two devices.
std::vector<ChannelSet> channel_sets(const Machine& machine);

/// "ring", "tree".
std::string shape_name(graph::Shape shape);
/// "12 x 30.9 GB/s = 370.8 GB/s", or why there are none.
std::string total_of(const ChannelSet& set);

/// Channels of one order.
struct Alike {
  graph::Channel channel;  ///< the first of them
  int count = 0;
  int turned = 0;  ///< of them, those that begin elsewhere in the same cycle: rings, and trees that are chains with another root
};
std::vector<Alike> grouped(const ChannelSet& set);
/// "8 x 26.485 GB/s (7 of them from another root)".
std::string title_of(const Alike& group);

/// What a device is called in channels: its rank, or where not all have one its place.
std::vector<int> numbers_of(const Machine& machine, const std::vector<NodeId>& devices);
/// "0 1 2 3" of a ring, or of a tree that is a chain from its root; else "0: 1 2, 1: 3".
std::string order_of(const graph::Channel& channel, const std::vector<int>& numbers);

/// For a terminal: of each set its total and the orders, each once.
std::string channels_text(const Machine& machine, const std::vector<ChannelSet>& sets);

}  // namespace ronde::topo::tool
