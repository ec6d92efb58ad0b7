// A Seat: where one rank of one communicator is executed. It has the rank's ports, its queue of work, and its one fatal error.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/abort.h"
#include "base/result.h"
#include "fifo/fifo.h"
#include "kernels/cpu/reduce.h"
#include "transport/fabric.h"

namespace ronde {

class Runner;
struct Work;

/// Both directions of one link to one peer, as the executor keeps them between calls. Used by the Seat's owner only, except the *_issued numbers.
struct Port {
  int rank = 0;
  int link = 0;
  FifoView in, out;
  uint64_t in_next = 0;   ///< number of the next slot to read
  uint64_t out_next = 0;  ///< number of the next slot to write
  uint64_t lent_end = 0;  ///< all slots before it must come back before the lender's call may end
  uint64_t send_turn = 0, recv_turn = 0;      ///< messages: number that may run now
  uint64_t send_issued = 0, recv_issued = 0;  ///< messages: numbers given out (by the calling thread)
  std::atomic<uint64_t> eager_bytes{0};       ///< copied and not yet sent; an account, ordered by nothing
};

/// How the Seat waits and what it does about it.
struct SeatLimits {
  int spin = 100;             ///< looks before the thread yields
  int yields = 10;            ///< yields before it sleeps
  double timeout = 0;         ///< seconds without progress until a call fails; 0: never
  double warn_after = 60;     ///< seconds without progress until a call reports itself; 0: never
  size_t lend_threshold = 16384;
};

/// A set of ranks that seem to wait for each other, and what they must still say for it to be proven.
struct Suspicion {
  std::vector<int> members;
  std::vector<uint64_t> epochs;   ///< by member, when the suspicion arose
  std::vector<uint64_t> asked;    ///< by member: an answer of at least this comes after a full look of its own
};

class Seat : public std::enable_shared_from_this<Seat> {
 public:
  Seat(std::unique_ptr<Fabric> fabric, const ReduceTable& table, const SeatLimits& limits);

  Fabric& fabric() { return *fabric_; }
  int rank() const { return fabric_->rank(); }
  int ranks() const { return fabric_->size(); }
  const ReduceTable& table() const { return table_; }
  const SeatLimits& limits() const { return limits_; }
  /// Before the first Work only.
  void set_patience(int spin, int yields) {
    limits_.spin = spin;
    limits_.yields = yields;
  }
  ControlBlock& control() { return fabric_->control(rank()); }

  /// The rank's queues lie in device memory: ports are names here, and no FIFO is made. Before the first port.
  void leave_queues() { queues_elsewhere_ = true; }
  /// The port of a link; made when first asked for. The writer's end is made too where `writes`.
  Result<Port*> port(int peer, int link, bool writes);

  /// True when a Send is sure to end without its Recv: nothing else runs here and the slots that it needs are free.
  bool sends_at_once(const Work& work);
  /// Numbers given to messages to and from `peer` so far. By the calling thread.
  uint64_t sends_issued(int peer, int link);
  uint64_t receives_issued(int peer, int link);

  /// A call has got its number; from here on it ends by end_work() alone.
  void begin_work() { works_.fetch_add(1, std::memory_order_seq_cst); }
  /// The Work has ended, well or not: counts, and completes it, after which it may be gone. From the Seat's owner; on a failed Seat from any thread.
  void end_work(Work& work, std::optional<Error> error);
  /// The number that may run now among calls of the Work's kind: collectives, or messages of its pair and direction.
  uint64_t& turn_of(const Work& work);
  bool has_turn(const Work& work);
  /// Works begun and not ended, wherever they are.
  int works() const { return works_.load(std::memory_order_seq_cst); }
  /// Whom to wake when works() has come down to 0 or the Seat fails; nullptr: nobody any more.
  void tell_when_idle(Bell* bell) { idle_bell_.store(bell, std::memory_order_seq_cst); }

  /// Publishes that this rank begins the call. Before its first Move.
  void publish(const Work& work);

  /// The communicator is broken: the first error stays, every wait ends. From any thread. `asked`: by the program itself (Abort, Revoke), which is news to
  /// nobody.
  void fail(Error error, bool asked = false);
  bool failed() const { return abort_.raised(); }
  /// The error of fail(); a remote_error saying "aborted" where only the abort word was raised.
  Error error() const;
  /// Fails, and leaves the error in every other rank's mailbox, so that they all fail with it.
  void fail_all(const Error& error);

  // The queue. `mutex` guards incoming, owner, waiting_for_pool.
  std::mutex mutex;
  std::vector<Work*> incoming;
  std::atomic<bool> has_incoming{false};  ///< written under mutex; the owner looks without (release/acquire with push)
  Runner* owner = nullptr;
  bool waiting_for_pool = false;

  // Of the owner alone.
  std::vector<Work*> active;      ///< in the order of issue
  uint64_t collective_turn = 0;   ///< number of the collective that may run now
  uint64_t collectives_issued = 0;  ///< given out by the calling thread
  bool revoked = false;
  bool blocked = false;           ///< as published in the control block
  uint64_t still_since = 0;       ///< when the owner first found it not to move; 0: it moved, or nobody has looked
  int hopeless = -1;              ///< the peer that the last look found not to come any more; what it had sent may still have been on its way
  uint64_t probe_seen = 0;        ///< value of the control block's probe that is being answered
  uint64_t question = 0;          ///< to the awaited ranks, put after that probe
  bool settled = false;           ///< before the last full look nothing was on its way from them
  uint64_t returned = 0;          ///< slots that came back, as last published
  Suspicion suspicion;            ///< a cycle of waits that is being proven

 private:
  Port* existing_port(int peer, int link);
  void ring_idle_bell();

  std::unique_ptr<Fabric> fabric_;
  AbortWord abort_;  ///< raised by whatever ends the data path
  const ReduceTable& table_;
  SeatLimits limits_;
  std::vector<std::vector<std::unique_ptr<Port>>> ports_;  ///< by link, then rank
  std::mutex ports_mutex_;
  bool queues_elsewhere_ = false;
  std::atomic<int> works_{0};               ///< seq_cst, with idle_bell_: by the Bell's rule
  std::atomic<Bell*> idle_bell_{nullptr};   ///< its memory stays as long as this Fabric
  mutable std::mutex error_mutex_;
  std::optional<Error> error_;
};

}  // namespace ronde
