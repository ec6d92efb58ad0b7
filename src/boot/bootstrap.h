// The bootstrap: how ranks that share nothing but a unique id find each other and exchange blobs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/abort.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/result.h"

namespace ronde {

/// What ncclUniqueId holds: opaque to programs, 128 bytes.
struct UniqueId {
  std::array<std::byte, 128> bytes{};
  bool operator==(const UniqueId&) const = default;
};

/// Makes an id that serves one communicator: a secret, this process's number (which names its abstract unix socket), and the
/// best-ranked TCP addresses of a listener that this process keeps open until the communicator is made (or the process ends).
/// With RONDE_COMM_ID set the id only carries that address, the same wherever it is made, and rank 0 of the init hosts the root;
/// it has no secret then.
Result<UniqueId> make_unique_id(const Config& config);

class Bootstrap;

/// The rest of a split or shrink: exchanges with the other ranks and gives the child. Each in any thread, several of one parent at
/// once; the parent must outlive it.
using ChildJob = std::function<Result<std::unique_ptr<Bootstrap>>()>;

/// Channel between all ranks of one communicator. One user at a time. All calls are collective in the sense of their names, take
/// O(log n) rounds, obey the abort word given at creation and the time limit (RONDE_INIT_TIMEOUT for each call, or set_deadline),
/// and on failure name the ranks that are missing or dead. A collective that fails on one rank fails on all. After an all-gather
/// that has failed the bootstrap is of no more use, except to shrink; a split that has failed leaves it as it was. After fork()
/// the child gets invalid_usage.
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// 128 random bits made by the root, equal on all ranks: names this communicator everywhere.
  virtual std::array<uint64_t, 2> token() const = 0;
  /// `all` is size() equal parts; this rank's part is filled in by the caller, the others on return.
  virtual Result<> all_gather(std::span<std::byte> all) = 0;
  /// The parts of all ranks, by rank; each of any size, 0 included.
  virtual Result<std::vector<std::vector<std::byte>>> all_gather_parts(std::vector<std::byte> mine) = 0;
  /// A bootstrap of the ranks with the same color (>= 0), ordered by key, then by rank; nullptr for color < 0. Collective over
  /// all ranks; uses what is known of all ranks, no new unique id. The splits of a rank are matched with those of the others in
  /// the order of these calls; the jobs may run in any order. The job obeys `abort` (may be null) beside the parent's word and has
  /// RONDE_INIT_TIMEOUT; the child obeys `abort` alone. `stopped`, asked while the job waits, ends it too.
  virtual ChildJob split(int color, int key, const AbortWord* abort, std::function<bool()> stopped) = 0;
  ChildJob split(int color, int key, const AbortWord* abort) { return split(color, key, abort, nullptr); }
  /// A bootstrap of the listed ranks (ascending, caller among them), made by those alone: the others may be dead. Their order is
  /// kept. Works after this bootstrap has failed, but not when its abort word is raised. Shrinks to one list are matched in the
  /// order of these calls. `abort` and the time are as in split.
  virtual ChildJob shrink(std::span<const int> survivors, const AbortWord* abort) = 0;
  /// The point in time that ends the all-gathers that follow; nullopt: again RONDE_INIT_TIMEOUT for each.
  virtual void set_deadline(std::optional<Deadline> deadline) = 0;

  using OnPost = std::function<void(int from, std::span<const std::byte> message)>;
  using OnGone = std::function<void(int peer, const Error& why)>;
  /// Messages beside the exchanges; replaces the handlers of before, null for both sets none. What came while there were none is
  /// kept, and delivered in order to the next. `on_gone` (may be null): the process of `peer`, a rank that this one has posted to
  /// or been posted to by, died or cannot be reached any more (noticed within half a minute); `why` is a remote_error that names
  /// it. Told once per peer, after all that came from it; not where the peer's Bootstrap was destroyed in order.
  ///
  /// Handlers run one at a time for one rank, in the order in which news came, on a thread of the bootstrap, of another rank of
  /// this process inside its post(), or of the caller of listen_posts; inside this rank's own post() only where it posts to
  /// itself. They must be quick and wait for nothing; they may post, and set other handlers. No handler of before runs when this
  /// returns, unless it is called from inside one. Any thread.
  virtual void listen_posts(OnPost on_post, OnGone on_gone) = 0;
  /// Copies `message` and sends it to the `on_post` of `peer` (may be this rank). Any thread, at any time in the life of the
  /// Bootstrap, during exchanges, after one has failed and after the abort word is raised too. Never blocks: waits inside the
  /// bootstrap while a connection is being made (RONDE_INIT_TIMEOUT at most, then `on_gone`). Messages to one peer keep their
  /// order. Success says nothing about arrival: what a peer that has left or died has not taken is lost. invalid_argument for a
  /// rank outside or more than 1 GiB, invalid_usage after fork().
  virtual Result<> post(int peer, std::span<const std::byte> message) = 0;

  /// "in process", "unix socket", "TCP over eth0", or several of them, for the log.
  virtual std::string describe() const = 0;

  Result<> barrier();
};

/// What the ranks of a new communicator must agree on before anything else is exchanged.
struct JoinRequest {
  int rank = 0;
  int ranks = 1;
  std::vector<UniqueId> ids;  ///< one, or several of ncclCommInitRankScalable
};

/// Joins: returns when all `ranks` have come. Errors, on every rank that has come: two claimants of one rank, ranks that disagree
/// about the number of ranks or ids (invalid_usage), another library version or protocol (invalid_usage), not all came in time
/// (remote_error; names the missing).
Result<std::unique_ptr<Bootstrap>> join(const JoinRequest& request, std::shared_ptr<const Config> config, const AbortWord* abort);

}  // namespace ronde
