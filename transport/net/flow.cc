#include "transport/net/flow.h"

#include <fmt/core.h>

namespace ronde::net {
namespace {

/// All memory in which the messages of a FIFO lie.
std::span<std::byte> memory_of(const FifoView& fifo) {
  return {reinterpret_cast<std::byte*>(fifo.header), fifo_bytes(fifo.slots, fifo.slot_capacity)};
}

std::span<std::byte> message_of(const FifoView& fifo, uint64_t number, size_t data) {
  return {reinterpret_cast<std::byte*>(&fifo.slot_of(number)), sizeof(Slot) + data};
}

}  // namespace

std::vector<int> SendFlow::descriptors() const { return sender_ == nullptr ? std::vector<int>{} : sender_->descriptors(); }

void SendFlow::signalled() {
  if (sender_ != nullptr) sender_->signalled();
}

Result<bool> SendFlow::post() {
  bool moved = false;
  while (posted_ != fifo_.header->tail.load(std::memory_order_seq_cst)) {  // pairs with the writer's store
    Slot& slot = fifo_.slot_of(posted_);
    const bool lent = slot.kind == SlotKind::loan;
    std::span<const std::byte> data(fifo_.data_of(posted_), slot.bytes);
    if (lent) {
      data = {reinterpret_cast<const std::byte*>(slot.address), slot.bytes};  // the writer is of this process
      // The mark stays until the message is done; who revokes the loan cuts the flow, which takes the mark back.
      if (!begin_reading(fifo_, slot)) return moved;
    }
    const std::span<const std::byte> head(reinterpret_cast<const std::byte*>(&slot), sizeof(Slot));
    RONDE_TRY(const bool accepted, sender_->post(head, data));
    if (!accepted) {
      if (lent) end_reading(fifo_, slot);
      return moved;
    }
    ++posted_;
    moved = true;
  }
  return moved;
}

Result<bool> SendFlow::pump() {
  if (sender_ == nullptr) {
    RONDE_TRY(sender_, open_());
    open_ = nullptr;
  }
  if (!ready_) {
    RONDE_TRY(const bool up, sender_->ready());
    if (!up) return false;
    RONDE_TRY(sender_->use(memory_of(fifo_)));
    ready_ = true;
  }
  RONDE_TRY(const bool moved, post());
  const uint64_t before = done_;
  Result<bool> done = true;
  while (done_ != posted_) {
    done = sender_->done();
    if (!done.ok() || !*done) break;
    Slot& slot = fifo_.slot_of(done_);
    if (slot.kind == SlotKind::loan) end_reading(fifo_, slot);
    ++done_;
  }
  if (done_ != before) {
    fifo_.header->head.store(done_, std::memory_order_seq_cst);  // gives slots and loans back; first half of the Bell's rule
    events_.moved();
  }
  if (!done.ok()) return done;
  return moved || done_ != before;
}

void SendFlow::cut() {
  sender_.reset();
  for (; done_ != posted_; ++done_) {
    Slot& slot = fifo_.slot_of(done_);
    if (slot.kind == SlotKind::loan) end_reading(fifo_, slot);
  }
}

std::vector<int> RecvFlow::descriptors() const {
  if (receiver_ != nullptr) return receiver_->descriptors();
  return listener_ == nullptr ? std::vector<int>{} : listener_->descriptors();
}

void RecvFlow::signalled() {
  if (receiver_ != nullptr) receiver_->signalled();
}

Result<bool> RecvFlow::set_up() {
  if (receiver_ == nullptr) {
    RONDE_TRY(receiver_, listener_->accept());
    if (receiver_ == nullptr) return false;
    listener_.reset();
  }
  RONDE_TRY(const bool ready, receiver_->ready());
  if (ready) RONDE_TRY(receiver_->use(memory_of(fifo_)));
  return ready;
}

// A slot has come whole. What it says of itself must fit what has come: the executor believes it.
Result<bool> RecvFlow::take() {
  RONDE_TRY(const std::optional<size_t> bytes, receiver_->done());
  if (!bytes.has_value()) return false;
  Slot& slot = fifo_.slot_of(done_);
  if (*bytes < sizeof(Slot) || slot.bytes != *bytes - sizeof(Slot)) {
    return fail(Code::internal_error,
                fmt::format("{} bytes came over {} which are no slot of this communicator; use one build of this library on all hosts", *bytes,
                            receiver_->describe()),
                Scope::communicator);
  }
  slot.kind = SlotKind::bytes;  // what the writer lent has come as bytes
  slot.reading.store(0, std::memory_order_relaxed);  // published by tail
  ++done_;
  return true;
}

Result<bool> RecvFlow::pump() {
  if (!ready_) {
    RONDE_TRY(ready_, set_up());
    if (!ready_) return false;
  }
  const uint64_t before = done_;
  while (true) {
    const uint64_t published = done_;
    while (posted_ < fifo_.header->head.load(std::memory_order_seq_cst) + fifo_.slots) {  // pairs with the reader's store
      RONDE_TRY(const bool posted, receiver_->post(message_of(fifo_, posted_, fifo_.slot_capacity)));
      if (!posted) break;
      ++posted_;
    }
    Result<bool> came = true;
    while (done_ != posted_ && came.ok() && *came) came = take();
    // What has come counts, though the connection ends behind it.
    if (done_ != published) {
      fifo_.header->tail.store(done_, std::memory_order_seq_cst);  // publishes the slots; first half of the Bell's rule
      events_.moved();
    }
    if (!came.ok()) return came;
    if (done_ == published) return done_ != before;
  }
}

}  // namespace ronde::net
