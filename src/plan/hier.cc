// Hierarchical: as many rails as the smallest node has ranks. Rail i joins the i-th ranks of all nodes and carries its share of
// the blocks between the nodes by a ring or chain, so that each node's ports to the others are all busy and each datum enters a
// node once. Inside a node every rank talks to every other. What the ranks of a node give to a rail is folded in the very Move
// that passes the rail's partial sum on, and what a rail brings leaves for the ranks of the node in the Move that passes it to
// the next node: the traffic inside and between nodes overlaps without a copy of its own. A node's ranks beyond the rails give
// and take like the others.
#include <algorithm>

#include "plan/build.h"

namespace ronde {
namespace {

// Lanes. To a rank of the same node the first writes link 0, the second link 1.
constexpr size_t kGive = 0;  ///< own input to the rails of the node
constexpr size_t kRail = 1;  ///< between nodes, with the folds and the copies for this node
constexpr size_t kTake = 2;  ///< from the other rails of the node
constexpr uint32_t kGiven = 0;
constexpr uint32_t kTaken = 1;

bool supports(const CollSpec& spec) {
  return spec.coll == Coll::all_reduce || spec.coll == Coll::all_gather || spec.coll == Coll::reduce_scatter ||
         spec.coll == Coll::broadcast || spec.coll == Coll::reduce;
}

bool canonical(const CollSpec& spec) { return !has_reduction(spec.coll) || spec.ranks <= 2; }

/// Where a rank stands. Nodes and members are numbered in the order of the ring; nodes modulo their number.
class Place {
 public:
  Place(const Channel& channel, int rank) : nodes_(nodes_of(channel)) {
    for (const auto& node : nodes_) {
      rails_ = std::min(rails_, node.size());
      most_ = std::max(most_, node.size());
    }
    node_ = node_with(rank);
    member_ = member_of(rank, node_);
  }

  size_t nodes() const { return nodes_.size(); }
  size_t rails() const { return rails_; }
  /// Ranks of the largest node for each rail.
  size_t rounds() const { return (most_ + rails_ - 1) / rails_; }
  size_t member() const { return member_; }
  bool on_rail() const { return member_ < rails_; }
  /// The rail that carries what belongs to member k of any node.
  size_t rail_of(size_t k) const { return k % rails_; }

  size_t node_with(int rank) const {
    size_t at = 0;
    while (std::find(nodes_[at].begin(), nodes_[at].end(), rank) == nodes_[at].end()) ++at;
    return at;
  }
  size_t member_of(int rank, size_t node) const {
    return static_cast<size_t>(std::find(nodes_[node].begin(), nodes_[node].end(), rank) - nodes_[node].begin());
  }
  /// The node `back` places before this one.
  size_t node(size_t back = 0) const { return (node_ + 2 * nodes() - back) % nodes(); }
  const std::vector<int>& ranks_of(size_t node) const { return nodes_[node]; }

  Peer mate(size_t k, uint32_t link) const { return {nodes_[node_][k], link}; }
  /// The other ranks of this node but `without`, ascending.
  std::vector<Peer> mates(uint32_t link, int without = -1) const {
    std::vector<Peer> list;
    for (size_t k = 0; k < nodes_[node_].size(); ++k) {
      if (k != member_ && nodes_[node_][k] != without) list.push_back(mate(k, link));
    }
    std::sort(list.begin(), list.end(), [](const Peer& a, const Peer& b) { return a.rank < b.rank; });
    return list;
  }
  /// The rails of the node but the own, beginning with the one after it: not all turn to the same one at once.
  std::vector<size_t> other_rails() const {
    std::vector<size_t> list;
    for (size_t i = 1; i <= rails_; ++i) {
      if (const size_t j = (member_ + i) % rails_; j != member_) list.push_back(j);
    }
    return list;
  }
  Peer previous() const { return {nodes_[node(1)][member_], 0}; }
  Peer next() const { return {nodes_[(node_ + 1) % nodes()][member_], 0}; }

  /// What a rail folds: the node's inputs and, where it does not start here, the partial sum.
  std::vector<Peer> folded(bool starts) const {
    std::vector<Peer> list = mates(kGiven);
    const auto before = [](const Peer& a, const Peer& b) { return a.rank < b.rank; };
    if (!starts) list.insert(std::upper_bound(list.begin(), list.end(), previous(), before), previous());
    return list;
  }
  /// To whom a rail passes what it has brought.
  std::vector<Peer> spread(bool ends, int without = -1) const {
    std::vector<Peer> list = mates(kTaken, without);
    if (!ends) list.insert(list.begin(), next());
    return list;
  }

 private:
  std::vector<std::vector<int>> nodes_;
  size_t rails_ = SIZE_MAX;
  size_t most_ = 0;
  size_t node_ = 0;
  size_t member_ = 0;
};

/// Rail i owns the blocks from i * nodes on, and all-reduces them among the nodes by a ring.
void all_reduce(Builder& b, const Place& at) {
  const size_t nodes = at.nodes();
  const auto block = [&](size_t rail, size_t back) { return rail * nodes + at.node(back); };
  for (size_t t = 0; t < nodes; ++t) {
    for (size_t j : at.other_rails()) b.add(kGive, {.src = input(block(j, t)), .out = only(at.mate(j, kGiven))});
  }
  for (size_t t = 0; t < nodes; ++t) {
    // The block that is complete here first, then those that come round.
    for (size_t j : at.other_rails()) {
      b.add(kTake, {.in = only(at.mate(j, kTaken)), .dst = output(block(j, (t + nodes - 1) % nodes))});
    }
  }
  if (!at.on_rail()) return;
  const size_t own = at.member();
  for (size_t t = 0; t + 1 < nodes; ++t) {
    b.add(kRail, {.in = at.folded(t == 0), .src = input(block(own, t)), .out = only(at.next())});
  }
  const size_t mine = block(own, nodes - 1);
  b.add(
      kRail,
      {.in = at.folded(nodes == 1), .src = input(mine), .dst = output(mine), .out = at.spread(nodes == 1), .flags = kMoveFinal});
  for (size_t t = 0; t + 1 < nodes; ++t) {
    b.add(kRail, {.in = only(at.previous()), .dst = output(block(own, t)), .out = at.spread(t + 2 == nodes)});
  }
}

/// Calls visit(t, rail, member, rank) for the blocks that belong to the ranks of the node t places before, t = first..last. The
/// rounds that a larger node needs follow each other, so that no rail sends two blocks of its own before one arrives.
template <class Visit>
void visit_blocks(const Place& at, const std::vector<size_t>& rails, size_t first, size_t last, const Visit& visit) {
  for (size_t round = 0; round < at.rounds(); ++round) {
    for (size_t t = first; t <= last; ++t) {
      const std::vector<int>& ranks = at.ranks_of(at.node(t));
      for (size_t rail : rails) {
        const size_t k = rail + round * at.rails();
        if (k < ranks.size()) visit(t, rail, k, ranks[k]);
      }
    }
  }
}

/// The blocks of a node start at the next one, so that they end at home.
void reduce_scatter(Builder& b, const Place& at) {
  const size_t nodes = at.nodes();
  visit_blocks(at, at.other_rails(), 1, nodes,
               [&](size_t, size_t j, size_t, int rank) { b.add(kGive, {.src = input(rank), .out = only(at.mate(j, kGiven))}); });
  if (!at.on_rail()) return b.add(kTake, {.in = only(at.mate(at.rail_of(at.member()), kTaken)), .dst = output(b.rank())});
  visit_blocks(at, {at.member()}, 1, nodes, [&](size_t t, size_t, size_t k, int rank) {
    const std::vector<Peer> in = at.folded(t == 1);
    if (t < nodes) return b.add(kRail, {.in = in, .src = input(rank), .out = only(at.next())});
    if (rank == b.rank()) return b.add(kRail, {.in = in, .src = input(rank), .dst = output(rank), .flags = kMoveFinal});
    b.add(kRail, {.in = in, .src = input(rank), .out = only(at.mate(k, kTaken)), .flags = kMoveFinal});
  });
}

void all_gather(Builder& b, const Place& at) {
  const size_t nodes = at.nodes();
  visit_blocks(at, at.other_rails(), 0, nodes - 1, [&](size_t, size_t j, size_t, int rank) {
    if (rank != b.rank()) b.add(kTake, {.in = only(at.mate(j, kTaken)), .dst = output(rank)});
  });
  if (!at.on_rail()) {
    const Peer rail = at.mate(at.rail_of(at.member()), kGiven);
    return b.add(kGive, {.src = input(b.rank()), .dst = output(b.rank()), .out = only(rail)});
  }
  visit_blocks(at, {at.member()}, 0, nodes - 1, [&](size_t t, size_t, size_t k, int rank) {
    const std::vector<Peer> out = at.spread(t + 1 == nodes, t == 0 ? rank : -1);
    if (rank == b.rank()) return b.add(kRail, {.src = input(rank), .dst = output(rank), .out = out});
    b.add(kRail, {.in = only(t == 0 ? at.mate(k, kGiven) : at.previous()), .dst = output(rank), .out = out});
  });
}

/// A block for each rail: the root gives it to the rail of its node, from which a chain passes through the other nodes.
void broadcast(Builder& b, const Place& at, int root) {
  const size_t start = at.node_with(root);
  const size_t distance = (at.node() + at.nodes() - start) % at.nodes();
  const bool ends = distance + 1 == at.nodes();
  const size_t own = at.member();
  for (size_t j : at.other_rails()) {
    if (b.rank() == root) b.add(kGive, {.src = input(j), .dst = output(j), .out = only(at.mate(j, kGiven))});
    if (b.rank() != root) b.add(kTake, {.in = only(at.mate(j, kTaken)), .dst = output(j)});
  }
  if (!at.on_rail()) return;
  const std::vector<Peer> out = at.spread(ends, root);
  if (b.rank() == root) return b.add(kRail, {.src = input(own), .dst = output(own), .out = out});
  const Peer from = distance > 0 ? at.previous() : at.mate(at.member_of(root, start), kGiven);
  b.add(kRail, {.in = only(from), .dst = output(own), .out = out});
}

/// The chains backwards: from the node after the root's all the way round to the root's own, whose rails give the root their
/// blocks.
void reduce(Builder& b, const Place& at, int root) {
  const size_t end = at.node_with(root);
  const size_t distance = (end + at.nodes() - at.node()) % at.nodes();
  const size_t own = at.member();
  for (size_t j : at.other_rails()) {
    b.add(kGive, {.src = input(j), .out = only(at.mate(j, kGiven))});
    if (b.rank() == root) b.add(kTake, {.in = only(at.mate(j, kTaken)), .dst = output(j)});
  }
  if (!at.on_rail()) return;
  const std::vector<Peer> in = at.folded(distance + 1 == at.nodes());
  if (distance > 0) return b.add(kRail, {.in = in, .src = input(own), .out = only(at.next())});
  if (b.rank() == root) return b.add(kRail, {.in = in, .src = input(own), .dst = output(own), .flags = kMoveFinal});
  const Peer to = at.mate(at.member_of(root, end), kTaken);
  b.add(kRail, {.in = in, .src = input(own), .out = only(to), .flags = kMoveFinal});
}

Result<Program> build(const CollSpec& spec, const Channel& channel, int rank) {
  if (spec.ranks == 1) return alone(spec, channel);
  const Place at(channel, rank);
  const bool shares = spec.coll == Coll::broadcast || spec.coll == Coll::reduce;
  const size_t blocks = spec.coll == Coll::all_reduce ? at.rails() * at.nodes()
                        : shares                      ? at.rails()
                                                      : static_cast<size_t>(spec.ranks);
  Builder b(spec, channel, rank, blocks);
  if (spec.coll == Coll::all_reduce) all_reduce(b, at);
  if (spec.coll == Coll::reduce_scatter) reduce_scatter(b, at);
  if (spec.coll == Coll::all_gather) all_gather(b, at);
  if (spec.coll == Coll::broadcast) broadcast(b, at, spec.root);
  if (spec.coll == Coll::reduce) reduce(b, at, spec.root);
  return b.take();
}

}  // namespace

constinit const Algorithm kHier{"hier", supports, canonical, build, true};

}  // namespace ronde
