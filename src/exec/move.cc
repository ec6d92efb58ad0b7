// One piece of one Move: fetch the operands, fold them, keep and send the result.
#include <algorithm>
#include <cstring>
#include <fmt/core.h>
#include <utility>

#include "base/thread_object.h"
#include "exec/work.h"

namespace ronde {
namespace {

constexpr size_t kFetchChunk = 64 * 1024;       // staging of one operand that cannot be read in place
constexpr size_t kFetchBudget = 1024 * 1024;    // staging of all of them

/// One operand of a fold.
struct Operand {
  const std::byte* data = nullptr;  ///< nullptr: must be fetched
  Port* port = nullptr;             ///< arrivals only
  Slot* slot = nullptr;             ///< loans only
};

/// Storage that grows to what the largest Move of this thread needs and is kept.
struct Staging {
  std::vector<Operand> operands;
  std::vector<const void*> sources;
  std::vector<std::byte> bytes;
};
Staging& staging() { return ThreadObject<Staging>::of_this_thread(); }

/// What the fold has to do beside copying.
struct Fold {
  ReduceFn fn = nullptr;
  Scale scale;
  bool identity = true;  ///< with one operand a plain copy will do
};

Error gave_up(const Port& port) {
  return fail(Code::remote_error, fmt::format("rank {} took back the data it had lent: its communicator has failed", port.rank),
              Scope::communicator);
}

/// The next slot of `port`, after checking that the other end is in the same call.
Result<Slot*> arrival(const Work& work, const Port& port) {
  Slot& slot = port.in.slot_of(port.in_next);
  const Call& mine = work.call;
  if (slot.fingerprint == work.fingerprint && slot.sequence == mine.sequence) return &slot;
  const int32_t root = mine.message() ? work.seat->rank() : slot.root;
  const uint64_t theirs = slot.coll_type_op | static_cast<uint64_t>(static_cast<uint32_t>(root)) << 32;
  std::string text = fmt::format("{} number {} does not fit: rank {} called {} and rank {} called {}",
                                 mine.message() ? "message" : "collective", mine.sequence, work.seat->rank(), describe_call(mine), port.rank,
                                 describe_call(theirs, slot.count));
  if (slot.sequence != mine.sequence) text += fmt::format(" (its number {})", slot.sequence);
  if (((slot.coll_type_op ^ mine.packed()) & 0xffffffu) == 0 && slot.count == mine.count && root == mine.root) {  // all but the algorithm
    text += ", and they chose different algorithms, channels or slices: set the same variables on all ranks; a tuner plugin has to answer the same on all";
  }
  return fail(Code::invalid_usage, text + "; all ranks must issue the same calls in the same order", Scope::communicator);
}

Fold fold_of(const Work& work, const Move& move, int operands, int src_index) {
  Fold fold;
  if (!has_reduction(work.call.coll)) return fold;
  const auto& row = work.seat->table().fn[static_cast<int>(work.call.type)];
  ReduceOp op = work.call.op;
  if (op == ReduceOp::avg && (move.flags & kMoveFinal) != 0) {
    fold.scale.divisor = work.scale.divisor;
    fold.identity = fold.scale.divisor == 1;
  } else if (op == ReduceOp::avg) {
    op = ReduceOp::sum;  // partial sums; the Final Move divides
  } else if (op == ReduceOp::premul_sum) {
    fold.scale.factor = work.scale.factor;
    if (move.src == Buf::input) fold.scale.pre_index = src_index;
    fold.identity = fold.scale.pre_index < 0;
  }
  fold.fn = row[static_cast<int>(op)];
  fold.identity = fold.identity && operands == 1;
  return fold;
}

/// One chunk of a fold: its place in the operands, its length, and where what must be fetched goes.
struct Chunk {
  size_t at = 0, bytes = 0;
  std::byte* to = nullptr;
  std::byte* stage = nullptr;   ///< nullptr: the one operand is fetched right into place
  size_t stride = 0;            ///< of the stage, from one fetched operand to the next
};

/// Folds a chunk under the reader's marks; `marked` counts the operands whose mark was set.
Result<> fold_chunk(Work& work, const Chunk& chunk, const Fold& fold, size_t* marked) {
  Staging& s = staging();
  std::byte* stage = chunk.stage;
  for (size_t i = 0; i < s.operands.size(); ++i) {
    const Operand& o = s.operands[i];
    if (o.slot != nullptr && !begin_reading(o.port->in, *o.slot)) return gave_up(*o.port);
    *marked = i + 1;
    if (o.data != nullptr) {
      s.sources[i] = o.data + chunk.at;
      continue;
    }
    std::byte* const into = stage != nullptr ? std::exchange(stage, stage + chunk.stride) : chunk.to;
    RONDE_TRY(work.seat->fabric().fetch(o.port->rank, Loan{o.slot->address + chunk.at, o.slot->region}, into, chunk.bytes));
    s.sources[i] = into;
  }
  if (!fold.identity) {
    fold.fn(chunk.to, s.sources.data(), static_cast<int>(s.operands.size()), chunk.bytes / size_of(work.call.type), fold.scale);
  } else if (s.sources[0] != chunk.to) {
    memcpy(chunk.to, s.sources[0], chunk.bytes);
  }
  return {};
}

/// Takes back the marks of a chunk. The port of a loan that was revoked meanwhile, so that nothing read of it counts.
const Port* end_chunk(size_t marked) {
  const Port* revoked = nullptr;
  for (size_t i = 0; i < marked; ++i) {
    const Operand& o = staging().operands[i];
    if (o.slot != nullptr && !end_reading(o.port->in, *o.slot)) revoked = o.port;
  }
  return revoked;
}

/// Folds (or copies) the operands into `to`, reading what is lent chunk by chunk under the reader's mark.
Result<> fold_into(Work& work, std::byte* to, size_t bytes, const Fold& fold) {
  Staging& s = staging();
  size_t fetched = 0, lent = 0;
  for (const Operand& o : s.operands) {
    fetched += o.data == nullptr;
    lent += o.slot != nullptr;
  }
  size_t step = lent == 0 ? bytes : kLoanChunk;
  const bool staged = fetched != 0 && !(fold.identity && fetched == 1);  // else one copy by the kernel, right into place
  if (staged) {
    step = std::max<size_t>(4096, std::min(kFetchChunk, kFetchBudget / fetched / 64 * 64));
    if (s.bytes.size() < fetched * step) s.bytes.resize(fetched * step);
  }
  s.sources.resize(s.operands.size());
  for (size_t at = 0; at < bytes; at += step) {
    size_t marked = 0;
    const Chunk chunk{at, std::min(step, bytes - at), to + at, staged ? s.bytes.data() : nullptr, step};
    const Result<> folded = fold_chunk(work, chunk, fold, &marked);
    const Port* const revoked = end_chunk(marked);
    if (revoked != nullptr) return gave_up(*revoked);
    RONDE_TRY(folded);
  }
  return {};
}

void publish_slot(Work& work, Port& port, SlotKind kind, size_t bytes, const Loan& loan) {
  Slot& slot = port.out.slot_of(port.out_next);
  slot.kind = kind;
  slot.bytes = bytes;
  slot.address = loan.address;
  slot.region = loan.region;
  slot.coll_type_op = static_cast<uint32_t>(work.call.packed());
  slot.fingerprint = work.fingerprint;
  slot.sequence = work.call.sequence;
  slot.count = work.call.count;
  slot.root = work.call.root;
  ++port.out_next;
  if (kind == SlotKind::loan) port.lent_end = port.out_next;
  port.out.header->tail.store(port.out_next, std::memory_order_seq_cst);  // publishes the slot; first half of the Bell's rule
  work.seat->fabric().ring(port.rank);
}

void release_slot(Work& work, Port& port) {
  ++port.in_next;
  port.in.header->head.store(port.in_next, std::memory_order_seq_cst);  // gives the slot and its loan back; first half of the Bell's rule
  work.seat->fabric().ring(port.rank);
}

/// Collects the operands in the order of the fold. Returns their number's position of src, or -1.
Result<int> collect(Work& work, const Part& part, const Move& move, const std::byte* src, size_t bytes) {
  Staging& s = staging();
  s.operands.clear();
  int src_index = -1;
  for (uint32_t i = 0; i <= move.in_count; ++i) {
    if (src != nullptr && i == std::min<uint32_t>(move.src_at, move.in_count)) {
      src_index = static_cast<int>(s.operands.size());
      s.operands.push_back({src, nullptr, nullptr});
    }
    if (i == move.in_count) break;
    Port& port = *part.bound->ports[move.in_first + i];
    RONDE_TRY(Slot * slot, arrival(work, port));
    if (slot->bytes != bytes) {
      return fail(Code::internal_error, fmt::format("rank {} sent a slot of {} bytes where {} were expected in {}", port.rank, slot->bytes, bytes,
                                                    describe_call(work.call)), Scope::communicator);
    }
    if (slot->kind == SlotKind::bytes) {
      s.operands.push_back({port.in.data_of(port.in_next), &port, nullptr});
    } else {
      s.operands.push_back({work.seat->fabric().reach(port.rank, Loan{slot->address, slot->region}, bytes), &port, slot});
    }
  }
  return src_index;
}

/// Bytes of this piece: by the local block where there is one, else as the first arrival says (a Move that only passes on).
size_t piece_bytes(const Part& part, const Lane& lane, const Move& move) {
  if (move.src == Buf::none && move.dst == Buf::none) {
    if (move.in_count == 0) return 0;
    const Port& port = *part.bound->ports[move.in_first];
    return port.in.slot_of(port.in_next).bytes;
  }
  const uint64_t block = (move.src != Buf::none ? move.src_block : move.dst_block) + lane.piece;
  if (part.slicing.merged) return part.table.length(block, move.n_blocks);
  const size_t length = part.table.length(block);
  const size_t at = lane.slice * part.slicing.slice;
  return at >= length ? 0 : std::min(part.slicing.slice, length - at);
}

/// Sends `bytes` at `data` to every output: lent where allowed, copied otherwise. `ready_slot` is the output whose slot holds the data already.
void send_all(Work& work, const Part& part, const Move& move, const std::byte* data, size_t bytes, bool lendable, const Port* ready_slot) {
  Seat& seat = *work.seat;
  for (uint32_t i = 0; i < move.out_count; ++i) {
    Port& port = *part.bound->ports[move.out_first + i];
    Loan loan;
    if (lendable && bytes != 0 && bytes >= seat.limits().lend_threshold && seat.fabric().lend(port.rank, data, bytes, &loan)) {
      publish_slot(work, port, SlotKind::loan, bytes, loan);
      continue;
    }
    if (&port != ready_slot && bytes != 0) memcpy(port.out.data_of(port.out_next), data, bytes);
    publish_slot(work, port, SlotKind::bytes, bytes, {});
  }
}

}  // namespace

Result<> execute(Work& work, Part& part, const Lane& lane, const Move& move) {
  const size_t bytes = piece_bytes(part, lane, move);
  const size_t at = part.slicing.merged ? 0 : lane.slice * part.slicing.slice;
  std::byte* const src = move.src == Buf::none ? nullptr : part.table.at(move.src, move.src_block + lane.piece) + at;
  std::byte* const dst = move.dst == Buf::none ? nullptr : part.table.at(move.dst, move.dst_block + lane.piece) + at;
  RONDE_TRY(const int src_index, collect(work, part, move, src, bytes));
  const int operands = static_cast<int>(staging().operands.size());
  const Fold fold = fold_of(work, move, operands, src_index);
  const bool lendable = work.may_lend && (move.flags & kMoveNoLend) == 0;

  if (operands == 1 && fold.identity && dst == nullptr && src != nullptr) {
    send_all(work, part, move, src, bytes, lendable, nullptr);  // nothing to compute: straight from the block
    return {};
  }
  // The first output's slot serves as the accumulator where the result is not kept.
  Port* const first_out = move.out_count != 0 ? part.bound->ports[move.out_first] : nullptr;
  std::byte* const to = dst != nullptr ? dst : first_out != nullptr ? first_out->out.data_of(first_out->out_next) : nullptr;
  if (to != nullptr && bytes != 0) RONDE_TRY(fold_into(work, to, bytes, fold));
  for (uint32_t i = 0; i < move.in_count; ++i) release_slot(work, *part.bound->ports[move.in_first + i]);
  send_all(work, part, move, to, bytes, lendable && dst != nullptr, dst == nullptr ? first_out : nullptr);
  return {};
}

}  // namespace ronde
