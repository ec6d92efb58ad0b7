#include "tune/model.h"

#include <algorithm>
#include <bit>

#include "base/integers.h"

namespace ronde {
namespace {


Work scaled(const Work& work, uint64_t by) {
  return {work.reduced * by, work.copied * by,   work.staged * by,
          work.written * by, work.messages * by, work.merged_messages * by};
}

/// All ranks do the same.
Footprint even(uint64_t n, uint64_t blocks, uint64_t steps, Work each) {
  each.merged_messages = each.messages;
  return {.known = true, .blocks = blocks, .depth = steps, .turns = steps, .busiest = each, .total = scaled(each, n)};
}

Footprint chain(const CollSpec& spec, uint64_t n, const NodeShape& = {}) {
  const uint64_t m = n - 1;
  const uint64_t both = n > 2 ? 2 : 1;  // of two ranks, none receives and sends
  Footprint it{.known = true, .depth = m, .turns = 1, .pipelined = true};
  if (spec.coll == Coll::broadcast) {
    it.busiest = {.copied = 1, .staged = 1, .messages = both, .merged_messages = both};
    it.total = {.copied = m, .staged = m, .messages = 2 * m, .merged_messages = 2 * m};
  } else {
    it.busiest = {.reduced = 1, .staged = 1, .messages = both, .merged_messages = both};
    it.total = {.reduced = m, .staged = 1, .messages = 2 * m, .merged_messages = 2 * m};
  }
  return it;
}

Footprint ring(const CollSpec& spec, uint64_t n, const NodeShape&) {
  const uint64_t m = n - 1;
  if (has_root(spec.coll)) return chain(spec, n);
  if (spec.coll == Coll::all_gather) return even(n, n, m, {.copied = m, .staged = m, .messages = 2 * m});
  if (spec.coll == Coll::reduce_scatter) return even(n, n, m, {.reduced = m, .staged = 1, .messages = 2 * m});
  return even(n, n, 2 * m, {.reduced = m, .copied = m, .staged = n, .messages = 4 * m});
}

/// The same between nodes, with a chain in each: whoever stands in one tree is the second of the other's chain.
void tree_of_nodes(const CollSpec& spec, uint64_t n, const NodeShape& shape, Footprint* it) {
  const uint64_t nodes = static_cast<uint64_t>(shape.nodes);
  const uint64_t chain = static_cast<uint64_t>(shape.most) - 1;
  it->depth = log2_ceil(nodes) + chain + 1;
  if (spec.coll == Coll::all_reduce) {
    it->depth = 2 * (it->depth - 1);
    it->busiest = {.reduced = 4, .copied = 2, .staged = 6, .messages = 12};
    it->total.staged = 2 * (n + nodes);
  } else if (spec.coll == Coll::broadcast) {
    it->busiest = {.copied = 2, .staged = 4, .messages = 6};
  } else {
    it->busiest = {.reduced = 4, .staged = 2, .messages = 6};
    it->total.staged = 2 * nodes;
  }
}

/// Two trees, a block each. A rank that is inner in one is a leaf in the other.
Footprint tree(const CollSpec& spec, uint64_t n, const NodeShape& shape) {
  const uint64_t m = n - 1;
  Footprint it{.known = true, .blocks = 2, .turns = 1, .pipelined = true};
  if (spec.coll == Coll::all_reduce) {
    it.depth = 2 * log2_ceil(n);
    it.turns = 2;
    it.busiest = {.reduced = 2, .copied = 2, .staged = 4, .messages = 8};
    const uint64_t leaves = (n + 1) / 2;  // the top of a tree hands to itself, once each
    it.total = {.reduced = 2 * m, .copied = 2 * n, .staged = 2 * (m + 1 + leaves), .messages = 8 * m + 4};
  } else if (spec.coll == Coll::broadcast) {
    it.depth = 1 + log2_ceil(n);
    it.busiest = {.copied = 2, .staged = 2, .messages = 4};
    it.total = {.copied = 2 * m, .staged = 2 * m, .messages = 4 * m};
  } else {
    it.depth = 1 + log2_ceil(n);
    it.busiest = {.reduced = 2, .staged = 2, .messages = 4};
    it.total = {.reduced = 2 * m, .staged = 2 * ((m + 1) / 2), .messages = 4 * m};
  }
  if (shape.several() && shape.most > 1 && n > 3) tree_of_nodes(spec, n, shape, &it);
  it.busiest.merged_messages = it.busiest.messages;
  it.total.merged_messages = it.total.messages;
  return it;
}

Footprint direct(const CollSpec& spec, uint64_t n, const NodeShape&) {
  const uint64_t m = n - 1;
  const uint64_t blocks = spec.coll == Coll::broadcast || spec.coll == Coll::reduce ? 1 : n;
  if (spec.coll == Coll::all_reduce) return even(n, n, 2, {.reduced = m, .copied = m, .staged = 2 * m, .messages = 4 * m});
  if (spec.coll == Coll::reduce_scatter) return even(n, n, 1, {.reduced = m, .staged = m, .messages = 2 * m});
  if (!has_root(spec.coll)) return even(n, n, 1, {.copied = m, .staged = m, .messages = 2 * m});
  Footprint it{.known = true, .blocks = blocks, .depth = 1, .turns = 1, .pipelined = true};
  it.total = {.staged = m, .messages = 2 * m, .merged_messages = 2 * m};
  it.busiest = {.messages = m, .merged_messages = m};
  if (spec.coll == Coll::reduce) {
    it.total.reduced = it.busiest.reduced = m;
    it.busiest.staged = 1;
  } else {
    const bool inward = spec.coll == Coll::gather;
    it.total.copied = m;
    it.busiest.copied = inward ? m : 1;
    it.busiest.staged = inward ? 1 : m;
  }
  return it;
}

Footprint oneshot(const CollSpec&, uint64_t n, const NodeShape&) {
  return even(n, 1, 1, {.reduced = n - 1, .written = n - 1, .messages = 2 * (n - 1)});
}

/// Ranks beyond the power of two fold into a neighbour first, which sends them the result last.
Footprint hd_all_reduce(uint64_t n) {
  const uint64_t p2 = std::bit_floor(n);
  const uint64_t extra = n - p2;
  const uint64_t steps = log2_ceil(p2);
  const uint64_t handed = 2 * steps - 1;  // blocks that one lane hands to the other
  Footprint it{.known = true, .blocks = p2, .widest = extra > 0 ? p2 : p2 / 2};
  it.depth = it.turns = 2 * steps + (extra > 0 ? 2 : 0);
  it.busiest = {.reduced = p2 - 1,
                .copied = p2 - 1 + handed,
                .staged = 2 * (p2 - 1) + handed,
                .messages = 4 * (p2 - 1) + 2 * handed,
                .merged_messages = 4 * steps + 2 * handed};
  it.total = scaled(it.busiest, p2);
  if (extra == 0) return it;
  it.total.reduced += extra * p2;
  it.total.copied += extra * (p2 + 2);
  it.total.staged += extra * (2 * p2 + 2);
  it.total.messages += extra * (4 * p2 + 4);
  it.total.merged_messages += extra * 8;
  it.busiest.reduced += p2;
  it.busiest.copied = std::max(it.busiest.copied + 2, p2);
  it.busiest.staged += p2 + 2;
  it.busiest.messages += 2 * p2 + 4;
  it.busiest.merged_messages += 6;
  return it;
}

Footprint hd_all_gather(uint64_t n) {
  const uint64_t top = std::bit_ceil(n) / 2;
  const uint64_t steps = log2_ceil(n);
  const uint64_t handed = steps - 1;
  Footprint it = even(n, n, steps, {.copied = n - 1 + handed, .staged = n - 1 + handed, .messages = 2 * (n - 1) + 2 * handed});
  it.widest = std::max(n - top, top / 2);
  it.busiest.merged_messages = std::min(it.busiest.messages, 4 * steps + 2 * handed);  // a range that wraps is two
  it.total.merged_messages = it.busiest.merged_messages * n;
  return it;
}

/// As all_gather backwards, where a range is also cut between blocks that have been added to and those that have not.
Footprint hd_reduce_scatter(uint64_t n) {
  const uint64_t steps = log2_ceil(n);
  uint64_t have = 0;
  uint64_t handed = 0;
  uint64_t widest = 1;
  for (uint64_t d = std::bit_ceil(n) / 2; d > 0; d /= 2) {
    const uint64_t count = std::min(d, n - d);
    if (d < have) ++handed;
    const uint64_t low = have > d ? std::min(have - d, count) : 0;
    const uint64_t high = std::clamp(have, low, count);
    widest = std::max({widest, low, high - low, count - high});
    have = std::max(have, count);
  }
  Footprint it =
      even(n, n, steps, {.reduced = n - 1, .copied = handed, .staged = n - 1 + handed, .messages = 2 * (n - 1) + 2 * handed});
  it.widest = widest;
  it.busiest.merged_messages = std::min(it.busiest.messages, 6 * steps + 2 * handed);
  it.total.merged_messages = it.busiest.merged_messages * n;
  return it;
}

Footprint hd(const CollSpec& spec, uint64_t n, const NodeShape&) {
  if (spec.coll == Coll::all_gather) return hd_all_gather(n);
  if (spec.coll == Coll::reduce_scatter) return hd_reduce_scatter(n);
  return hd_all_reduce(n);
}

/// Rails, nodes and ranks of a hierarchy.
struct Levels {
  uint64_t n, nodes, rails, most;
  uint64_t extra;    ///< ranks beyond the rails
  uint64_t carried;  ///< at most, of blocks that belong to ranks: by one rail of one node, over all nodes
  uint64_t lone;     ///< nodes whose rail folds nothing of its own node
  uint64_t between;  ///< 1 where there are several nodes
  Levels(uint64_t ranks, const NodeShape& shape)
      : n(ranks), nodes(static_cast<uint64_t>(shape.nodes)), rails(shape.several() ? static_cast<uint64_t>(shape.least) : n),
        most(shape.several() ? static_cast<uint64_t>(shape.most) : n), extra(n - nodes * rails),
        carried(nodes * ceil_div(most, rails)), lone(!shape.several() || rails > 1 ? 0 : extra == 0 ? nodes : nodes - 1),
        between(shape.several() ? 1 : 0) {}
  uint64_t depth(uint64_t hops_between) const { return hops_between + (most > 1 ? 1 : 0); }
};

Footprint hier_all_reduce(const Levels& at) {
  const uint64_t hops = at.nodes - 1;
  const uint64_t rounds = at.rails * at.nodes;
  Footprint it{.known = true, .blocks = rounds};
  it.depth = it.turns = at.depth(2 * hops) + (at.most > 1 ? 1 : 0);
  it.total = {.reduced = rounds * (at.n - 1),
              .copied = rounds * (at.n - 1),
              .staged = rounds * (2 * at.n - at.nodes - 1) + at.lone * at.rails,
              .messages = 4 * rounds * (at.n - 1)};
  const uint64_t inside = at.nodes * (at.most - 1);
  it.busiest = {.reduced = inside + hops,
                .copied = rounds - (at.extra == 0 ? 1 : 0),
                .staged = rounds - at.nodes + inside + hops + (at.lone > 0 ? 1 : 0),
                .messages = 2 * (rounds - at.nodes) + 2 * inside + 4 * hops};
  return it;
}

Footprint hier_reduce_scatter(const Levels& at) {
  const uint64_t hops = at.nodes - 1;
  Footprint it{.known = true, .blocks = at.n};
  it.depth = it.turns = at.depth(hops) + (at.extra > 0 ? 1 : 0);
  it.total = {.reduced = at.n * (at.n - 1),
              .copied = at.extra,
              .staged = at.n * (at.n - at.nodes) + (at.lone > 0 ? at.n : 0),
              .messages = 2 * (at.n * (at.n - 1) + at.extra)};
  const uint64_t inside = at.carried * (at.most - 1);
  it.busiest = {.reduced = inside + at.carried,
                .copied = at.extra > 0 ? 1u : 0u,
                .staged = at.n - (at.extra == 0 ? at.nodes : 0) + (at.lone > 0 ? at.carried / at.nodes : 0),
                .messages = at.n - at.nodes + inside + 2 * at.carried};
  return it;
}

Footprint hier_all_gather(const Levels& at) {
  Footprint it{.known = true, .blocks = at.n};
  it.depth = it.turns = at.depth(at.nodes - 1) + (at.extra > 0 ? 1 : 0);
  it.total = {.copied = at.n * (at.n - 1), .staged = at.n * (at.n - 1), .messages = 2 * at.n * (at.n - 1)};
  const uint64_t out = at.carried * (at.most - 1) + at.carried - at.carried / at.nodes;
  it.busiest = {.copied = at.n - 1, .staged = out, .messages = at.n - 1 + out};
  return it;
}

/// Broadcast, and reduce, which is the same backwards.
Footprint hier_rooted(Coll coll, const Levels& at) {
  const uint64_t beyond = at.extra > 0 ? 1 : 0;  // the root may be no rail
  const uint64_t others = at.rails - 1 + beyond;
  Footprint it{.known = true, .blocks = at.rails, .turns = 1, .pipelined = true};
  it.depth = at.depth(at.nodes - 1) + (at.most > 1 ? 1 : 0);
  if (coll == Coll::broadcast) {
    it.total = {.copied = at.rails * (at.n - 1), .staged = at.rails * (at.n - 1), .messages = 2 * at.rails * (at.n - 1)};
    it.busiest = {.copied = at.rails, .staged = others + at.most - 1 + at.between, .messages = others + at.most + at.between};
    return it;
  }
  const uint64_t lone = at.lone > 0 ? 1 : 0;  // the chain may begin with a plain copy
  it.total = {.reduced = at.rails * (at.n - 1),
              .copied = others,
              .staged = at.rails * (at.n - at.nodes) + lone,
              .messages = 2 * (at.rails * (at.n - 1) + others)};
  it.busiest = {.reduced = at.most - 1 + at.between,
                .copied = others,
                .staged = others + lone,
                .messages = 2 * others + at.most - 1 + 2 * at.between};
  return it;
}

Footprint hier(const CollSpec& spec, uint64_t n, const NodeShape& shape) {
  const Levels at(n, shape);
  Footprint it = spec.coll == Coll::all_reduce       ? hier_all_reduce(at)
                 : spec.coll == Coll::reduce_scatter ? hier_reduce_scatter(at)
                 : spec.coll == Coll::all_gather     ? hier_all_gather(at)
                                                     : hier_rooted(spec.coll, at);
  it.busiest.merged_messages = it.busiest.messages;
  it.total.merged_messages = it.total.messages;
  return it;
}

struct Row {
  std::string_view algorithm;
  Footprint (*footprint)(const CollSpec&, uint64_t ranks, const NodeShape&);
};
constexpr Row kRows[] = {{"ring", ring}, {"tree", tree}, {"direct", direct}, {"oneshot", oneshot}, {"hd", hd}, {"chain", chain}, {"hier", hier}};

}  // namespace

Footprint footprint(std::string_view algorithm, const CollSpec& spec, const NodeShape& nodes) {
  for (const Row& row : kRows) {
    if (row.algorithm != algorithm) continue;
    if (spec.ranks == 1) return {.known = true};
    Footprint it = row.footprint(spec, static_cast<uint64_t>(spec.ranks), nodes);
    place_on_nodes(algorithm, spec, nodes, &it);
    return it;
  }
  return {};
}

}  // namespace ronde
