#include "exec/seat.h"

#include <algorithm>
#include <cstring>
#include <fmt/core.h>

#include "base/log.h"
#include "exec/work.h"

namespace ronde {

Seat::Seat(Fabric& fabric, AbortWord& abort, const ReduceTable& table, const SeatLimits& limits)
    : fabric_(fabric), abort_(abort), table_(table), limits_(limits) {}

Result<Port*> Seat::port(int peer, int link, bool writes) {
  const std::lock_guard lock(ports_mutex_);
  if (ports_.size() <= static_cast<size_t>(link)) ports_.resize(link + 1);
  auto& row = ports_[link];
  if (row.empty()) row.resize(ranks());
  std::unique_ptr<Port>& port = row[peer];
  if (port == nullptr) {
    port = std::make_unique<Port>();
    port->rank = peer;
    port->link = link;
  }
  if (writes && !port->out) {
    RONDE_TRY(port->out, fabric_.writer(peer, link));
  }
  return port.get();
}

bool Seat::sends_at_once(const Work& work) {
  const std::lock_guard lock(mutex);
  if (owner != nullptr || !incoming.empty() || !active.empty()) return false;
  const Part& part = work.parts.front();
  const Port& port = *part.bound->ports.front();
  const uint64_t used = port.out_next - port.out.header->head.load(std::memory_order_seq_cst);  // the reader only frees more
  return used + part.slicing.slices <= port.out.slots;
}

bool Seat::has_sent_to(int peer, int link) {
  const std::lock_guard lock(ports_mutex_);
  if (ports_.size() <= static_cast<size_t>(link) || ports_[link].empty() || ports_[link][peer] == nullptr) return false;
  const Port& port = *ports_[link][peer];
  return port.out && port.out_next != port.out.header->head.load(std::memory_order_seq_cst);
}

void Seat::publish(uint64_t sequence, uint64_t packed, uint64_t count, uint64_t fingerprint) {
  ControlBlock& block = control();
  CallRecord& record = block.history[sequence % kCallHistory];
  // A sequence lock without fences: every store is seq_cst or ordered by one, and a reader that sees the same even version before and
  // after has read one record.
  record.version.store(2 * sequence + 1, std::memory_order_seq_cst);
  record.what.store(packed, std::memory_order_seq_cst);
  record.count.store(count, std::memory_order_seq_cst);
  record.fingerprint.store(fingerprint, std::memory_order_seq_cst);
  record.version.store(2 * sequence + 2, std::memory_order_seq_cst);
  block.issued.store(sequence + 1, std::memory_order_seq_cst);  // pairs with the watch's load: the record is complete
}

void Seat::fail(Error error) {
  error.scope = std::max(error.scope, Scope::communicator);
  {
    const std::lock_guard lock(error_mutex_);
    if (!error_.has_value()) {
      log_error(error);
      error_ = std::move(error);
    }
  }
  abort_.raise();
  fabric_.ring(rank());
}

Error Seat::error() const {
  const std::lock_guard lock(error_mutex_);
  if (error_.has_value()) return *error_;
  return ronde::fail(Code::remote_error, "the communicator was aborted", Scope::communicator);
}

void Seat::fail_all(const Error& error) {
  for (int peer = 0; peer < ranks(); ++peer) {
    if (peer == rank()) continue;
    ControlBlock& block = fabric_.control(peer);
    uint32_t empty = 0;
    // acq_rel claims the box for one writer; the release below pairs with the acquire in take_mail.
    if (!block.mail.compare_exchange_strong(empty, 1, std::memory_order_acq_rel)) continue;
    block.mail_code = static_cast<uint32_t>(error.code);
    const size_t n = std::min(error.what.size(), sizeof block.mail_text - 1);
    memcpy(block.mail_text, error.what.data(), n);
    block.mail_text[n] = '\0';
    block.mail.store(2, std::memory_order_seq_cst);
    fabric_.ring(peer);
  }
  fail(error);
}

}  // namespace ronde
