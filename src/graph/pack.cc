#include "graph/pack.h"

#include <algorithm>

namespace ronde::graph {
namespace {

using topo::ArcId;

class Packer {
 public:
  Packer(const Ways& ways, Shape shape, const std::vector<int32_t>& room, int most, int64_t& steps)
      : ways_(ways), shape_(shape), room_(room), most_(static_cast<size_t>(most)), steps_(steps), n_(ways.devices) {}

  std::vector<Order> run() {
    std::vector<Order> best;
    while (best.size() < most_) {
      const bool grew = fill();
      if (packed_.size() > best.size()) best = packed_;
      if (best.size() == most_ || steps_ <= 0) break;
      // One that cannot even be found alone never will be.
      if (packed_.empty() && !grew && exhausted_) break;
      // A few make room for others, which are then tried in another order.
      shuffled_ = true;
      for (uint32_t i = 1 + random() % 3; i > 0 && !packed_.empty(); --i) remove(random() % packed_.size());
    }
    return best;
  }

 private:
  /// Adds orders until no more is found; whether there was one.
  bool fill() {
    bool grew = false;
    while (packed_.size() < most_ && find()) {
      grew = true;
      repeat(packed_.back());
    }
    return grew;
  }

  /// The same order backwards, and both again, while they fit: the quick way to use parallel links up. Where that has once left
  /// links over, only backwards, so that the orders become more different.
  void repeat(Order order) {
    while (packed_.size() < most_) {
      const bool back = shape_ == Shape::ring && add(reversed(order));
      if (shuffled_ || packed_.size() == most_ || (!add(order) && !back)) return;
    }
  }

  Order reversed(const Order& order) const {
    Order back = order;
    // Hop i of n leads from device i to device i + 1.
    std::reverse(back.devices.begin(), back.devices.end());
    std::reverse(back.way.begin(), back.way.end() - (shape_ == Shape::ring ? 1 : 0));
    return back;
  }

  bool add(const Order& order) {
    for (size_t hop = 0; hop < order.way.size(); ++hop) {
      const Way* way = way_of(order, hop);
      if (way != nullptr && fits(*way)) {
        load(*way, 1);
        continue;
      }
      while (hop-- > 0) load(*way_of(order, hop), -1);
      return false;
    }
    packed_.push_back(order);
    return true;
  }

  void remove(size_t i) {
    for (size_t hop = 0; hop < packed_[i].way.size(); ++hop) load(*way_of(packed_[i], hop), -1);
    packed_.erase(packed_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  const Way* way_of(const Order& order, size_t hop) const {
    const auto& between = ways_.from_to(order.devices[hop], order.devices[(hop + 1) % order.devices.size()]);
    const auto i = static_cast<size_t>(order.way[hop]);
    return i < between.size() ? &between[i] : nullptr;
  }

  bool fits(const Way& way) const {
    return std::all_of(way.arcs.begin(), way.arcs.end(), [&](ArcId arc) {
      return room_[static_cast<size_t>(arc)] > 0 && (shape_ == Shape::ring || room_[static_cast<size_t>(topo::reverse(arc))] > 0);
    });
  }
  void load(const Way& way, int32_t by) {
    for (const ArcId arc : way.arcs) {
      room_[static_cast<size_t>(arc)] -= by;
      if (shape_ == Shape::chain) room_[static_cast<size_t>(topo::reverse(arc))] -= by;
    }
  }
  int32_t room_on(const Way& way) const {
    int32_t least = INT32_MAX;
    for (const ArcId arc : way.arcs) least = std::min(least, room_[static_cast<size_t>(arc)]);
    return least;
  }

  /// One more order, by depth-first search from a device; bounded, as there may be none.
  bool find() {
    const int64_t bound = int64_t{40} * n_ * n_;
    const int64_t before = steps_;
    exhausted_ = true;
    for (int start = 0; start < (shape_ == Shape::ring ? 1 : n_); ++start) {
      order_.devices.assign(1, first(start));
      order_.way.clear();
      visited_.assign(static_cast<size_t>(n_), false);
      visited_[static_cast<size_t>(order_.devices[0])] = true;
      left_ = std::min(steps_, bound / (shape_ == Shape::ring ? 1 : 4));
      const int64_t given = left_;
      const bool found = extend();
      steps_ -= given - left_;
      if (found) return true;
      exhausted_ = exhausted_ && left_ > 0;
      if (before - steps_ > bound || steps_ <= 0) break;
    }
    exhausted_ = exhausted_ && steps_ > 0;
    return false;
  }

  /// The device that an order starts at. Those at the ends of a chain are loaded half as much: all take their turn.
  int first(int start) const { return (start + (shape_ == Shape::ring ? 0 : static_cast<int>(packed_.size()))) % n_; }

  struct Next {
    uint64_t key;
    int device;
    int way;
    bool operator<(const Next& other) const { return key < other.key; }
  };

  /// Nearer first, then what has more room, or anything.
  uint64_t key(const Way& way, int device) {
    const auto far = static_cast<uint64_t>(way.distance);
    const uint64_t full = shuffled_ ? random() : UINT32_MAX - static_cast<uint32_t>(room_on(way));
    return far << 56 | full << 16 | static_cast<uint64_t>(device);
  }

  /// The first way between two devices that has room, or -1.
  int usable(int from, int to) {
    --left_;
    const auto& between = ways_.from_to(from, to);
    for (size_t i = 0; i < between.size(); ++i) {
      if (fits(between[i])) return static_cast<int>(i);
    }
    return -1;
  }

  /// Continues order_ to all devices; on failure leaves everything as it was.
  bool extend() {
    const int at = order_.devices.back();
    if (static_cast<int>(order_.devices.size()) == n_) return close(at);
    std::vector<Next> all;
    for (int to = 0; to < n_; ++to) {
      if (visited_[static_cast<size_t>(to)]) continue;
      const int way = usable(at, to);
      if (way >= 0) all.push_back({key(ways_.from_to(at, to)[static_cast<size_t>(way)], to), to, way});
    }
    std::sort(all.begin(), all.end());
    for (const Next& next : all) {
      if (left_ < 0) return false;
      const Way& way = ways_.from_to(at, next.device)[static_cast<size_t>(next.way)];
      load(way, 1);
      visited_[static_cast<size_t>(next.device)] = true;
      order_.devices.push_back(next.device);
      order_.way.push_back(next.way);
      if (extend()) return true;
      order_.way.pop_back();
      order_.devices.pop_back();
      visited_[static_cast<size_t>(next.device)] = false;
      load(way, -1);
    }
    return false;
  }

  bool close(int at) {
    if (shape_ == Shape::ring) {
      const int way = usable(at, order_.devices[0]);
      if (way < 0) return false;
      load(ways_.from_to(at, order_.devices[0])[static_cast<size_t>(way)], 1);
      order_.way.push_back(way);
    }
    packed_.push_back(order_);
    return true;
  }

  /// xorshift: the same numbers everywhere.
  uint32_t random() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 17;
    state_ ^= state_ << 5;
    return state_;
  }

  const Ways& ways_;
  const Shape shape_;
  std::vector<int32_t> room_;  ///< by arc
  const size_t most_;
  int64_t& steps_;
  const int n_;
  std::vector<Order> packed_;
  Order order_;  ///< in the making
  std::vector<bool> visited_;
  int64_t left_ = 0;        ///< steps of the search in hand
  bool exhausted_ = false;  ///< it ended because there is nothing, not for want of steps
  bool shuffled_ = false;
  uint32_t state_ = 2463534242;
};

}  // namespace

std::vector<Order> pack(const Ways& ways, Shape shape, const std::vector<int32_t>& room, int most, int64_t& steps) {
  return Packer(ways, shape, room, most, steps).run();
}

}  // namespace ronde::graph
