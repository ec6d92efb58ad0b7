#include "graph/pack.h"

#include <algorithm>

namespace ronde::graph {
namespace {

using topo::ArcId;

/// Of the doors into a node, and of those out of it, so many are tried for one order.
constexpr size_t kMostDoors = 6;

class Packer {
 public:
  Packer(const Ways& ways, Shape shape, const std::vector<int32_t>& room, int most, int64_t& steps)
      : ways_(ways), shape_(shape), room_(room), most_(static_cast<size_t>(most)), steps_(steps), n_(ways.devices) {}

  std::vector<Order> run() {
    std::vector<Order> best;
    if (ways_.wheel && turn()) {
      fill();
      return packed_;
    }
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
  /// Orders from each device to the one before it, while they fit; whether there is one.
  bool turn() {
    const int devices = ways_.gate();
    for (int first = 0, failures = 0; packed_.size() < most_ && failures < devices && steps_ > 0; ++first) {
      failures = turn_from(first % devices) ? 0 : failures + 1;
    }
    return !packed_.empty();
  }

  bool turn_from(int first) {
    steps_ -= n_;
    const int devices = ways_.gate();
    Order order;
    const int in = roomiest(ways_.from_to(ways_.gate(), first), -1);
    if (in < 0) return false;
    order.devices.push_back(ways_.gate());
    for (int i = 0; i < devices; ++i) order.devices.push_back((first + i) % devices);
    order.way.assign(static_cast<size_t>(devices), 0);
    order.way[0] = in;
    if (shape_ == Shape::ring) {
      const int rail = ways_.from_to(ways_.gate(), first)[static_cast<size_t>(in)].rail;
      const int out = roomiest(ways_.from_to(order.devices.back(), ways_.gate()), ways_.one_rail ? rail : -1);
      if (out < 0) return false;
      order.way.push_back(out);
    }
    return add(order);
  }

  /// Of the nearest ways that fit, on one rail unless that is -1, the one with the most room; -1 where none fits.
  int roomiest(const std::vector<Way>& ways, int rail) const {
    int best = -1;
    const auto at = [&](int i) -> const Way& { return ways[static_cast<size_t>(i)]; };
    for (int i = 0; i < static_cast<int>(ways.size()); ++i) {
      if ((rail >= 0 && at(i).rail != rail) || !fits(at(i))) continue;
      if (best < 0 || at(i).distance < at(best).distance ||
          (at(i).distance == at(best).distance && room_on(at(i)) > room_on(at(best))))
        best = i;
    }
    return best;
  }

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
      // Ports have to take their turn.
      if (ways_.gated) return;
      if (shuffled_ || packed_.size() == most_ || (!add(order) && !back)) return;
    }
  }

  Order reversed(const Order& order) const {
    Order back = order;
    if (ways_.gated) {
      std::reverse(back.devices.begin() + 1, back.devices.end());
      std::reverse(back.way.begin(), back.way.end());
      return back;
    }
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

  int32_t weight(const Way& way) const { return way.rail >= 0 ? ways_.outer : ways_.times; }
  bool fits(const Way& way) const {
    const int32_t needed = weight(way) * (way.returns && shape_ == Shape::chain ? 2 : 1);
    return std::all_of(way.arcs.begin(), way.arcs.end(), [&](ArcId arc) {
      return room_[static_cast<size_t>(arc)] >= needed &&
             (shape_ == Shape::ring || room_[static_cast<size_t>(topo::reverse(arc))] >= needed);
    });
  }
  /// Takes the way `by` more times.
  void load(const Way& way, int32_t by) {
    by *= weight(way);
    for (const ArcId arc : way.arcs) {
      room_[static_cast<size_t>(arc)] -= by;
      if (shape_ == Shape::chain) room_[static_cast<size_t>(topo::reverse(arc))] -= by;
    }
  }
  /// First that of the narrowest arc, then that of the last.
  uint32_t room_on(const Way& way) const {
    int32_t least = INT16_MAX;
    for (const ArcId arc : way.arcs) least = std::min(least, room_[static_cast<size_t>(arc)]);
    const int32_t last = std::min<int32_t>(INT16_MAX, room_[static_cast<size_t>(way.arcs.back())]);
    return static_cast<uint32_t>(least) << 16 | static_cast<uint32_t>(last);
  }

  /// One more order, by depth-first search from a device; bounded, as there may be none.
  bool find() {
    bound_ = int64_t{ways_.wheel ? 4 : 40} * n_ * n_;
    exhausted_ = true;
    const int64_t before = steps_;
    const bool found = ways_.gated ? enter() : start();
    exhausted_ = exhausted_ && steps_ > 0 && before - steps_ <= bound_;
    return found;
  }

  bool start() {
    const int64_t before = steps_;
    for (int start = 0; start < (shape_ == Shape::ring ? 1 : n_); ++start) {
      order_.devices.assign(1, first(start));
      order_.way.clear();
      visited_.assign(static_cast<size_t>(n_), false);
      visited_[static_cast<size_t>(order_.devices[0])] = true;
      if (go_on(bound_ / (shape_ == Shape::ring ? 1 : 4))) return true;
      if (before - steps_ > bound_ || steps_ <= 0) break;
    }
    return false;
  }

  /// extend(), with at most so many steps.
  bool go_on(int64_t most) {
    left_ = std::min(steps_, most);
    const int64_t given = left_;
    const bool found = extend();
    steps_ -= given - left_;
    exhausted_ = exhausted_ && left_ > 0;
    return found;
  }

  struct Entry {
    uint64_t key;
    Door door;
    bool operator<(const Entry& other) const { return key < other.key; }
  };
  const Way& way_in(const Door& door) const { return ways_.from_to(ways_.gate(), door.device)[static_cast<size_t>(door.way)]; }
  const Way& way_out(const Door& door) const { return ways_.from_to(door.device, ways_.gate())[static_cast<size_t>(door.way)]; }

  /// Keeps a few of the doors that fit, the nearest with the most room first.
  void sort(std::vector<Entry>& all) {
    const size_t kept = std::min(all.size(), kMostDoors);
    exhausted_ = exhausted_ && all.size() <= kMostDoors;
    std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(kept), all.end());
    all.resize(kept);
  }

  bool enter() {
    const int64_t before = steps_;
    std::vector<Entry> all;
    for (size_t i = 0; i < ways_.in.size(); ++i) {
      const Way& way = way_in(ways_.in[i]);
      if (fits(way)) all.push_back({key(way, static_cast<int>(i)), ways_.in[i]});
    }
    steps_ -= static_cast<int64_t>(ways_.in.size());
    sort(all);
    for (const Entry& entry : all) {
      const Way& way = way_in(entry.door);
      load(way, 1);
      order_.devices = {ways_.gate(), entry.door.device};
      order_.way = {entry.door.way};
      visited_.assign(static_cast<size_t>(n_), false);
      visited_[static_cast<size_t>(ways_.gate())] = visited_[static_cast<size_t>(entry.door.device)] = true;
      const bool found = shape_ == Shape::ring ? leave_by(way.rail) : go_on(bound_ / 4);
      if (found) return true;
      load(way, -1);
      if (before - steps_ > bound_ || steps_ <= 0) break;
    }
    return false;
  }

  /// Chooses how the ring leaves before what lies between, as little else fits there.
  bool leave_by(int rail) {
    const int64_t before = steps_;
    std::vector<Entry> all;
    for (size_t i = 0; i < ways_.out.size(); ++i) {
      const Door& door = ways_.out[i];
      const Way& way = way_out(door);
      const bool own = door.device == order_.devices[1];
      if ((ways_.one_rail && way.rail != rail) || own != (n_ == 2) || !fits(way)) continue;
      all.push_back({key(way, static_cast<int>(i)), door});
    }
    steps_ -= static_cast<int64_t>(ways_.one_rail ? all.size() : ways_.out.size());
    sort(all);
    for (const Entry& entry : all) {
      exit_ = entry.door;
      load(way_out(exit_), 1);
      if (go_on(bound_ / 4)) return true;
      load(way_out(exit_), -1);
      if (before - steps_ > bound_ / 2 || steps_ <= 0) break;
    }
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
  uint64_t key(const Way& way, int number) {
    const auto far = static_cast<uint64_t>(way.distance);
    const uint64_t full = shuffled_ ? random() : UINT32_MAX - room_on(way);
    return far << 56 | full << 16 | static_cast<uint64_t>(number);
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
    const bool to_exit = static_cast<int>(order_.devices.size()) + 1 == n_;
    for (int to = 0; to < n_; ++to) {
      if (visited_[static_cast<size_t>(to)] || (exits() && (to == exit_.device) != to_exit)) continue;
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

  bool exits() const { return ways_.gated && shape_ == Shape::ring; }

  bool close(int at) {
    if (exits()) {
      order_.way.push_back(exit_.way);
    } else if (shape_ == Shape::ring) {
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
  Door exit_;               ///< of the ring in the making
  int64_t bound_ = 0;       ///< of the steps for one order
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
