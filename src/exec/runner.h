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
  /// As claim, for a pool thread that was told of the Seat a while ago: only if it still waits for one. (It may have ended since; then nothing but its
  /// mutex may be touched.)
  void claim_waiting(Seat& seat);
  /// Runs what it owns until `completion` is done; then lets go of every Seat (those with work left go to the pool). `blocking`: the caller can do
  /// nothing else meanwhile, so that a closed cycle of waits is a deadlock.
  void run_until(const Completion& completion, bool blocking);
  /// A pool thread's life: runs until `stop` says so, asleep while there is nothing to do. `adopt` takes new Seats from the pool.
  void run_pool(const std::function<bool()>& stop, const std::function<void(Runner&)>& adopt);

 private:
  void own(Seat& seat);
  bool pass();
  bool pass_seat(Seat& seat);
  bool turn_has_come(const Work& work) const;
  bool run_work(Seat& seat, Work& work);
  void end_work(Seat& seat, Work& work, std::optional<Error> error);
  void abandon(Seat& seat);
  void wait(bool blocking, uint64_t* idle_since);
  bool has_nothing() const;
  void release_idle();
  void release_all();
  bool release(Seat& seat);

  BellLease bell_;
  std::vector<Seat*> seats_;
  int idle_looks_ = 0;
};

/// Queues works on their Seat. `self` (may be nullptr) claims the Seat if it is free; a Seat without owner goes to the pool.
void submit(Seat& seat, std::vector<Work*> works, Runner* self);

/// Hands a Seat without owner to the threads that run host streams (started when first needed; see pool.cc).
void give_to_pool(Seat& seat);

/// Returns when no thread owns the Seat and nothing is queued on it: after its last Completion, or after it has failed.
void wait_until_free(Seat& seat);

}  // namespace ronde
