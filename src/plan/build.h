// Shared by the algorithms: a Program under construction, and the entries of the registry.
#pragma once

#include <span>
#include <vector>

#include "plan/algorithm.h"

namespace ronde {

extern const Algorithm kRing, kTree, kHalvingDoubling, kDirect, kOneshot, kChain, kHier;

/// A local operand of a Move: block `index` of `buf`, or nothing.
struct Block {
  Buf buf = Buf::none;
  uint32_t index = 0;
};
inline Block input(size_t index) { return {Buf::input, static_cast<uint32_t>(index)}; }
inline Block output(size_t index) { return {Buf::output, static_cast<uint32_t>(index)}; }
inline Block scratch(size_t index) { return {Buf::scratch, static_cast<uint32_t>(index)}; }

/// A Move with its peers spelt out. Arrivals must be named in ascending rank where src is present: src is then folded in at its
/// rank's place.
struct Draft {
  std::span<const Peer> in;
  Block src;
  Block dst;
  std::span<const Peer> out;
  uint32_t n_blocks = 1;
  uint8_t flags = 0;
};
inline std::span<const Peer> only(const Peer& peer) { return {&peer, 1}; }

/// Where a rank stands, and the Program that it fills. Lanes are named by index and made on first use.
class Builder {
 public:
  Builder(const CollSpec& spec, const Channel& channel, int rank, size_t blocks, size_t scratch_blocks = 0);

  int ranks() const { return spec_.ranks; }
  int rank() const { return program_.rank; }
  /// Position of `rank` in the ring.
  int position(int rank) const;
  /// Rank at `position` of the ring, taken modulo the number of ranks.
  int at(int position) const;
  /// All ranks but this one, in ascending order.
  std::vector<Peer> others() const;

  void add(size_t lane, const Draft& draft);
  /// The Program, its table of peers in the order of lanes and Moves whatever the order in which they were added.
  Program take();

 private:
  const CollSpec& spec_;
  const Channel& channel_;
  Program program_;
};

/// The ranks of each node, in the order of the ring; the nodes as the ring meets them.
std::vector<std::vector<int>> nodes_of(const Channel& channel);

/// The Program of a single rank, for any collective: input becomes output.
Program alone(const CollSpec& spec, const Channel& channel);

/// The first index of `list` in `table`; appended where it is not there yet. An empty list is at 0.
uint32_t intern_peers(std::vector<Peer>& table, std::span<const Peer> list);

}  // namespace ronde
