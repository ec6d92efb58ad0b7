// The Runner: a thread's cooperative loop over everything that it executes.
#pragma once

#include <functional>
#include <vector>

#include "exec/work.h"

namespace ronde {

/// One per executing thread. Owns Seats one at a time each: all Works of a Seat run in one Runner, so that a Seat's peers know one Bell.
class Runner {
 public:
  /// With a Bell of its own; system_error when there is none left.
  static Result<Runner*> of_this_thread();

  explicit Runner(BellLease bell) : bell_(std::move(bell)) {}
  Runner(const Runner&) = delete;

  Bell& bell() { return bell_.bell(); }

  /// Takes the Seat if nobody has it. True if this Runner owns it now (or did already).
  bool claim(Seat& seat);
  /// As claim, for a pool thread that was told of the Seat a while ago: only if it still waits for one.
  void claim_waiting(Seat& seat);
  /// Runs what it owns until `done` says so (by the Bell's rule: whoever changes its answer rings bell()); then lets go of every Seat (those with work
  /// left go to the pool). `blocking`: the caller can do nothing else meanwhile, so that a closed cycle of waits is a deadlock.
  void run_until(const std::function<bool()>& done, bool blocking);
  /// A pool thread's life: runs for ever, asleep while there is nothing to do. `adopt` takes new Seats from the pool, and says whether there were any.
  [[noreturn]] void run_pool(const std::function<bool(Runner&)>& adopt);

 private:
  void own(Seat& seat);
  bool pass();
  bool pass_seat(Seat& seat);
  bool run_work(Seat& seat, Work& work);
  void abandon(Seat& seat);
  void wait(bool blocking, const std::function<bool()>& ready);
  bool answering_pass();
  void look(bool blocking);
  void release_failed();
  void release_idle();
  void release_all();

  BellLease bell_;
  std::vector<std::shared_ptr<Seat>> seats_;
  int idle_looks_ = 0;
  uint32_t busy_passes_ = 0;
};

/// Queues works on their Seat. `self` (may be nullptr) claims the Seat if it is free; a Seat without owner goes to the pool.
void submit(Seat& seat, std::vector<Work*> works, Runner* self);

/// Hands a Seat without owner to the threads that run host streams (started when first needed; see pool.cc).
void give_to_pool(Seat& seat);

/// Returns when no thread owns the Seat and nothing is queued on it: after its last Completion, or after it has failed (then the calling thread ends
/// what nobody has taken).
void wait_until_free(Seat& seat);

}  // namespace ronde
