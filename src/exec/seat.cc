#include "exec/seat.h"

#include <algorithm>
#include <cstring>
#include <fmt/core.h>

#include "base/log.h"
#include "exec/work.h"

namespace ronde {

Seat::Seat(std::unique_ptr<Fabric> fabric, const ReduceTable& table, const SeatLimits& limits)
    : fabric_(std::move(fabric)), table_(table), limits_(limits) {}

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
  if (writes && !port->out && !queues_elsewhere_) {
    RONDE_TRY(port->out, fabric_->writer(peer, link));
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

Port* Seat::existing_port(int peer, int link) {
  const std::lock_guard lock(ports_mutex_);
  if (ports_.size() <= static_cast<size_t>(link) || ports_[link].empty()) return nullptr;
  return ports_[link][peer].get();
}

uint64_t Seat::sends_issued(int peer, int link) {
  const Port* const port = existing_port(peer, link);
  return port == nullptr ? 0 : port->send_issued;
}

uint64_t Seat::receives_issued(int peer, int link) {
  const Port* const port = existing_port(peer, link);
  return port == nullptr ? 0 : port->recv_issued;
}

uint64_t& Seat::turn_of(const Work& work) {
  if (!work.call.message()) return collective_turn;
  Port& port = *work.parts.front().bound->ports.front();
  return work.call.coll == Coll::send ? port.send_turn : port.recv_turn;
}

bool Seat::has_turn(const Work& work) { return work.call.sequence == turn_of(work); }

void Seat::end_work(Work& work, std::optional<Error> error) {
  if (!error.has_value()) ++turn_of(work);  // on a failed Seat nobody looks at turns
  const std::shared_ptr<Seat> self = work.seat;  // the Work may be the last to hold it
  work.completion->finish(std::move(error));
  if (works_.fetch_sub(1, std::memory_order_seq_cst) == 1) ring_idle_bell();
}

void Seat::ring_idle_bell() {
  Bell* const bell = idle_bell_.load(std::memory_order_seq_cst);
  if (bell != nullptr) ring(*bell);
}

void Seat::publish(const Work& work) {
  ControlBlock& block = control();
  const Call& call = work.call;
  block.last_what.store(call.packed(), std::memory_order_relaxed);  // for texts alone, as the next
  block.last_count.store(call.count, std::memory_order_relaxed);
  if (call.message()) return;
  const uint64_t sequence = call.sequence;
  CallRecord& record = block.history[sequence % kCallHistory];
  // A sequence lock without fences: every store is seq_cst or ordered by one, and a reader that sees the same even version before and
  // after has read one record.
  record.version.store(2 * sequence + 1, std::memory_order_seq_cst);
  record.what.store(call.packed(), std::memory_order_seq_cst);
  record.count.store(call.count, std::memory_order_seq_cst);
  record.fingerprint.store(work.fingerprint, std::memory_order_seq_cst);
  record.version.store(2 * sequence + 2, std::memory_order_seq_cst);
  block.issued.store(sequence + 1, std::memory_order_seq_cst);  // pairs with the watch's load: the record is complete
}

void Seat::fail(Error error, bool asked) {
  error.scope = std::max(error.scope, Scope::communicator);
  {
    const std::lock_guard lock(error_mutex_);
    if (!error_.has_value()) {
      if (asked) {
        RONDE_INFO(init, "rank {}: {}", rank(), error.what);
      } else {
        log_error(error);
      }
      error_ = std::move(error);
    }
  }
  abort_.raise();
  fabric_->ring(rank());
  ring_idle_bell();
}

Error Seat::error() const {
  const std::lock_guard lock(error_mutex_);
  if (error_.has_value()) return *error_;
  return ronde::fail(Code::remote_error, "the communicator was aborted", Scope::communicator);
}

void Seat::fail_all(const Error& error) {
  for (int peer = 0; peer < ranks(); ++peer) {
    if (peer == rank()) continue;
    leave_mail(fabric_->control(peer), static_cast<uint32_t>(error.code), error.what);
    fabric_->ring(peer);
  }
  fail(error);
}

}  // namespace ronde
