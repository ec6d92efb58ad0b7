// The cost model: what an algorithm makes a machine do for a call, and how long that takes. Integers only, so that every rank
// finds the same.
#pragma once

#include <cstdint>
#include <string_view>

#include "plan/program.h"
#include "tune/choose.h"

namespace ronde {

/// What one slice of every block costs, in blocks (bytes / block) and slots.
struct Work {
  uint64_t reduced = 0;          ///< arrivals combined with something else
  uint64_t copied = 0;           ///< arrivals kept as they are
  uint64_t staged = 0;           ///< copies into slots that a loan saves
  uint64_t written = 0;          ///< copies into slots that cannot be lent
  uint64_t messages = 0;         ///< slots written and slots read, one a block
  uint64_t merged_messages = 0;  ///< the same with one a Move
  uint64_t sent = 0;             ///< to ranks of other nodes
  uint64_t received = 0;         ///< from there
  bool operator==(const Work&) const = default;
};

/// What an algorithm's Programs for a collective amount to, without building them (the tests compare the two).
struct Footprint {
  bool known = false;      ///< false: the model has no row for it; it is chosen only where nothing else may be
  uint64_t blocks = 1;     ///< Program::blocks for more than one rank
  uint64_t widest = 1;     ///< largest Move::n_blocks of any rank
  uint64_t depth = 0;      ///< hops from rank to rank that follow each other
  uint64_t turns = 0;      ///< times that one rank waits for others
  bool pipelined = false;  ///< a rank passes one slice on while the next is on its way
  // Ranks on several nodes: of the busiest node and rank.
  uint64_t crossing = 0;  ///< blocks that leave a node, or enter it, whichever is more
  uint64_t near = 0;      ///< blocks that arrive at a rank from its own node, or leave it for there
  uint64_t far_hops = 0;  ///< of `depth`, those from node to node
  bool by_turns = false;  ///< what crosses waits for what does not, and the other way round
  Work busiest;           ///< largest of any rank, each figure for itself
  Work total;             ///< of all ranks
};
/// For nodes of unlike size it is a bound.
Footprint footprint(std::string_view algorithm, const CollSpec& spec, const NodeShape& nodes = {});

/// Fills in crossing, near, far_hops, by_turns, and what is sent and received. For nodes of unlike size they are bounds.
void place_on_nodes(std::string_view algorithm, const CollSpec& spec, const NodeShape& nodes, Footprint* footprint);

/// How a Program is run: the part of a Choice that its cost depends on.
struct Execution {
  size_t block = 0;  ///< bytes of the largest block on one channel
  size_t slice = 64;
  bool merged = false;
  int channels = 1;
};

/// Estimated nanoseconds of one call, start to end on the slowest rank.
uint64_t nanos_of(const Footprint& footprint, int ranks, const Execution& run, const TuneInputs& inputs);

/// Bytes of one block on one channel, never less than what the largest really has: `bytes` are all data of all_reduce, broadcast
/// and reduce, and one rank's block otherwise; both cuts, into channels and into blocks, lie on multiples of 64 bytes.
size_t largest_block(Coll coll, size_t bytes, int channels, uint64_t blocks);

}  // namespace ronde
