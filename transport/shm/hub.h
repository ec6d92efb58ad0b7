// The hub: the links of this process to others on its host, shared by all communicators. It has a listener and a monitor while
// any link is used.
#pragma once

#include <condition_variable>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "transport/arena.h"
#include "transport/bells.h"
#include "transport/death.h"
#include "transport/monitor.h"
#include "transport/process.h"
#include "transport/region.h"
#include "transport/shm/link.h"
#include "transport/transport.h"

namespace ronde::shm {

using LinkPtr = std::shared_ptr<Link>;

/// Who wants to know of a peer's end.
struct Watcher {
  LinkPtr link;
  int rank = 0;
  std::shared_ptr<Arena> arena;  ///< the peer's: says whether it left in order
  std::shared_ptr<DeathWatch> watch;
  bool told = false;
};

class Hub {
 public:
  explicit Hub(Process& process) : process_(process) {}

  /// Holds the link to `peer`, which may not be connected yet. The first one starts listener and monitor, the last unpin ends
  /// them.
  Result<LinkPtr> pin(const Id& peer);
  void unpin(const LinkPtr& link);
  /// What peers need to connect; valid while a link is pinned.
  Id listener() const { return listener_name_; }
  Id secret() const { return secret_; }

  /// Connects `link`, if this is the process that dials: the one with the lower identity does. A link whose other end was closed
  /// by the peer's last user is replaced by a new one. To be called only when both have pinned.
  Result<> connect(LinkPtr& link, const PeerAddress& peer, const WaitLimit& patience);
  /// Waits until `link` is connected. To be called only when the one who dials has done so: his death cannot be noticed before.
  Result<> await_caller(Link& link, const WaitLimit& patience);
  Result<Bell*> map_bells(Link& link, const WaitLimit& patience);
  Result<std::shared_ptr<Arena>> map_arena(Link& link, const Id& name, const ArenaShape& shape, const WaitLimit& patience);
  /// Closes the descriptor of `arena`, which the monitor has sent to peers.
  void seal(Arena& arena);
  /// Finds out whether the peer can read this process's memory.
  Result<> prove(Link& link, const WaitLimit& patience);

  /// From now on the watch is told, by the monitor, when the process at the link's other end has ended and the arena is not
  /// marked as closed.
  void add_watcher(std::shared_ptr<Watcher> watcher);
  void remove_watcher(const std::shared_ptr<Watcher>& watcher);

  /// Offers `region` to the peer unless that was done; true once the peer has mapped it.
  bool offer(Link& link, const std::shared_ptr<Region>& region);

 private:
  /// An arena of a peer that was asked for.
  struct Wanted {
    ArenaShape shape;
    bool asked = false;
    bool done = false;
    std::string trouble;
    std::shared_ptr<Arena> arena;
  };
  struct Caller {
    BootFd socket;
    uint64_t since = now_ns();
  };
  struct Closing {
    std::shared_ptr<Monitor> monitor;
    std::list<std::shared_ptr<Caller>> callers;
  };
  using Lock = std::unique_lock<std::mutex>;

  Result<> open_locked();
  Result<> listen_locked();
  void stop_listening_locked();
  Closing close_locked();
  Result<> dial(Lock& lock, const LinkPtr& link, const PeerAddress& peer, const WaitLimit& patience);
  Result<> attach_locked(const LinkPtr& link, BootFd socket);
  void retire_locked(const LinkPtr& link);
  template <class Condition>
  Result<> await(Lock& lock, const Link& link, const WaitLimit& patience, Condition done);
  void post_locked(Link& link, const Message& message, int fd = -1, std::shared_ptr<const void> keep = nullptr);
  Monitor::Ready guarded(std::function<void(Hub&)> body);

  // The monitor's thread.
  void accept_callers();
  void refuse_callers_locked(int error);
  bool forget_silent_locked();
  void hear_caller_locked(const std::shared_ptr<Caller>& caller);
  bool adopt_locked(const Message& hello, BootFd socket);
  void read_link(const LinkPtr& link);
  void handle_locked(Link& link, Incoming& incoming);
  void take_arena_locked(Link& link, Incoming& incoming);
  void take_bells_locked(Link& link, Incoming& incoming);
  void answer_probe_locked(Link& link, const Message& message);
  void take_proof_locked(Link& link, const Message& message);
  void take_region_locked(Link& link, Incoming& incoming);
  bool after_events();
  bool flush_locked();
  void tell_deaths();

  Process& process_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  int pins_ = 0;
  std::shared_ptr<Monitor> monitor_;
  std::optional<BellHold> bells_;
  BootFd listener_;
  bool refusing_ = false;  // the listener is there, but no caller can be let in
  Id listener_name_{};
  Id secret_{};
  std::map<Id, LinkPtr> links_;
  std::list<std::shared_ptr<Caller>> callers_;  // who has not said who he is yet; the oldest first
  std::map<Id, std::weak_ptr<Wanted>> wanted_;
  std::vector<std::shared_ptr<Watcher>> watchers_;
};

}  // namespace ronde::shm
