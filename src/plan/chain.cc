// Chain: a line of ranks with the root at one end, in the order of the ring; slices follow each other down the line.
// Every rank sends the data once at most, and never waits for more than its neighbour: best for large data.
#include "plan/build.h"

namespace ronde {
namespace {

bool supports(const CollSpec& spec) { return spec.coll == Coll::broadcast || spec.coll == Coll::reduce; }

bool canonical(const CollSpec& spec) { return !has_reduction(spec.coll) || spec.ranks <= 2; }

/// From the root along the ring's direction; the last is the root's predecessor.
void broadcast(Builder& b, int root) {
  const int n = b.ranks();
  const int p = b.position(b.rank());
  const int distance = (p - b.position(root) + n) % n;
  const Peer prev{b.at(p - 1), 0};
  const Peer next{b.at(p + 1), 0};
  const bool last = distance == n - 1;
  if (distance == 0) b.add(0, {.src = input(0), .dst = output(0), .out = only(next)});
  if (distance > 0) b.add(0, {.in = only(prev), .dst = output(0), .out = last ? std::span<const Peer>() : only(next)});
}

/// Along the ring's direction to the root; the first is the root's successor.
void reduce(Builder& b, int root) {
  const int n = b.ranks();
  const int p = b.position(b.rank());
  const int distance = (b.position(root) - p + n) % n;
  const Peer prev{b.at(p - 1), 0};
  const Peer next{b.at(p + 1), 0};
  if (distance == n - 1) b.add(0, {.src = input(0), .out = only(next)});
  if (distance > 0 && distance < n - 1) b.add(0, {.in = only(prev), .src = input(0), .out = only(next)});
  if (distance == 0) b.add(0, {.in = only(prev), .src = input(0), .dst = output(0), .flags = kMoveFinal});
}

Result<Program> build(const CollSpec& spec, const Channel& channel, int rank) {
  if (spec.ranks == 1) return alone(spec, channel);
  Builder b(spec, channel, rank, 1);
  if (spec.coll == Coll::broadcast) broadcast(b, spec.root);
  if (spec.coll == Coll::reduce) reduce(b, spec.root);
  return b.take();
}

}  // namespace

constinit const Algorithm kChain{"chain", supports, canonical, build};

}  // namespace ronde
