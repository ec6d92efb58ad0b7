#include "graph/pack.h"

#include <algorithm>

#include "graph/way_table.h"

namespace ronde::graph {
namespace {

using Entry = WayTable::Entry;

/// Of the doors into a node, and of those out of it, so many are tried for one order.
constexpr size_t kMostDoors = 6;

class Packer {
 public:
  Packer(const WayTable& table, const std::vector<int32_t>& room, int most, int64_t& steps)
      : table_(table),
        ways_(table.ways()),
        shape_(table.shape()),
        room_(table, room),
        most_(static_cast<size_t>(most)),
        steps_(steps),
        n_(ways_.devices) {}

  std::vector<Order> run() {
    std::vector<Order> best;
    if (ways_.wheel && turn()) {
      fill();
      return packed_;
    }
    Room room_then = room_;
    while (best.size() < most_) {
      const bool grew = fill();
      if (packed_.size() >= best.size()) {
        best = packed_;
        room_then = room_;
      } else if (packed_.size() + 1 < best.size()) {
        packed_ = best;
        room_ = room_then;
      }
      if (best.size() == most_ || steps_ <= 0) break;
      // One that cannot even be found alone never will be.
      if (packed_.empty() && !grew && exhausted_) break;
      // A few make room for others, which are then tried in another order.
      shuffled_ = true;
      steps_ -= n_;
      for (uint32_t i = 1 + random() % 4; i > 0 && !packed_.empty(); --i) remove_some(random() % packed_.size());
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
    const int in = roomiest(table_.from_to(ways_.gate(), first), -1);
    if (in < 0) return false;
    order.devices.push_back(ways_.gate());
    for (int i = 0; i < devices; ++i) order.devices.push_back((first + i) % devices);
    order.way.assign(static_cast<size_t>(devices), 0);
    order.way[0] = in;
    if (shape_ == Shape::ring) {
      const int rail = table_.from_to(ways_.gate(), first)[static_cast<size_t>(in)].rail;
      const int out = roomiest(table_.from_to(order.devices.back(), ways_.gate()), ways_.one_rail ? rail : -1);
      if (out < 0) return false;
      order.way.push_back(out);
    }
    return add(order);
  }

  /// Of the nearest ways that fit, on one rail unless that is -1, the one with the most room; -1 where none fits.
  int roomiest(std::span<const Entry> ways, int rail) const {
    int best = -1;
    const auto at = [&](int i) -> const Entry& { return ways[static_cast<size_t>(i)]; };
    for (int i = 0; i < static_cast<int>(ways.size()); ++i) {
      if ((rail >= 0 && at(i).rail != rail) || !room_.fits(at(i))) continue;
      if (best < 0 || at(i).distance < at(best).distance ||
          (at(i).distance == at(best).distance && room_.on(at(i)) > room_.on(at(best))))
        best = i;
    }
    return best;
  }

  /// Adds orders until no more is found; whether there was one.
  bool fill() {
    bool grew = false;
    while (packed_.size() < most_ && find()) {
      grew = true;
      if (!ways_.gated || shape_ == Shape::ring) repeat(packed_.back());
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
      const Entry* way = way_of(order, hop);
      if (way != nullptr && room_.fits(*way)) {
        room_.take(*way, 1);
        continue;
      }
      while (hop-- > 0) room_.take(*way_of(order, hop), -1);
      return false;
    }
    packed_.push_back(order);
    return true;
  }

  void remove(size_t i) {
    steps_ -= n_;
    for (size_t hop = 0; hop < packed_[i].way.size(); ++hop) room_.take(*way_of(packed_[i], hop), -1);
    packed_.erase(packed_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  /// Of rings now and then with the same order backwards, where that was added after it: alone it would leave links over in one
  /// direction, which other pairs cannot take.
  void remove_some(size_t i) {
    if (shape_ == Shape::ring && !ways_.gated && random() % 2 == 0) {
      const bool is_second = i > 0 && packed_[i] == reversed(packed_[i - 1]);
      if (is_second) --i;
      if (is_second || (i + 1 < packed_.size() && packed_[i + 1] == reversed(packed_[i]))) remove(i + 1);
    }
    remove(i);
  }

  const Entry* way_of(const Order& order, size_t hop) const {
    const auto between = table_.from_to(order.devices[hop], order.devices[(hop + 1) % order.devices.size()]);
    const auto i = static_cast<size_t>(order.way[hop]);
    return i < between.size() ? &between[i] : nullptr;
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
    for (const int first : starts()) {
      order_.devices.assign(1, first);
      order_.way.clear();
      visited_.assign(static_cast<size_t>(n_), false);
      visited_[static_cast<size_t>(first)] = true;
      if (go_on(bound_ / (shape_ == Shape::ring ? 1 : 4))) return true;
      if (before - steps_ > bound_ || steps_ <= 0) break;
    }
    return false;
  }

  /// The devices that an order may start at. Those at the ends of a chain are loaded half as much: first those that were at the
  /// fewest ends, else all take their turn.
  std::vector<int> starts() {
    if (shape_ == Shape::ring) return {0};
    std::vector<int> ends(static_cast<size_t>(n_), 0);
    for (const Order& order : packed_) {
      ++ends[static_cast<size_t>(order.devices.front())];
      ++ends[static_cast<size_t>(order.devices.back())];
    }
    std::vector<int> all;
    const auto n = static_cast<uint32_t>(n_);
    const uint32_t offset = shuffled_ ? random() % n : static_cast<uint32_t>(packed_.size());
    for (uint32_t i = 0; i < n; ++i) all.push_back(static_cast<int>((offset + i) % n));
    std::stable_sort(all.begin(), all.end(),
                     [&](int a, int b) { return ends[static_cast<size_t>(a)] < ends[static_cast<size_t>(b)]; });
    return all;
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

  struct Choice {
    uint64_t key;
    Door door;
    bool operator<(const Choice& other) const { return key < other.key; }
  };
  const Entry& way_in(const Door& door) const { return table_.from_to(ways_.gate(), door.device)[static_cast<size_t>(door.way)]; }
  const Entry& way_out(const Door& door) const {
    return table_.from_to(door.device, ways_.gate())[static_cast<size_t>(door.way)];
  }

  /// Keeps a few of the doors that fit, the nearest with the most room first.
  void sort(std::vector<Choice>& all) {
    const size_t kept = std::min(all.size(), kMostDoors);
    exhausted_ = exhausted_ && all.size() <= kMostDoors;
    std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(kept), all.end());
    all.resize(kept);
  }

  bool enter() {
    const int64_t before = steps_;
    std::vector<Choice>& all = entrances_;
    all.clear();
    for (size_t i = 0; i < ways_.in.size(); ++i) {
      const Entry& way = way_in(ways_.in[i]);
      if (room_.fits(way)) all.push_back({key(way, static_cast<int>(i)), ways_.in[i]});
    }
    steps_ -= static_cast<int64_t>(ways_.in.size());
    sort(all);
    for (const Choice& choice : all) {
      const Entry& way = way_in(choice.door);
      room_.take(way, 1);
      order_.devices = {ways_.gate(), choice.door.device};
      order_.way = {choice.door.way};
      visited_.assign(static_cast<size_t>(n_), false);
      visited_[static_cast<size_t>(ways_.gate())] = visited_[static_cast<size_t>(choice.door.device)] = true;
      const bool found = shape_ == Shape::ring ? leave_by(way.rail) : go_on(bound_ / 4);
      if (found) return true;
      room_.take(way, -1);
      if (before - steps_ > bound_ || steps_ <= 0) break;
    }
    return false;
  }

  /// Chooses how the ring leaves before what lies between, as little else fits there.
  bool leave_by(int rail) {
    const int64_t before = steps_;
    std::vector<Choice>& all = exits_;
    all.clear();
    const auto consider = [&](int i) {
      const Door& door = ways_.out[static_cast<size_t>(i)];
      const Entry& way = way_out(door);
      const bool own = door.device == order_.devices[1];
      if (own == (n_ == 2) && room_.fits(way)) all.push_back({key(way, i), door});
    };
    if (ways_.one_rail) {
      for (const int i : table_.out_by(rail)) consider(i);
    } else {
      for (int i = 0; i < static_cast<int>(ways_.out.size()); ++i) consider(i);
    }
    steps_ -= static_cast<int64_t>(ways_.one_rail ? all.size() : ways_.out.size());
    sort(all);
    for (const Choice& choice : all) {
      exit_ = choice.door;
      room_.take(way_out(exit_), 1);
      if (go_on(bound_ / 4)) return true;
      room_.take(way_out(exit_), -1);
      if (before - steps_ > bound_ / 2 || steps_ <= 0) break;
    }
    return false;
  }

  struct Next {
    uint64_t key;
    int device;
    int way;
    bool operator<(const Next& other) const { return key < other.key; }
  };

  /// Nearer first, then what has more room, or anything.
  uint64_t key(const Entry& way, int number) {
    const auto far = static_cast<uint64_t>(way.distance);
    const uint64_t full = shuffled_ ? random() : UINT32_MAX - room_.on(way);
    return far << 56 | full << 24 | static_cast<uint64_t>(number);  // there are fewer than 2^24 doors
  }

  /// The first way between two devices that has room, or -1.
  int usable(int from, int to) {
    --left_;
    const auto between = table_.from_to(from, to);
    for (size_t i = 0; i < between.size(); ++i) {
      if (room_.fits(between[i])) return static_cast<int>(i);
    }
    return -1;
  }

  /// Continues order_ to all devices; on failure leaves everything as it was.
  bool extend() {
    const int at = order_.devices.back();
    if (static_cast<int>(order_.devices.size()) == n_) return close(at);
    const bool to_exit = static_cast<int>(order_.devices.size()) + 1 == n_;
    const size_t begin = nexts_.size();
    for (int to = 0; to < n_; ++to) {
      if (visited_[static_cast<size_t>(to)] || (exits() && (to == exit_.device) != to_exit)) continue;
      const int way = usable(at, to);
      if (way >= 0) nexts_.push_back({key(table_.from_to(at, to)[static_cast<size_t>(way)], to), to, way});
    }
    const size_t end = nexts_.size();
    std::sort(nexts_.begin() + static_cast<std::ptrdiff_t>(begin), nexts_.end());
    bool found = false;
    for (size_t i = begin; i < end && !found && left_ >= 0; ++i) found = go_to(at, nexts_[i]);
    nexts_.resize(begin);
    return found;
  }

  bool go_to(int at, Next next) {
    const Entry& way = table_.from_to(at, next.device)[static_cast<size_t>(next.way)];
    room_.take(way, 1);
    visited_[static_cast<size_t>(next.device)] = true;
    order_.devices.push_back(next.device);
    order_.way.push_back(next.way);
    if (extend()) return true;
    order_.way.pop_back();
    order_.devices.pop_back();
    visited_[static_cast<size_t>(next.device)] = false;
    room_.take(way, -1);
    return false;
  }

  bool exits() const { return ways_.gated && shape_ == Shape::ring; }

  bool close(int at) {
    if (exits()) {
      order_.way.push_back(exit_.way);
    } else if (shape_ == Shape::ring) {
      const int way = usable(at, order_.devices[0]);
      if (way < 0) return false;
      room_.take(table_.from_to(at, order_.devices[0])[static_cast<size_t>(way)], 1);
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

  const WayTable& table_;
  const Ways& ways_;
  const Shape shape_;
  Room room_;
  const size_t most_;
  int64_t& steps_;
  const int n_;
  std::vector<Order> packed_;
  Order order_;  ///< in the making
  std::vector<uint8_t> visited_;
  std::vector<Choice> entrances_;
  std::vector<Choice> exits_;  ///< for the entrance in hand
  std::vector<Next> nexts_;    ///< where to go on from each device of order_
  Door exit_;                  ///< of the ring in the making
  int64_t bound_ = 0;          ///< of the steps for one order
  int64_t left_ = 0;           ///< steps of the search in hand
  bool exhausted_ = false;     ///< it ended because there is nothing, not for want of steps
  bool shuffled_ = false;
  uint32_t state_ = 2463534242;
};

}  // namespace

std::vector<Order> pack(const WayTable& table, const std::vector<int32_t>& room, int most, int64_t& steps) {
  return Packer(table, room, most, steps).run();
}

}  // namespace ronde::graph
