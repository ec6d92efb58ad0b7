// Packs as many rings or chains of one rate as fit between devices.
#pragma once

#include <vector>

#include "graph/hops.h"

namespace ronde::graph {

class WayTable;

enum class Shape : uint8_t {
  ring,
  chain,  ///< a tree in which no device has two children: loads each hop in both directions
};

/// One ring or chain: devices in order, and of each hop which of its ways is taken. A chain has one hop less. The first device
/// is the network where the ways have one.
struct Order {
  std::vector<int> devices;
  std::vector<int> way;
  bool operator==(const Order&) const = default;
};

/// At most `most` orders, of which arc i carries room[i]. Each way that is looked at takes one of `steps`; what is found before
/// they are used up counts. The same input gives the same answer everywhere.
std::vector<Order> pack(const WayTable& table, const std::vector<int32_t>& room, int most, int64_t& steps);

}  // namespace ronde::graph
