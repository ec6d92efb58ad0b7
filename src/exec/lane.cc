// Lanes: which Move is next, and whether it can go on.
#include <fmt/core.h>

#include "exec/work.h"

namespace ronde {
namespace {

/// Pieces that a lane moves before the other lanes have their turn. While a lane that receives stays ahead, its peer refills the slots, and
/// the lanes that send would stand still until all has been received: two ranks that exchange data would work one after the other.
constexpr uint32_t kTurn = 2;

/// True when the next slot from `port` is there.
bool has_input(Seat& seat, Port& port) {
  if (!port.in) {
    port.in = seat.fabric().reader(port.rank, port.link);
    if (!port.in) return false;
  }
  return port.in.header->tail.load(std::memory_order_seq_cst) != port.in_next;  // pairs with the writer's store in publish_slot
}

/// True when a slot to `port` is free.
bool has_room(const Port& port) {
  return port.out_next - port.out.header->head.load(std::memory_order_seq_cst) < port.out.slots;  // pairs with release_slot
}

bool ready(Work& work, const Part& part, Lane& lane, const Move& move) {
  const std::vector<Port*>& ports = part.bound->ports;
  for (uint32_t i = 0; i < move.in_count; ++i) {
    Port& port = *ports[move.in_first + i];
    if (!has_input(*work.seat, port)) {
      lane.waits_for = &port;
      return false;
    }
  }
  for (uint32_t i = 0; i < move.out_count; ++i) {
    const Port& port = *ports[move.out_first + i];
    if (!has_room(port)) {
      lane.waits_for = &port;
      return false;
    }
  }
  return true;
}

/// True when everything that this lane has lent has come back.
bool loans_back(const Part& part, Lane& lane) {
  for (const Move& move : *lane.moves) {
    for (uint32_t i = 0; i < move.out_count; ++i) {
      const Port& port = *part.bound->ports[move.out_first + i];
      if (port.out.header->head.load(std::memory_order_seq_cst) < port.lent_end) {  // pairs with release_slot
        lane.waits_for = &port;
        return false;
      }
    }
  }
  return true;
}

void next_piece(const Part& part, Lane& lane, const Move& move) {
  const uint32_t pieces = part.slicing.merged ? 1 : move.n_blocks;
  if (++lane.piece < pieces) return;
  lane.piece = 0;
  if (++lane.move < lane.moves->size()) return;
  lane.move = 0;
  ++lane.slice;
}

}  // namespace

Result<Step> advance(Work& work, Part& part, Lane& lane) {
  bool moved = false;
  for (uint32_t pieces = 0; lane.slice < part.slicing.slices && !lane.moves->empty(); ++pieces) {
    if (pieces == kTurn) return Step::moved;
    if (work.seat->failed()) return Step::moved;  // a rank alone never waits: without this its Abort would
    const Move& move = (*lane.moves)[lane.move];
    if (!ready(work, part, lane, move)) return moved ? Step::moved : Step::blocked;
    RONDE_TRY(execute(work, part, lane, move));
    next_piece(part, lane, move);
    moved = true;
  }
  if (!loans_back(part, lane)) return moved ? Step::moved : Step::blocked;
  lane.done = true;
  lane.waits_for = nullptr;
  return Step::done;
}

}  // namespace ronde
