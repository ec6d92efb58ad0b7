// Ways as a packer reads them, many million times a second.
#pragma once

#include <algorithm>
#include <map>
#include <span>
#include <vector>

#include "graph/hops.h"
#include "graph/pack.h"

namespace ronde::graph {

/// Refers to the Ways, which have to outlive it.
class WayTable {
 public:
  struct Entry {
    uint32_t begin = 0;  ///< of its slots
    uint32_t end = 0;
    int32_t weight = 0;  ///< how much of each slot one order takes
    int32_t needed = 0;  ///< how much there has to be, where a slot may be there twice
    int32_t rail = -1;
    topo::Distance distance = topo::Distance::dis;
  };

  WayTable(const Ways& ways, Shape shape);

  const Ways& ways() const { return ways_; }
  Shape shape() const { return shape_; }
  std::span<const Entry> from_to(int from, int to) const {
    const auto pair = static_cast<size_t>(from * ways_.devices + to);
    return {entries_.data() + first_[pair], first_[pair + 1] - first_[pair]};
  }
  std::span<const uint32_t> slots(const Entry& entry) const { return {slots_.data() + entry.begin, entry.end - entry.begin}; }

  /// Places in Ways::out, ascending, of those on a rail.
  std::span<const int> out_by(int rail) const;

 private:
  const Ways& ways_;
  const Shape shape_;
  std::vector<uint32_t> first_;  ///< by pair of devices
  std::vector<Entry> entries_;
  std::vector<uint32_t> slots_;  ///< arcs; where both directions are loaded alike a link's first one for both
  std::map<int, std::vector<int>> out_by_;
};

/// How many channels each slot still carries.
class Room {
 public:
  /// `by_arc`: of each arc.
  Room(const WayTable& table, std::vector<int32_t> by_arc);

  bool fits(const WayTable::Entry& way) const {
    for (const uint32_t slot : table_->slots(way)) {
      if (left_[slot] < way.needed) return false;
    }
    return true;
  }
  /// Takes the way `by` more times.
  void take(const WayTable::Entry& way, int32_t by) {
    by *= way.weight;
    for (const uint32_t slot : table_->slots(way)) left_[slot] -= by;
  }
  /// For comparing: first what is left of the narrowest slot, then of the last.
  uint32_t on(const WayTable::Entry& way) const {
    int32_t least = INT16_MAX;
    const auto slots = table_->slots(way);
    for (const uint32_t slot : slots) least = std::min(least, left_[slot]);
    const int32_t last = std::min<int32_t>(INT16_MAX, left_[slots.back()]);
    return static_cast<uint32_t>(least) << 16 | static_cast<uint32_t>(last);
  }

 private:
  const WayTable* table_;
  std::vector<int32_t> left_;
};

}  // namespace ronde::graph
