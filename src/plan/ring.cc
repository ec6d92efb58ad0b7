// Ring: every rank receives from its predecessor and sends to its successor, all links busy at once.
// Moves 2 (n-1)/n of the data per rank for an all-reduce, the least there is, in 2 (n-1) steps.
#include "plan/build.h"

namespace ronde {
namespace {

bool supports(const CollSpec& spec) {
  return spec.coll == Coll::all_reduce || spec.coll == Coll::all_gather || spec.coll == Coll::reduce_scatter ||
         spec.coll == Coll::broadcast || spec.coll == Coll::reduce;
}

bool canonical(const CollSpec& spec) { return !has_reduction(spec.coll) || spec.ranks <= 2; }

/// Block p starts at position p and gathers one input per hop; at position p-1 it is complete and goes round once more.
void all_reduce(Builder& b, const Peer& prev, const Peer& next) {
  const int n = b.ranks();
  const int p = b.position(b.rank());
  const auto block = [n](int i) { return static_cast<size_t>((i + 2 * n) % n); };
  b.add(0, {.src = input(block(p)), .out = only(next)});
  for (int t = 1; t < n - 1; ++t) b.add(0, {.in = only(prev), .src = input(block(p - t)), .out = only(next)});
  const size_t mine = block(p + 1);
  b.add(0, {.in = only(prev), .src = input(mine), .dst = output(mine), .out = only(next), .flags = kMoveFinal});
  for (int t = 0; t < n - 2; ++t) b.add(0, {.in = only(prev), .dst = output(block(p - t)), .out = only(next)});
  b.add(0, {.in = only(prev), .dst = output(block(p + 2))});
}

/// The block of position p starts at its successor, so that it ends at p.
void reduce_scatter(Builder& b, const Peer& prev, const Peer& next) {
  const int n = b.ranks();
  const int p = b.position(b.rank());
  b.add(0, {.src = input(b.at(p - 1)), .out = only(next)});
  for (int t = 2; t < n; ++t) b.add(0, {.in = only(prev), .src = input(b.at(p - t)), .out = only(next)});
  b.add(0, {.in = only(prev), .src = input(b.rank()), .dst = output(b.rank()), .flags = kMoveFinal});
}

void all_gather(Builder& b, const Peer& prev, const Peer& next) {
  const int n = b.ranks();
  const int p = b.position(b.rank());
  b.add(0, {.src = input(b.rank()), .dst = output(b.rank()), .out = only(next)});
  for (int t = 1; t < n - 1; ++t) b.add(0, {.in = only(prev), .dst = output(b.at(p - t)), .out = only(next)});
  b.add(0, {.in = only(prev), .dst = output(b.at(p + 1))});
}

Result<Program> build(const CollSpec& spec, const Channel& channel, int rank) {
  // A ring that is cut open at the root is a chain.
  if (has_root(spec.coll)) return kChain.build(spec, channel, rank);
  if (spec.ranks == 1) return alone(spec, channel);
  Builder b(spec, channel, rank, static_cast<size_t>(spec.ranks));
  const int p = b.position(rank);
  const Peer prev{b.at(p - 1), 0};
  const Peer next{b.at(p + 1), 0};
  if (spec.coll == Coll::all_reduce) all_reduce(b, prev, next);
  if (spec.coll == Coll::reduce_scatter) reduce_scatter(b, prev, next);
  if (spec.coll == Coll::all_gather) all_gather(b, prev, next);
  return b.take();
}

}  // namespace

constinit const Algorithm kRing{"ring", supports, canonical, build};

}  // namespace ronde
