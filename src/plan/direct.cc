// Direct: every rank talks to every other, each datum crosses one link (two for an all-reduce). Wherever it reduces, one rank
// folds one block of all ranks in rank order, in a single Move: canonical.
#include "plan/build.h"

namespace ronde {
namespace {

bool supports(const CollSpec& spec) { return spec.coll != Coll::send && spec.coll != Coll::recv; }

bool canonical(const CollSpec&) { return true; }

/// The other ranks, each rank beginning with its successor so that not all turn to the same one at once.
std::vector<Peer> rotated(const Builder& b) {
  std::vector<Peer> list;
  for (int i = 1; i < b.ranks(); ++i) list.push_back({(b.rank() + i) % b.ranks(), 0});
  return list;
}

/// Block j of the input goes to rank j; this rank folds its own block of all inputs and passes the result to `out`.
void fold_own_block(Builder& b, std::span<const Peer> out) {
  for (const Peer& peer : rotated(b)) b.add(0, {.src = input(peer.rank), .out = only(peer)});
  b.add(0, {.in = b.others(), .src = input(b.rank()), .dst = output(b.rank()), .out = out, .flags = kMoveFinal});
}

void receive_all(Builder& b) {
  for (const Peer& peer : rotated(b)) b.add(0, {.in = only(peer), .dst = output(peer.rank)});
}

/// A lane per peer here and below: unequal blocks do not hold each other up.
void all_to_all(Builder& b) {
  b.add(0, {.src = input(b.rank()), .dst = output(b.rank())});
  size_t lane = 1;
  for (const Peer& peer : rotated(b)) {
    b.add(lane, {.src = input(peer.rank), .out = only(peer)});
    b.add(lane++, {.in = only(peer), .dst = output(peer.rank)});
  }
}

void gather(Builder& b, int root) {
  if (b.rank() != root) return b.add(0, {.src = input(b.rank()), .out = only({root, 0})});
  b.add(0, {.src = input(root), .dst = output(root)});
  size_t lane = 1;
  for (const Peer& peer : rotated(b)) b.add(lane++, {.in = only(peer), .dst = output(peer.rank)});
}

void scatter(Builder& b, int root) {
  if (b.rank() != root) return b.add(0, {.in = only({root, 0}), .dst = output(b.rank())});
  b.add(0, {.src = input(root), .dst = output(root)});
  size_t lane = 1;
  for (const Peer& peer : rotated(b)) b.add(lane++, {.src = input(peer.rank), .out = only(peer)});
}

void broadcast(Builder& b, int root) {
  if (b.rank() == root) return b.add(0, {.src = input(0), .dst = output(0), .out = rotated(b)});
  b.add(0, {.in = only({root, 0}), .dst = output(0)});
}

void reduce(Builder& b, int root) {
  if (b.rank() != root) return b.add(0, {.src = input(0), .out = only({root, 0})});
  b.add(0, {.in = b.others(), .src = input(0), .dst = output(0), .flags = kMoveFinal});
}

Result<Program> build(const CollSpec& spec, const Channel& channel, int rank) {
  if (spec.ranks == 1) return alone(spec, channel);
  const bool whole = spec.coll == Coll::broadcast || spec.coll == Coll::reduce;
  Builder b(spec, channel, rank, whole ? 1 : static_cast<size_t>(spec.ranks));
  switch (spec.coll) {
    case Coll::all_reduce:
      fold_own_block(b, b.others());
      receive_all(b);
      break;
    case Coll::reduce_scatter:
      fold_own_block(b, {});
      break;
    case Coll::all_gather:
      b.add(0, {.src = input(rank), .dst = output(rank), .out = rotated(b)});
      receive_all(b);
      break;
    case Coll::all_to_all:
      all_to_all(b);
      break;
    case Coll::gather:
      gather(b, spec.root);
      break;
    case Coll::scatter:
      scatter(b, spec.root);
      break;
    case Coll::broadcast:
      broadcast(b, spec.root);
      break;
    case Coll::reduce:
      reduce(b, spec.root);
      break;
    case Coll::send:
    case Coll::recv:
      return fail(Code::invalid_argument, "messages have no collective Program");
  }
  return b.take();
}

}  // namespace

constinit const Algorithm kDirect{"direct", supports, canonical, build};

}  // namespace ronde
