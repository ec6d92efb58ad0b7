// Channels: each order once, as a row of devices with a curve for each hop.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "tools/topo/svg_parts.h"

namespace ronde::topo::tool {
namespace {

constexpr double kLeft = 16;
constexpr double kHeading = 150;  ///< room for a row's heading, where devices do not stand where they are drawn above
constexpr double kHighest = 34;   ///< of curves
constexpr size_t kMostOrders = 6;
constexpr size_t kMostDevices = 256;

const char* colour(size_t order) {
  static constexpr const char* kColours[] = {"#c0392b", "#2471a3", "#1e8449", "#b9770e",
                                             "#7d3c98", "#117a65", "#a04000", "#566573"};
  return kColours[order % std::size(kColours)];
}

/// The hops of a channel: from, to.
std::vector<std::pair<int, int>> hops_of(const graph::Channel& channel) {
  std::vector<std::pair<int, int>> hops;
  for (size_t i = 0; i < channel.ring.size(); ++i)
    hops.emplace_back(channel.ring[i], channel.ring[(i + 1) % channel.ring.size()]);
  for (size_t i = 0; i < channel.parent.size(); ++i) {
    if (channel.parent[i] >= 0) hops.emplace_back(static_cast<int>(i), channel.parent[i]);
  }
  return hops;
}

/// Where devices stand in all rows: where they are drawn above if all of them are, else evenly.
std::vector<double> stations(const std::vector<NodeId>& devices, const Placed& placed) {
  std::vector<double> xs;
  const double pitch = std::max(14.0, (placed.right - kLeft - kHeading) / static_cast<double>(devices.size()));
  const bool all = std::all_of(devices.begin(), devices.end(), [&](NodeId id) { return placed.boxes.count(id) != 0; });
  for (size_t i = 0; i < devices.size(); ++i)
    xs.push_back(all ? placed.boxes.at(devices[i]).centre() : kLeft + kHeading + pitch * (static_cast<double>(i) + 0.5));
  return xs;
}

/// One order as a row of devices.
class Row {
 public:
  Row(const graph::Channel& channel, const std::vector<double>& xs) : channel_(channel), xs_(xs), hops_(hops_of(channel)) {
    double pitch = 100;
    for (size_t i = 1; i < xs.size(); ++i) pitch = std::min(pitch, std::abs(xs[i] - xs[i - 1]));
    wide_ = pitch >= 22;
    radius_ = wide_ ? 10 : 3;
    for (const auto& [from, to] : hops_) {
      double& most = side(from, to) < 0 ? above_ : below_;
      most = std::max(most, height(from, to));
    }
  }
  double above() const { return above_ + radius_; }
  double below() const { return below_ + radius_ + (wide_ ? 0 : 12); }

  void draw(Canvas& canvas, const std::vector<int>& numbers, double y, const std::string& colour) const {
    for (const auto& [from, to] : hops_) {
      const int up_or_down = side(from, to);
      const bool arrow = std::abs(x(to) - x(from)) >= 22;
      canvas.arc(x(from), x(to), y + up_or_down * radius_, up_or_down * height(from, to),
                 Stroke{colour, wide_ ? 1.8 : 1.2, false, arrow});
    }
    for (size_t i = 0; i < xs_.size(); ++i) {
      const bool root = !channel_.parent.empty() && channel_.parent[i] < 0;
      canvas.circle(xs_[i], y, radius_, root ? colour : "#fff", colour);
      const std::string number = fmt::format("{}", numbers[i]);
      if (wide_) canvas.text(xs_[i], y + 4, number, Align::centre, 10, false, root ? "#fff" : "#222");
      if (!wide_ && i % 8 == 0) canvas.text(xs_[i], y + below(), number, Align::centre, 9);
    }
  }

 private:
  double x(int device) const { return xs_[static_cast<size_t>(device)]; }
  /// To the right above, to the left below, so that a ring reads clockwise.
  int side(int from, int to) const { return x(to) > x(from) ? -1 : 1; }
  double height(int from, int to) const { return std::min(8 + std::abs(x(to) - x(from)) / 14, kHighest); }

  const graph::Channel& channel_;
  const std::vector<double>& xs_;
  std::vector<std::pair<int, int>> hops_;
  bool wide_ = true;
  double radius_ = 10;
  double above_ = 0;
  double below_ = 0;
};

}  // namespace

void draw_channels(Canvas& canvas, const Machine& machine, const ChannelSet& set, Placed& placed) {
  const auto orders = grouped(set);
  double y = placed.bottom + 34;
  const std::string title = fmt::format("{}s: {}", shape_name(set.shape), total_of(set));
  canvas.text(kLeft, y, title, Align::left, 12, true);
  if (set.shape == graph::Shape::chain && !orders.empty())
    canvas.text(kLeft + text_width(title, 13) + 20, y, "arrows to parents; filled: the root", Align::left, 10);
  placed.bottom = y;
  if (orders.empty()) return;
  if (set.devices.size() > kMostDevices) {
    canvas.text(kLeft, y + 18, fmt::format("{} devices: too many to draw", set.devices.size()), Align::left, 11);
    placed.bottom = y + 20;
    return;
  }
  const auto xs = stations(set.devices, placed);
  const auto numbers = numbers_of(machine, set.devices);
  for (size_t i = 0; i < orders.size() && i < kMostOrders; ++i) {
    const Row row(orders[i].channel, xs);
    canvas.text(kLeft, y + 18, title_of(orders[i]), Align::left, 10, true, colour(i));
    y += 24 + row.above();
    row.draw(canvas, numbers, y, colour(i));
    y += row.below();
    placed.bottom = y;
  }
  if (orders.size() > kMostOrders) {
    canvas.text(kLeft, placed.bottom + 14, fmt::format("and {} more orders", orders.size() - kMostOrders), Align::left, 10);
    placed.bottom += 16;
  }
}

}  // namespace ronde::topo::tool
