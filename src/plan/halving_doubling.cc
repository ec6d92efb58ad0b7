// Halving and doubling: logarithmic steps, and no more data moved than a ring does where n is a power of two.
// Each rank has two lanes, so that both directions of an exchange run at once whatever the number of slots: one receives and
// reduces, one sends. What the second may send next is handed over by the first through a FIFO to itself, one slot a step.
#include <algorithm>
#include <bit>

#include "plan/build.h"

namespace ronde {
namespace {

constexpr size_t kReceive = 0;
constexpr size_t kSend = 1;

bool supports(const CollSpec& spec) {
  return spec.coll == Coll::all_reduce || spec.coll == Coll::all_gather || spec.coll == Coll::reduce_scatter;
}

bool canonical(const CollSpec& spec) { return !has_reduction(spec.coll) || spec.ranks <= 2; }

/// After this the sending lane may use everything that the receiving lane has written so far. `block` is any that the receiving
/// lane has just written, will not touch again, and that nobody has borrowed: it is written again with what it holds.
void hand_over(Builder& b, Block block) {
  const Peer self{b.rank(), 0};
  b.add(kReceive, {.src = block, .out = only(self)});
  b.add(kSend, {.in = only(self), .dst = block});
}

/// Where a rank stands among the power of two that do the work: with n = p2 + extra, positions 2i+1 below 2 extra fold into 2i.
struct Fold {
  uint32_t p2, extra;
  explicit Fold(int n) : p2(std::bit_floor(static_cast<uint32_t>(n))), extra(static_cast<uint32_t>(n) - p2) {}
  bool paired(uint32_t position) const { return position < 2 * extra; }
  uint32_t index(uint32_t position) const { return paired(position) ? position / 2 : position - extra; }
  int position(uint32_t index) const { return static_cast<int>(index < extra ? 2 * index : index + extra); }
};

/// Reduce-scatter by halving, nearest partner and largest part first, then all-gather by doubling, back the same way.
/// p2 blocks; ranges stay contiguous, so that each step is one Move of n_blocks.
void halve_and_double(Builder& b, const Fold& fold, uint32_t index, const Peer* extra) {
  const auto partner = [&](uint32_t bit) { return Peer{b.at(fold.position(index ^ bit)), 0}; };
  Buf partial = Buf::input;
  if (extra) {
    b.add(kReceive, {.in = only(*extra), .src = input(0), .dst = output(0), .n_blocks = fold.p2});
    partial = Buf::output;
  }
  uint32_t low = 0;
  uint32_t half = fold.p2;
  for (uint32_t bit = 1; bit < fold.p2; bit <<= 1) {
    half /= 2;
    const uint32_t keep = low + (index & bit ? half : 0);
    const uint32_t give = low + (index & bit ? 0 : half);
    if (partial == Buf::output) hand_over(b, output(give));
    b.add(kSend, {.src = {partial, give}, .out = only(partner(bit)), .n_blocks = half});
    b.add(kReceive, {.in = only(partner(bit)),
                     .src = {partial, keep},
                     .dst = output(keep),
                     .n_blocks = half,
                     .flags = half == 1 ? kMoveFinal : uint8_t{0}});
    partial = Buf::output;
    low = keep;
  }
  uint32_t received = low;
  for (uint32_t bit = fold.p2 / 2; bit > 0; bit /= 2, half *= 2) {
    hand_over(b, output(received));
    b.add(kSend, {.src = output(low), .out = only(partner(bit)), .n_blocks = half});
    received = low ^ half;
    b.add(kReceive, {.in = only(partner(bit)), .dst = output(received), .n_blocks = half});
    low = std::min(low, received);
  }
  if (!extra) return;
  hand_over(b, output(received));
  b.add(kSend, {.src = output(0), .out = only(*extra), .n_blocks = fold.p2});
}

Program all_reduce(const CollSpec& spec, const Channel& channel, int rank) {
  const Fold fold(spec.ranks);
  Builder b(spec, channel, rank, fold.p2);
  const int position = b.position(rank);
  const bool paired = fold.paired(static_cast<uint32_t>(position));
  const Peer mate{b.at(position ^ 1), 0};
  if (paired && position % 2 == 1) {
    b.add(kReceive, {.in = only(mate), .dst = output(0), .n_blocks = fold.p2});
    b.add(kSend, {.src = input(0), .out = only(mate), .n_blocks = fold.p2});
  } else {
    halve_and_double(b, fold, fold.index(static_cast<uint32_t>(position)), paired ? &mate : nullptr);
  }
  return b.take();
}

/// Part of a range of blocks: `offset` from its start, `count` long.
struct Run {
  uint32_t offset, count;
};

/// The range of `count` blocks from `first` (modulo n), cut where it wraps and at the offsets in `cuts`: both ends must cut
/// alike.
std::vector<Run> runs(uint32_t first, uint32_t count, uint32_t n, std::vector<int64_t> cuts = {}) {
  cuts.insert(cuts.end(), {0, n - first, count});
  std::sort(cuts.begin(), cuts.end());
  std::vector<Run> list;
  int64_t from = 0;
  for (int64_t cut : cuts) {
    if (cut <= from || cut > count) continue;
    list.push_back({static_cast<uint32_t>(from), static_cast<uint32_t>(cut - from)});
    from = cut;
  }
  return list;
}

/// Step d = 1, 2, 4..: the d blocks from the own one on go d ranks down, the next d come from d ranks up. In rank order, where
/// blocks are adjacent. Any n: the last step is shorter.
Program all_gather(const CollSpec& spec, const Channel& channel, int rank) {
  const uint32_t n = static_cast<uint32_t>(spec.ranks);
  const uint32_t r = static_cast<uint32_t>(rank);
  Builder b(spec, channel, rank, n);
  for (uint32_t d = 1; d < n; d *= 2) {
    const uint32_t count = std::min(d, n - d);
    const uint32_t other = (r + d) % n;
    const Peer down{static_cast<int>((r + n - d) % n), 0};
    const Peer up{static_cast<int>(other), 0};
    if (d == 1) {
      b.add(kSend, {.src = input(r), .dst = output(r), .out = only(down)});
    } else {
      hand_over(b, output((r + d / 2) % n));
      for (const Run& run : runs(r, count, n)) {
        b.add(kSend, {.src = output((r + run.offset) % n), .out = only(down), .n_blocks = run.count});
      }
    }
    for (const Run& run : runs(other, count, n)) {
      b.add(kReceive, {.in = only(up), .dst = output((other + run.offset) % n), .n_blocks = run.count});
    }
  }
  return b.take();
}

/// The all-gather run backwards: in step d (falling) the partial sums of d blocks go d ranks up, those for the blocks from the
/// own one on come from d ranks down. Partial sums of block rank+i rest in scratch block i, of which the first `have` are in use.
Program reduce_scatter(const CollSpec& spec, const Channel& channel, int rank) {
  const uint32_t n = static_cast<uint32_t>(spec.ranks);
  const uint32_t r = static_cast<uint32_t>(rank);
  const uint32_t top = std::bit_ceil(n) / 2;
  Builder b(spec, channel, rank, n, top == 1 ? 0 : std::max(n - top, top / 2));
  uint32_t have = 0;
  for (uint32_t d = top; d > 0; d /= 2) {
    const uint32_t count = std::min(d, n - d);
    const uint32_t other = (r + d) % n;
    const Peer up{static_cast<int>(other), 0};
    const Peer down{static_cast<int>((r + n - d) % n), 0};
    const std::vector<int64_t> cuts = {have, int64_t{have} - d};
    const auto partial = [&](uint32_t i) { return i < have ? scratch(i) : input((r + i) % n); };
    if (d < have) hand_over(b, scratch(d));
    for (const Run& run : runs(other, count, n, cuts)) {
      b.add(kSend, {.src = partial(d + run.offset), .out = only(up), .n_blocks = run.count});
    }
    for (const Run& run : runs(r, count, n, cuts)) {
      b.add(kReceive, {.in = only(down),
                       .src = partial(run.offset),
                       .dst = d == 1 ? output(r) : scratch(run.offset),
                       .n_blocks = run.count,
                       .flags = d == 1 ? kMoveFinal : uint8_t{0}});
    }
    have = std::max(have, count);
  }
  return b.take();
}

Result<Program> build(const CollSpec& spec, const Channel& channel, int rank) {
  if (spec.ranks == 1) return alone(spec, channel);
  if (spec.coll == Coll::all_gather) return all_gather(spec, channel, rank);
  if (spec.coll == Coll::reduce_scatter) return reduce_scatter(spec, channel, rank);
  return all_reduce(spec, channel, rank);
}

}  // namespace

constinit const Algorithm kHalvingDoubling{"hd", supports, canonical, build};

}  // namespace ronde
