#include "exec/runner.h"

#include <algorithm>
#include <fmt/core.h>
#include <sched.h>

#include "base/clock.h"
#include "exec/watch.h"

namespace ronde {
namespace {

constexpr uint64_t kLook = 100 * kMillisecond;  // how long a thread sleeps before it looks at why

/// Tells the core that this is a spin loop, where there is a way to.
void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

void Completion::finish(std::optional<Error> error) {
  if (error.has_value()) {
    const std::lock_guard lock(mutex_);
    if (!error_.has_value()) error_ = std::move(error);
  }
  // After the count has reached 0 the Completion may be gone: take what is needed before.
  Bell* const bell = waiter;
  const auto last_act = on_done;
  if (remaining_.fetch_sub(1, std::memory_order_seq_cst) != 1) return;  // pairs with done()
  if (last_act) last_act();
  if (bell != nullptr) ring(*bell);
}

Result<> Completion::result() const {
  const std::lock_guard lock(mutex_);
  if (error_.has_value()) return *error_;
  return {};
}

Result<Runner*> Runner::of_this_thread() {
  thread_local std::unique_ptr<Runner> runner;
  if (runner == nullptr) {
    RONDE_TRY(BellLease bell, lease_bell());
    runner = std::make_unique<Runner>(std::move(bell));
  }
  return runner.get();
}

void submit(Seat& seat, std::vector<Work*> works, Runner* self) {
  Bell* bell = nullptr;
  bool to_pool = false;
  {
    const std::lock_guard lock(seat.mutex);
    seat.incoming.insert(seat.incoming.end(), works.begin(), works.end());
    seat.has_incoming.store(true, std::memory_order_seq_cst);  // pairs with the owner's load in pass_seat
    if (seat.owner == nullptr && self == nullptr && !seat.waiting_for_pool) {
      seat.waiting_for_pool = true;
      to_pool = true;
    } else if (seat.owner != nullptr && seat.owner != self) {
      bell = &seat.owner->bell();
    }
  }
  if (bell != nullptr) ring(*bell);
  if (to_pool) give_to_pool(seat);
  if (self != nullptr) self->claim(seat);
}

bool Runner::claim(Seat& seat) {
  {
    const std::lock_guard lock(seat.mutex);
    if (seat.owner == this) return true;
    if (seat.owner != nullptr) return false;
    seat.owner = this;
    seat.waiting_for_pool = false;
  }
  own(seat);
  return true;
}

void Runner::claim_waiting(Seat& seat) {
  {
    const std::lock_guard lock(seat.mutex);
    if (!seat.waiting_for_pool || seat.owner != nullptr) return;
    seat.owner = this;
    seat.waiting_for_pool = false;
  }
  own(seat);
}

void Runner::own(Seat& seat) {
  seats_.push_back(&seat);
  // Whoever changed a counter before it saw this index has rung the Bell of an earlier thread; all counters are looked at after this store.
  seat.control().bell.store(bell_.index(), std::memory_order_seq_cst);
}

bool Runner::release(Seat& seat) {
  unblock(seat);
  const std::lock_guard lock(seat.mutex);
  seat.owner = nullptr;
  if (seat.active.empty() && seat.incoming.empty()) return false;
  seat.waiting_for_pool = true;
  return true;
}

void Runner::release_all() {
  std::vector<Seat*> left;
  for (Seat* seat : std::exchange(seats_, {})) {
    if (release(*seat)) left.push_back(seat);
  }
  for (Seat* seat : left) give_to_pool(*seat);
}

void Runner::release_idle() {
  std::erase_if(seats_, [this](Seat* seat) {
    if (!seat->active.empty()) return false;
    const std::lock_guard lock(seat->mutex);
    if (!seat->incoming.empty()) return false;
    seat->owner = nullptr;
    return true;
  });
}

bool Runner::turn_has_come(const Work& work) const {
  if (!work.call.message()) return work.call.sequence == work.seat->collective_turn;
  const Port& port = *work.parts.front().bound->ports.front();
  return work.call.sequence == (work.call.coll == Coll::send ? port.send_turn : port.recv_turn);
}

void Runner::end_work(Seat& seat, Work& work, std::optional<Error> error) {
  if (!work.call.message()) {
    ++seat.collective_turn;
  } else {
    Port& port = *work.parts.front().bound->ports.front();
    ++(work.call.coll == Coll::send ? port.send_turn : port.recv_turn);
  }
  if (work.on_end) work.on_end();
  work.completion->finish(std::move(error));
}

/// Moves one Work on. True if it moved; a finished one has lane.done everywhere.
bool Runner::run_work(Seat& seat, Work& work) {
  if (!work.started) {
    work.started = true;
    work.progress_ns = 0;
    if (!work.call.message()) seat.publish(work.call.sequence, work.call.packed(), work.call.count, work.fingerprint);
  }
  bool moved = false;
  for (Part& part : work.parts) {
    for (Lane& lane : part.lanes) {
      if (lane.done) continue;
      Result<Step> step = advance(work, part, lane);
      if (!step.ok()) {
        if (step.code() == Code::invalid_usage || step.code() == Code::internal_error) {
          seat.fail_all(step.error());
        } else {
          seat.fail(step.error());
        }
        return true;
      }
      moved |= *step != Step::blocked;
    }
  }
  if (moved) work.progress_ns = 0;
  return moved;
}

/// The communicator is broken: every Work ends with its error, and nothing that was lent is read after this.
void Runner::abandon(Seat& seat) {
  if (!seat.revoked) {
    seat.revoked = true;
    seat.fabric().revoke_loans();
  }
  const Error error = seat.error();
  std::vector<Work*> works = std::exchange(seat.active, {});
  for (Work* work : works) end_work(seat, *work, error);
}

bool Runner::pass_seat(Seat& seat) {
  if (seat.has_incoming.load(std::memory_order_seq_cst)) {  // pairs with submit()
    const std::lock_guard lock(seat.mutex);
    seat.active.insert(seat.active.end(), seat.incoming.begin(), seat.incoming.end());
    seat.incoming.clear();
    seat.has_incoming.store(false, std::memory_order_relaxed);
  }
  if (seat.failed()) {
    const bool had = !seat.active.empty() || !seat.revoked;
    abandon(seat);
    return had;
  }
  bool moved = false;
  for (size_t i = 0; i < seat.active.size();) {
    Work& work = *seat.active[i];
    if (!turn_has_come(work)) {
      ++i;
      continue;
    }
    moved |= run_work(seat, work);
    if (seat.failed()) return true;
    const bool done = std::all_of(work.parts.begin(), work.parts.end(), [](const Part& part) {
      return std::all_of(part.lanes.begin(), part.lanes.end(), [](const Lane& lane) { return lane.done; });
    });
    if (!done) {
      ++i;
      continue;
    }
    seat.active.erase(seat.active.begin() + static_cast<ptrdiff_t>(i));
    end_work(seat, work, std::nullopt);
    moved = true;
    i = 0;  // another one's turn may have come
  }
  return moved;
}

bool Runner::pass() {
  bool moved = false;
  for (size_t i = 0; i < seats_.size(); ++i) {
    if (pass_seat(*seats_[i])) {
      moved = true;
      unblock(*seats_[i]);
    }
  }
  return moved;
}

/// Called after a pass in which nothing moved: spins, yields, then sleeps and looks at why.
void Runner::wait(bool blocking, uint64_t* idle_since) {
  ++idle_looks_;
  int spin = 100, yields = 10;
  for (const Seat* seat : seats_) {
    spin = seat->limits().spin;
    yields = seat->limits().yields;
  }
  if (idle_looks_ <= spin) {
    relax();
    return;
  }
  if (idle_looks_ <= spin + yields) {
    sched_yield();
    return;
  }
  const uint32_t prepared = prepare(bell());
  for (Seat* seat : seats_) note_probe(*seat);
  if (pass()) {
    cancel(bell());
    idle_looks_ = 0;
    *idle_since = 0;
    return;
  }
  for (Seat* seat : seats_) answer_probe(*seat);
  const bool rung = sleep(bell(), prepared, kLook);
  if (*idle_since == 0) *idle_since = now_ns();
  if (rung && now_ns() - *idle_since < kLook) return;
  *idle_since = now_ns();
  for (Seat* seat : seats_) look_why(*seat, blocking);
}

void Runner::run_until(const Completion& completion, bool blocking) {
  uint64_t idle_since = 0;
  idle_looks_ = 0;
  while (true) {
    const bool moved = pass();
    if (completion.done()) break;
    if (moved) {
      idle_looks_ = 0;
      idle_since = 0;
      continue;
    }
    wait(blocking, &idle_since);
  }
  release_all();
}

void Runner::run_pool(const std::function<bool()>& stop, const std::function<void(Runner&)>& adopt) {
  uint64_t idle_since = 0;
  while (!stop()) {
    adopt(*this);
    if (pass()) {
      idle_looks_ = 0;
      idle_since = 0;
      continue;
    }
    release_idle();
    if (!seats_.empty()) {
      wait(false, &idle_since);
      continue;
    }
    const uint32_t prepared = prepare(bell());
    adopt(*this);
    if (!seats_.empty() || stop()) {
      cancel(bell());
      continue;
    }
    sleep(bell(), prepared, 3600 * kSecond);
  }
}

}  // namespace ronde
