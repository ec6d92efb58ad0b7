#include "exec/runner.h"

#include <algorithm>
#include <fmt/core.h>
#include <new>
#include <sched.h>

#include "base/clock.h"
#include "base/thread_object.h"
#include "exec/watch.h"

namespace ronde {
namespace {

constexpr uint64_t kLook = 100 * kMillisecond;  // how long a thread sleeps before it looks at why
constexpr uint32_t kBusyPasses = 64;            // between two looks at what does not move while something else does

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
  if (Runner* const there = ThreadObject<Runner>::get()) return there;
  RONDE_TRY(BellLease bell, lease_bell());
  return ThreadObject<Runner>::keep(std::make_unique<Runner>(std::move(bell)));
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
  seats_.push_back(seat.shared_from_this());
  // Whoever changed a counter before it saw this index has rung the Bell of an earlier thread; all counters are looked at after this store.
  seat.control().bell.store(bell_.index(), std::memory_order_seq_cst);
}

void Runner::release_all() {
  std::vector<std::shared_ptr<Seat>> left;
  for (std::shared_ptr<Seat>& seat : std::exchange(seats_, {})) {
    seat->fabric().rest(false);
    unblock(*seat);
    const std::lock_guard lock(seat->mutex);
    seat->owner = nullptr;
    if (seat->active.empty() && seat->incoming.empty()) continue;
    seat->waiting_for_pool = true;
    left.push_back(seat);
  }
  for (const auto& seat : left) give_to_pool(*seat);
}

void Runner::release_idle() {
  std::erase_if(seats_, [](const std::shared_ptr<Seat>& seat) {
    if (!seat->active.empty()) return false;
    seat->fabric().rest(false);
    unblock(*seat);
    const std::lock_guard lock(seat->mutex);
    if (!seat->incoming.empty()) return false;
    seat->owner = nullptr;
    return true;
  });
}

/// A failed Seat is let go of at once, even while others keep this thread: its Abort waits for that.
void Runner::release_failed() {
  if (std::any_of(seats_.begin(), seats_.end(), [](const auto& seat) { return seat->failed(); })) release_idle();
}

/// Staging is the one memory that a call may still need once it runs.
Result<Step> advance_or_fail(Work& work, Part& part, Lane& lane) {
  try {
    return advance(work, part, lane);
  } catch (const std::bad_alloc&) {
    return fail(Code::system_error, fmt::format("allocating memory for {} failed", describe_call(work.call)), Scope::communicator);
  }
}

/// Moves one Work on. True if it moved; a finished one has lane.done everywhere.
bool Runner::run_work(Seat& seat, Work& work) {
  if (!work.started) {
    work.started = true;
    work.progress_ns = 0;
    seat.publish(work);
  }
  bool moved = false;
  for (Part& part : work.parts) {
    for (Lane& lane : part.lanes) {
      if (lane.done) continue;
      Result<Step> step = advance_or_fail(work, part, lane);
      if (!step.ok()) {
        // What a peer found comes before its consequences, such as loans that it takes back.
        if (take_mail(seat)) return true;
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
  for (Work* work : works) seat.end_work(*work, error);
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
    if (!seat.has_turn(work)) {
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
    seat.end_work(work, std::nullopt);
    moved = true;
    i = 0;  // another one's turn may have come
  }
  return moved;
}

bool Runner::pass() {
  bool moved = false;
  for (const std::shared_ptr<Seat>& seat : seats_) {
    if (!pass_seat(*seat)) continue;
    moved = true;
    seat->still_since = 0;
    seat->hopeless = -1;
    unblock(*seat);
  }
  return moved;
}

/// Looks at why, for each Seat that has not moved for a while.
void Runner::look(bool blocking) {
  const uint64_t now = now_ns();
  for (const auto& seat : seats_) {
    if (seat->still_since == 0) seat->still_since = now;
    if (now - seat->still_since < kLook) continue;
    seat->still_since = now;
    look_why(*seat, blocking);
  }
}

/// A pass that answers whoever has asked for a full look, where nothing moved.
bool Runner::answering_pass() {
  for (const auto& seat : seats_) note_probe(*seat);
  if (pass()) return true;
  for (const auto& seat : seats_) answer_probe(*seat);
  return false;
}

/// Called after a pass in which nothing moved: spins, yields, then sleeps and looks at why.
void Runner::wait(bool blocking, const std::function<bool()>& ready) {
  for (const auto& seat : seats_) {
    if (!seat->fabric().help()) continue;
    if (++busy_passes_ % kBusyPasses == 0 && !answering_pass()) look(blocking);  // what moved may have been others' alone
    return;
  }
  ++idle_looks_;
  int spin = 100, yields = 10;
  for (const auto& seat : seats_) {
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
  if (ready() || answering_pass()) {
    cancel(bell());
    idle_looks_ = 0;
    return;
  }
  for (const auto& seat : seats_) seat->fabric().rest(true);
  look(blocking);  // before the sleep: so that between two looks there is a pass
  sleep(bell(), prepared, kLook);
}

void Runner::run_until(const std::function<bool()>& done, bool blocking) {
  idle_looks_ = 0;
  while (true) {
    const bool moved = pass();
    if (done()) break;
    release_failed();
    if (!moved) {
      wait(blocking, done);
      continue;
    }
    idle_looks_ = 0;
    if (seats_.size() > 1 && ++busy_passes_ % kBusyPasses == 0) look(blocking);
  }
  release_all();
}

void Runner::run_pool(const std::function<bool(Runner&)>& adopt) {
  const auto news = [&] { return adopt(*this); };
  while (true) {
    adopt(*this);
    const bool moved = pass();
    release_failed();
    if (moved) {
      idle_looks_ = 0;
      if (seats_.size() > 1 && ++busy_passes_ % kBusyPasses == 0) look(false);
      continue;
    }
    release_idle();
    if (!seats_.empty()) {
      wait(false, news);
      continue;
    }
    const uint32_t prepared = prepare(bell());
    if (news()) {
      cancel(bell());
      continue;
    }
    sleep(bell(), prepared, 3600 * kSecond);
  }
}

void wait_until_free(Seat& seat) {
  while (true) {
    std::vector<Work*> works;
    {
      const std::lock_guard lock(seat.mutex);
      if (seat.owner != nullptr) {
        ring(seat.owner->bell());
      } else if (seat.incoming.empty() && seat.active.empty()) {
        return;
      } else if (seat.failed()) {  // `active` is the owner's, but there is none
        works = std::exchange(seat.active, {});
        works.insert(works.end(), seat.incoming.begin(), seat.incoming.end());
        seat.incoming.clear();
      }
    }
    const Error error = seat.error();
    for (Work* work : works) seat.end_work(*work, error);
    if (works.empty()) sched_yield();  // the owner lets go at its next pass
  }
}

}  // namespace ronde
