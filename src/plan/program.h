// A collective as a value: for one rank and one channel, lanes of Moves over blocks.
// Sizes, pointers and transports are not in it; executors add them (see exec/work.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/types.h"
#include "plan/move.h"

namespace ronde {

/// One end of a connection: `link` tells parallel connections between the same two ranks apart (0 .. kMaxLinks-1).
/// In one direction a (rank, link) is used by one lane only, so that slots arrive in the order of that lane's Moves.
/// A rank may name itself: that is how one of its lanes hands data to another.
struct Peer {
  int32_t rank = 0;
  uint32_t link = 0;
  bool operator==(const Peer&) const = default;
};
inline constexpr int kMaxLinks = 2;

/// What one rank does on one channel. Blocks by collective (n ranks, rank r):
///   all_reduce, broadcast, reduce   input and output have `blocks` blocks, the equal parts of the data (`blocks` is the algorithm's choice)
///   all_gather      input holds block r only;  output blocks 0..n-1
///   reduce_scatter  input blocks 0..n-1;       output holds block r only
///   all_to_all      input block j goes to rank j;  output block i came from rank i
///   gather          input holds block r only;  output blocks 0..n-1 at the root
///   scatter         input blocks 0..n-1 at the root;  output holds block r only
/// In place: block b of input and block b of output are the same memory (all_to_all has no in-place form). Input is never written
/// in the out-of-place form. scratch has `scratch_blocks` blocks of the largest block's size.
struct Program {
  int rank = 0;
  int channel = 0;
  uint32_t blocks = 0;
  uint32_t scratch_blocks = 0;
  std::vector<Peer> peers;
  std::vector<std::vector<Move>> lanes;
  bool operator==(const Program&) const = default;
};

/// What a set of Programs has to achieve.
struct CollSpec {
  Coll coll = Coll::all_reduce;
  int ranks = 1;
  int root = 0;  ///< where has_root(coll)
  bool operator==(const CollSpec&) const = default;
};

/// The order in which a channel's ring visits the ranks (ring[i] sends to ring[i+1]); trees are laid over the same order. Equal on
/// all ranks.
struct Channel {
  int index = 0;
  std::vector<int> ring;
  std::vector<int> node_of;  ///< by rank, any number for each node; empty: all on one. The ring passes through a node once
};

/// How many nodes hold the ranks, and what the smallest and the largest of them hold (0 where there is one node).
struct NodeShape {
  int nodes = 1;
  int least = 0;
  int most = 0;
  bool several() const { return nodes > 1; }
  bool operator==(const NodeShape&) const = default;
};
/// Of Channel::node_of, or of anything else that numbers nodes by rank.
NodeShape node_shape(const std::vector<int>& node_of);

}  // namespace ronde
