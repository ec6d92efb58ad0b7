// The parts of verify. All of them look at one slice: slices of a block are disjoint memory and every lane repeats its Moves
// alike for each, so that what holds within one slice holds for any number of them in flight (verify.cc says why, also for
// deadlock).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/verify.h"

namespace ronde::plan {

/// Sentences found so far; after some of them only their number is kept.
class Faults {
 public:
  void add(std::string sentence);
  bool any() const { return count_ > 0; }
  std::vector<std::string> take();

 private:
  std::vector<std::string> sentences_;
  size_t count_ = 0;
};

/// What verify looks at.
struct Subject {
  const CollSpec& spec;
  std::span<const Program> world;
  const VerifyOptions& options;
  uint32_t blocks() const { return world[0].blocks; }
  const Move& move(int rank, uint32_t lane, uint32_t move) const { return world[static_cast<size_t>(rank)].lanes[lane][move]; }
};

/// True where the user's input (output) buffer of `rank` holds `block`. A broadcast has input at the root alone, a reduce output
/// there.
bool has_input(const Subject& subject, int rank, uint32_t block);
bool has_output(const Subject& subject, int rank, uint32_t block);

/// Indices in range, operands present, peers valid, sizes within what can be proven. Nothing else may run where this finds
/// faults.
void check_shape(const Subject& subject, Faults& faults);

/// One direction between two ranks on one link.
struct Connection {
  int from = 0;
  int to = 0;
  uint32_t link = 0;
  int writer = -1;  ///< lane, numbered over the world; -1: none
  int reader = -1;
  uint32_t slots = 0;  ///< written in one slice
  uint32_t taken = 0;  ///< read in one slice
  uint32_t first = 0;  ///< of its slots in an array over all connections
};

struct Lane {
  int rank = 0;
  uint32_t index = 0;
};

/// The world's lanes and connections. `merged`: a Move uses one slot for all its blocks, else one for each.
struct Net {
  const Subject& subject;
  bool merged = false;
  std::vector<Lane> lanes;
  std::vector<Connection> connections;
  std::vector<std::vector<uint32_t>> out_of;  ///< [rank][peer index] -> connection
  std::vector<std::vector<uint32_t>> in_of;

  Net(const Subject& subject, bool merged);
  const std::vector<Move>& moves(uint32_t lane) const {
    return subject.world[static_cast<size_t>(lanes[lane].rank)].lanes[lanes[lane].index];
  }
  uint32_t events(const Move& move) const { return merged ? 1 : move.n_blocks; }
};
/// One lane per connection and direction, as many slots read as written.
void check_net(const Net& net, Faults& faults);

/// A Move done for one of its blocks (or for all, merged).
struct Event {
  const Move* move = nullptr;
  uint32_t lane = 0;
  uint32_t index = 0;     ///< of the Move in its lane
  uint32_t nth = 0;       ///< event of its lane, from 0
  uint32_t block = 0;     ///< offset from the Move's first block
  uint32_t width = 1;     ///< blocks
  uint32_t arrivals = 0;  ///< first in Trace::arrivals
  uint32_t values = 0;    ///< first of `width` values in any array over all values
};

/// All events of one slice in an order that the messages allow. An event's number is its place in it.
struct Trace {
  std::vector<Event> events;
  std::vector<uint32_t> arrivals;  ///< the event that wrote each slot that an event reads
  uint32_t values = 0;
};

/// Runs one slice with slots without number, checks that both ends mean the same by each slot; false where it cannot end.
bool record(const Net& net, Trace& trace, Faults& faults);
/// True where one slice ends with `slots` slots per connection.
bool ends_with(const Net& net, uint32_t slots);
/// The least slots with which a slice ends; record() must have succeeded.
int least_slots(const Net& net);

/// Where an operand of a Move lies: a number over all blocks of all buffers of all ranks; in place, input and output share it.
class Cells {
 public:
  explicit Cells(const Subject& subject);
  size_t of(int rank, Buf buf, uint32_t block) const;
  size_t count() const { return base_.back(); }
  /// "output block 3 of rank 1"
  std::string name(size_t cell) const;

 private:
  const Subject& subject_;
  std::vector<size_t> base_;  ///< per rank, and one past the end
};

/// What each output block holds at the end, and how it came about. `canonical` becomes false where a reduction is not.
void check_content(const Net& net, const Trace& trace, const Cells& cells, Faults& faults, bool& canonical);

/// That whatever touches a block that somebody writes is ordered by lanes and messages, lent blocks included.
void check_order(const Net& net, const Trace& trace, const Cells& cells, Faults& faults);

/// "rank 2 lane 0 move 3"
std::string place(int rank, uint32_t lane, uint32_t move);
std::string place(const Net& net, const Event& event);

}  // namespace ronde::plan
