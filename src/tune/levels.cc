// What of an algorithm's work stays within a node, and what crosses from one to another.
#include <algorithm>
#include <bit>

#include "base/integers.h"
#include "tune/model.h"

namespace ronde {
namespace {

/// Ranks, nodes, and the ranks of the largest and of the smallest node.
struct Place {
  uint64_t n, nodes, most, least;
};

/// Of one rank `each` blocks go to other nodes and come from there, of all together `all`.
void exchange(uint64_t each, uint64_t all, Footprint* it) {
  it->busiest.sent = it->busiest.received = each;
  it->total.sent = it->total.received = all;
}

/// One way out of each node, one hop after the other around. A chain comes back to the node in whose midst it begins.
void place_ring(const CollSpec& spec, const Place& at, Footprint* it) {
  const uint64_t laps = spec.coll == Coll::all_reduce ? 2 : 1;
  const bool chain = spec.coll == Coll::broadcast || spec.coll == Coll::reduce;
  const uint64_t chained = at.nodes - (at.most == 1 || spec.root == 0 ? 1 : 0);
  it->crossing = chain ? 1 : laps * (at.n - 1);
  it->near = it->crossing;
  it->far_hops = laps * (at.nodes - 1);
  exchange(it->crossing, chain ? chained : at.nodes * it->crossing, it);
}

/// Two blocks. Of the ranks of a node one stands in each tree, or if it is alone in both. A node that is inner in one tree sends to its parent and to two children, and is a leaf of the other.
void place_tree(Coll coll, const Place& at, Footprint* it) {
  const bool both = coll == Coll::all_reduce;
  const uint64_t steps = log2_ceil(at.nodes);
  it->crossing = both ? 4 : 3;
  it->near = both ? 4 : 2;
  it->far_hops = both ? 2 * steps : steps + 1;
  const uint64_t joined = at.n > 3 ? at.nodes : at.n;  // two or three ranks stand in both trees, whatever their nodes
  const uint64_t inner = std::min<uint64_t>(3, joined - 1);
  if (both) return exchange(inner + (at.most == 1 || at.n <= 3 ? 1 : 0), 4 * (joined - 1), it);
  exchange(2, 2 * at.nodes, it);
}

/// Each with each.
void place_direct(Coll coll, const Place& at, Footprint* it) {
  const uint64_t times = coll == Coll::all_reduce ? 2 : 1;
  const uint64_t senders = has_root(coll) ? 1 : at.most;
  it->crossing = times * senders * (at.n - std::min(at.n, has_root(coll) ? 1 : at.most));
  it->near = times * (at.most - 1);
  it->far_hops = times;
  const uint64_t others = at.n - std::min(at.n, at.least);
  exchange(times * others, times * (has_root(coll) ? others : at.n * others), it);
  if (!has_root(coll)) return;
  const bool inward = coll == Coll::reduce || coll == Coll::gather;
  (inward ? it->busiest.sent : it->busiest.received) = 1;
}

/// Partners at distances of powers of two. Where nodes are powers of two as well, what is far away gets the least data; other
/// orders straddle the nodes.
void place_hd(Coll coll, const Place& at, Footprint* it) {
  const bool all = coll == Coll::all_reduce;
  const uint64_t pairs = all ? std::bit_floor(at.n) : at.n;  // the ranks beyond fold into others of an all-reduce
  const bool even = std::has_single_bit(at.most);
  it->far_hops = (all ? 2 : 1) * (log2_ceil(at.n) - log2_ceil(at.most) + (even ? 0 : 1));
  it->by_turns = true;
  uint64_t each = 0;
  if (all && even) {
    const uint64_t beyond = at.n > pairs ? pairs : 0;
    it->crossing = 2 * (pairs - std::min(pairs, at.most)) + beyond + (beyond > 0 ? 2 * at.most : 0);
    it->near = 2 * ceil_div(pairs, at.most) * (at.most - 1) + beyond;
    if (beyond > 0) each = 2 * (2 * pairs / at.most - 1);  // half as many ranks of a node take part in what follows
  } else if (all) {
    it->crossing = 2 * at.most * (pairs - 1);
    it->near = 2 * pairs;
    each = 3 * pairs - 2;
  } else if (even && std::has_single_bit(at.n)) {
    it->crossing = at.n - at.most;
    it->near = at.nodes * (at.most - 1);
  } else {
    it->crossing = at.most * (at.n - 1);
    it->near = std::min<uint64_t>(at.most, 4);
  }
  if (all && even && each > 0) return exchange(each, pairs * each, it);
  exchange(each > 0 ? each : ceil_div(it->crossing, at.most), at.nodes * it->crossing, it);
}

/// Rails between nodes carry what has been folded inside.
void place_hier(Coll coll, const Place& at, const NodeShape& shape, Footprint* it) {
  const uint64_t rails = static_cast<uint64_t>(shape.least);
  const uint64_t hops = at.nodes - 1;
  const bool all = coll == Coll::all_reduce;
  it->far_hops = all ? 2 * hops : hops;
  it->by_turns = true;
  if (all) {
    it->crossing = 2 * hops * rails;
    it->near = 2 * at.nodes * (at.most - 1);
  } else if (coll == Coll::broadcast || coll == Coll::reduce) {
    it->crossing = rails;
    it->near = 2 * (at.most - 1);
  } else {
    it->crossing = at.n - std::min(at.n, rails);
    it->near = at.n - at.nodes;
  }
  const bool rooted = coll == Coll::broadcast || coll == Coll::reduce;
  exchange(ceil_div(it->crossing, rails), it->crossing * (rooted ? hops : at.nodes), it);
}

}  // namespace

void place_on_nodes(std::string_view algorithm, const CollSpec& spec, const NodeShape& nodes, Footprint* footprint) {
  const uint64_t n = static_cast<uint64_t>(spec.ranks);
  footprint->near = footprint->busiest.reduced + footprint->busiest.copied;
  if (!nodes.several()) return;
  const Place at{n, static_cast<uint64_t>(nodes.nodes), static_cast<uint64_t>(nodes.most), static_cast<uint64_t>(nodes.least)};
  if (algorithm == "ring" || algorithm == "chain") {
    place_ring(spec, at, footprint);
  } else if (algorithm == "tree") {
    place_tree(spec.coll, at, footprint);
  } else if (algorithm == "hd") {
    place_hd(spec.coll, at, footprint);
  } else if (algorithm == "hier") {
    place_hier(spec.coll, at, nodes, footprint);
  } else {
    place_direct(algorithm == "oneshot" ? Coll::all_gather : spec.coll, at, footprint);
  }
  footprint->far_hops = std::min(footprint->far_hops, footprint->depth);
  if (at.most == 1) footprint->near = 0;
}

}  // namespace ronde
