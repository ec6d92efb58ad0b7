#include "graph/join.h"

#include <algorithm>

#include "graph/double_tree.h"

namespace ronde::graph {
namespace {

using topo::ArcId;
using Arcs = std::vector<ArcId>;

class Joiner {
 public:
  Joiner(const Units& units, const Strands& strands, int ranks) : units_(units), strands_(strands), ranks_(ranks) {}

  Channel ring(size_t number) const {
    Channel channel;
    channel.rate = strands_.rate;
    channel.ring.reserve(static_cast<size_t>(ranks_));
    channel.hops.reserve(static_cast<size_t>(ranks_));
    const size_t nodes = units_.all.size();
    for (size_t node = 0; node < nodes; ++node) {
      const Unit& unit = units_.all[node];
      const Strand& strand = strand_of(node, number);
      const bool back = turns(node);
      const size_t n = strand.devices.size();
      for (size_t i = 0; i < n; ++i) {
        const int device = strand.devices[back ? n - 1 - i : i];
        channel.ring.push_back(unit.ranks[static_cast<size_t>(device)]);
        Arcs& hop = channel.hops.emplace_back();
        if (i + 1 < n) append_arcs(unit, strand.hops[back ? n - 2 - i : i], back, hop);
      }
      Arcs& hop = channel.hops.back();
      append_arcs(unit, back ? strand.in : strand.out, back, hop);
      const size_t next = (node + 1) % nodes;
      const bool next_back = turns(next);
      const Strand& there = strand_of(next, number);
      append_arcs(units_.all[next], next_back ? there.out : there.in, next_back, hop);
    }
    return channel;
  }

  /// `parent`: of nodes.
  Channel tree(size_t number, const std::vector<int>& parent) const {
    Channel channel;
    channel.rate = strands_.rate;
    channel.parent.resize(static_cast<size_t>(ranks_));
    channel.hops.resize(static_cast<size_t>(ranks_));
    for (size_t node = 0; node < units_.all.size(); ++node) {
      const Unit& unit = units_.all[node];
      const Strand& strand = strand_of(node, number);
      const auto rank = [&](size_t i) { return static_cast<size_t>(unit.ranks[static_cast<size_t>(strand.devices[i])]); };
      for (size_t i = 1; i < strand.devices.size(); ++i) {
        channel.parent[rank(i)] = static_cast<int>(rank(i - 1));
        append_arcs(unit, strand.hops[i - 1], true, channel.hops[rank(i)]);
      }
      channel.parent[rank(0)] = -1;
      if (parent[node] == -1) continue;
      const auto up = static_cast<size_t>(parent[node]);
      const Strand& above = strand_of(up, number);
      channel.parent[rank(0)] = units_.all[up].ranks[static_cast<size_t>(above.devices[0])];
      append_arcs(unit, strand.in, true, channel.hops[rank(0)]);
      append_arcs(units_.all[up], above.in, false, channel.hops[rank(0)]);
    }
    return channel;
  }

 private:
  const Strand& strand_of(size_t node, size_t number) const {
    return strands_.of_kind[static_cast<size_t>(units_.all[node].kind)][number];
  }
  bool turns(size_t node) const { return strands_.turning && node % 2 == 1; }

  const Units& units_;
  const Strands& strands_;
  const int ranks_;
};

}  // namespace

void append_arcs(const Unit& unit, const Arcs& arcs, bool backwards, Arcs& to) {
  const auto own = [&](ArcId arc) { return 2 * unit.links[static_cast<size_t>(topo::link_of(arc))] + arc % 2; };
  to.reserve(to.size() + arcs.size());
  if (backwards) {
    for (auto arc = arcs.rbegin(); arc != arcs.rend(); ++arc) to.push_back(topo::reverse(own(*arc)));
  } else {
    for (const ArcId arc : arcs) to.push_back(own(arc));
  }
}

std::vector<Channel> join(const Units& units, const Strands& strands, Shape shape, int ranks) {
  const Joiner joiner(units, strands, ranks);
  const auto nodes = static_cast<int>(units.all.size());
  const size_t count = strands.of_kind[0].size();
  std::vector<Channel> channels;
  channels.reserve(count * static_cast<size_t>(strands.times));
  if (shape == Shape::ring) {
    for (size_t i = 0; i < count; ++i) channels.push_back(joiner.ring(i));
    return channels;
  }
  const std::vector<int> trees[2] = {binary_tree(nodes, false), binary_tree(nodes, true)};
  // One tree of each strand: now one, now the other.
  for (size_t i = 0; i < count; ++i) {
    for (int turn = 0; turn < strands.times; ++turn) {
      channels.push_back(joiner.tree(i, trees[strands.times == 2 ? static_cast<size_t>(turn) : i % 2]));
    }
  }
  return channels;
}

}  // namespace ronde::graph
