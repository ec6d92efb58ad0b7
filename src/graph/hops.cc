#include "graph/hops.h"

#include <algorithm>
#include <limits>

namespace ronde::graph {
namespace {

using topo::ArcId;
using topo::NodeId;

/// Sends from one node as much as possible to another, one shortest path with something left after the other.
class Flow {
 public:
  Flow(const topo::Wiring& wiring, std::span<const int64_t> capacity) : wiring_(wiring), capacity_(capacity) {}

  /// To whichever of `targets`. Stops at `enough`.
  int64_t run(NodeId from, std::span<const NodeId> targets, int64_t enough) {
    left_.assign(capacity_.begin(), capacity_.end());
    is_target_.assign(wiring_.machine().nodes.size(), false);
    for (const NodeId target : targets) is_target_[static_cast<size_t>(target)] = target != from;
    int64_t sent = 0;
    while (sent < enough) {
      const NodeId to = reach(from);
      if (to == topo::kNone) break;
      int64_t amount = enough - sent;
      for (NodeId at = to; at != from; at = before(at)) amount = std::min(amount, left_[arc_to(at)]);
      for (NodeId at = to; at != from; at = before(at)) {
        left_[arc_to(at)] -= amount;
        left_[static_cast<size_t>(topo::reverse(came_by_[static_cast<size_t>(at)]))] += amount;
      }
      sent += amount;
    }
    return sent;
  }

 private:
  size_t arc_to(NodeId node) const { return static_cast<size_t>(came_by_[static_cast<size_t>(node)]); }
  NodeId before(NodeId node) const {
    const ArcId arc = came_by_[static_cast<size_t>(node)];
    const topo::Link& link = wiring_.machine().link(topo::link_of(arc));
    return arc % 2 == 0 ? link.a : link.b;
  }

  /// The nearest target that something can still flow to, or kNone.
  NodeId reach(NodeId from) {
    came_by_.assign(wiring_.machine().nodes.size(), topo::kNone);
    queue_.assign(1, from);
    for (size_t i = 0; i < queue_.size(); ++i) {
      for (const topo::Wiring::Hop& hop : wiring_.from(queue_[i])) {
        if (hop.to == from || came_by_[static_cast<size_t>(hop.to)] != topo::kNone || left_[static_cast<size_t>(hop.arc)] <= 0)
          continue;
        came_by_[static_cast<size_t>(hop.to)] = hop.arc;
        if (is_target_[static_cast<size_t>(hop.to)]) return hop.to;
        queue_.push_back(hop.to);
      }
    }
    return topo::kNone;
  }

  const topo::Wiring& wiring_;
  const std::span<const int64_t> capacity_;
  std::vector<int64_t> left_;
  std::vector<bool> is_target_;
  std::vector<ArcId> came_by_;
  std::vector<NodeId> queue_;
};

}  // namespace

int64_t least_flow(const topo::Wiring& wiring, std::span<const NodeId> devices, std::span<const int64_t> capacity,
                   int64_t enough) {
  int64_t least = enough;
  // Often nothing is narrower than what leaves and enters a device, which is quickly known.
  for (const NodeId device : devices) {
    int64_t out = 0;
    int64_t in = 0;
    for (const topo::Wiring::Hop& hop : wiring.from(device)) {
      out += capacity[static_cast<size_t>(hop.arc)];
      in += capacity[static_cast<size_t>(topo::reverse(hop.arc))];
    }
    least = std::min({least, out, in});
  }
  Flow flow(wiring, capacity);
  for (size_t i = 1; i < devices.size() && least > 0; ++i) {
    least = std::min(least, flow.run(devices[0], devices.subspan(i, 1), least));
    if (least > 0) least = std::min(least, flow.run(devices[i], devices.first(1), least));
  }
  return least;
}

int64_t flow_from(const topo::Wiring& wiring, NodeId from, std::span<const NodeId> targets, std::span<const int64_t> capacity) {
  return Flow(wiring, capacity).run(from, targets, std::numeric_limits<int64_t>::max());
}

int64_t leaving_flow(const topo::Wiring& wiring, std::span<const NodeId> devices, std::span<const int64_t> capacity) {
  Flow flow(wiring, capacity);
  int64_t sum = 0;
  for (const NodeId device : devices) sum += flow.run(device, devices, std::numeric_limits<int64_t>::max());
  return sum;
}

}  // namespace ronde::graph
