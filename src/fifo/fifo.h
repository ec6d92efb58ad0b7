// FifoView: the bounded one-writer one-reader queue of slots where executors and transports meet.
//
// The queue lies in memory that both ends reach, zeroed when it is made. The writer owns `tail`, the reader owns `head`; both only grow, and slot
// number k is slot[k % slots]. Counters are stored and loaded with seq_cst: that publishes the slot (release/acquire) and is at the same time the
// first half of the Bell's rule (bell.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/bell.h"

namespace ronde {

enum class SlotKind : uint32_t { bytes = 1, loan = 2 };

/// What one slot says. Written by the writer before tail passes it, except `reading`.
struct alignas(64) Slot {
  std::atomic<uint32_t> reading;  ///< reader's mark: set while it reads what was lent (pairs with FifoHeader::revoked, both seq_cst)
  SlotKind kind;
  uint64_t bytes;        ///< of this slot's data
  uint64_t address;      ///< loan: where the data is: an address in the writer's process, or an offset in `region`
  uint32_t region;       ///< loan: 0 for an address, otherwise a region that the writer's process has shared
  uint32_t coll_type_op; ///< what the call is: coll | type << 8 | op << 16 (checked against the reader's call)
  uint64_t fingerprint;  ///< hash of everything on which both ends must agree
  uint64_t sequence;     ///< number of the call: of the communicator's collectives, or of the pair's messages
  uint64_t count;        ///< elements of the whole call, for the error text
  int32_t root;          ///< of the call, for the error text
};
static_assert(sizeof(Slot) == 64);

/// Head of the queue in shared memory; slots follow, each with its data right behind it, so that a slot and what it carries are one
/// piece of memory (and one message of a network).
struct FifoHeader {
  alignas(64) std::atomic<uint64_t> tail;     ///< slots published; writer
  std::atomic<uint32_t> revoked;              ///< 1: nothing lent may be read any more; writer
  alignas(64) std::atomic<uint64_t> head;     ///< slots given back; reader
};
static_assert(sizeof(FifoHeader) == 128);

/// Bytes of a queue with its slots and their data.
constexpr size_t fifo_bytes(uint32_t slots, uint32_t slot_capacity) {
  return sizeof(FifoHeader) + slots * (sizeof(Slot) + size_t{slot_capacity});
}

/// One end's view of a queue. A null view (header == nullptr) is a connection that the writer has not made yet.
struct FifoView {
  FifoHeader* header = nullptr;
  uint32_t slots = 0;
  uint32_t slot_capacity = 0;

  explicit operator bool() const { return header != nullptr; }
  Slot& slot_of(uint64_t number) const {
    return *reinterpret_cast<Slot*>(reinterpret_cast<std::byte*>(header + 1) + (number % slots) * (sizeof(Slot) + size_t{slot_capacity}));
  }
  std::byte* data_of(uint64_t number) const { return reinterpret_cast<std::byte*>(&slot_of(number) + 1); }
};

/// View of the queue at `at`: fifo_bytes(slots, slot_capacity) bytes, 64-byte aligned; zeros are an empty queue. The capacity is a
/// multiple of 64.
inline FifoView view_fifo(std::byte* at, uint32_t slots, uint32_t slot_capacity) {
  return FifoView{reinterpret_cast<FifoHeader*>(at), slots, slot_capacity};
}

/// Reader's side of a loan: at most this much is read between two looks at `revoked`, which bounds how long an owner waits.
inline constexpr size_t kLoanChunk = 256 * 1024;

/// Marks the slot as being read. False: the loan was revoked, nothing may be read (the mark is already taken back).
inline bool begin_reading(const FifoView& fifo, Slot& slot) {
  slot.reading.store(1, std::memory_order_seq_cst);  // pairs with the load in loan_readers: one of the two sees the other
  if (fifo.header->revoked.load(std::memory_order_seq_cst) == 0) return true;
  slot.reading.store(0, std::memory_order_release);  // pairs with the acquire side of the load in loan_readers
  return false;
}
/// Takes the mark back. False: the loan was revoked meanwhile; what was read must not be used.
inline bool end_reading(const FifoView& fifo, Slot& slot) {
  slot.reading.store(0, std::memory_order_seq_cst);  // as in begin_reading; also orders the reads before it
  return fifo.header->revoked.load(std::memory_order_seq_cst) == 0;
}
/// Owner's side: after revoking, true while a reader is still inside a chunk.
inline bool loan_readers(const FifoView& fifo) {
  for (uint32_t i = 0; i < fifo.slots; ++i) {
    if (fifo.slot_of(i).reading.load(std::memory_order_seq_cst) != 0) return true;  // pairs with begin_reading/end_reading
  }
  return false;
}

}  // namespace ronde
