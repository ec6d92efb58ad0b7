#include "graph/way_table.h"

#include <algorithm>

namespace ronde::graph {

WayTable::WayTable(const Ways& ways, Shape shape) : ways_(ways), shape_(shape) {
  const bool both = shape == Shape::chain;
  first_.reserve(ways.between.size() + 1);
  for (const std::vector<Way>& between : ways.between) {
    first_.push_back(static_cast<uint32_t>(entries_.size()));
    for (const Way& way : between) {
      Entry entry;
      entry.begin = static_cast<uint32_t>(slots_.size());
      for (const topo::ArcId arc : way.arcs) slots_.push_back(static_cast<uint32_t>(both ? arc & ~1 : arc));
      entry.end = static_cast<uint32_t>(slots_.size());
      entry.weight = way.rail >= 0 ? ways.outer : ways.times;
      entry.needed = entry.weight * (way.returns && both ? 2 : 1);
      entry.rail = way.rail;
      entry.distance = way.distance;
      entries_.push_back(entry);
    }
  }
  first_.push_back(static_cast<uint32_t>(entries_.size()));
  for (size_t i = 0; i < ways.out.size(); ++i) {
    const Door& door = ways.out[i];
    out_by_[from_to(door.device, ways.gate())[static_cast<size_t>(door.way)].rail].push_back(static_cast<int>(i));
  }
}

std::span<const int> WayTable::out_by(int rail) const {
  const auto found = out_by_.find(rail);
  return found == out_by_.end() ? std::span<const int>() : found->second;
}

Room::Room(const WayTable& table, std::vector<int32_t> by_arc) : table_(&table), left_(std::move(by_arc)) {
  for (size_t arc = 0; table.shape() == Shape::chain && arc + 1 < left_.size(); arc += 2)
    left_[arc] = std::min(left_[arc], left_[arc + 1]);
}

}  // namespace ronde::graph
