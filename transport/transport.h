// The transport interface: how one rank reaches another. A transport is one folder and one line in registry.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/abort.h"
#include "base/bell.h"
#include "base/clock.h"
#include "base/result.h"
#include "transport/arena.h"
#include "transport/death.h"
#include "transport/fabric.h"
#include "transport/process.h"

namespace ronde {

namespace net {
class Net;
class Station;
}  // namespace net

/// What every rank tells the others first.
struct PeerInfo {
  Id process;   ///< identity of its process
  uint64_t host;  ///< identity of its host: see host_identity
  int32_t pid;  ///< as the rank itself sees it
  ArenaShape shape;
  uint8_t shm_disabled;
  uint8_t p2p_disabled;
  uint8_t vm_readv;  ///< 1: may be used
  char host_name[61];  ///< for texts; decides nothing
};

/// What every rank tells the others second: where its arena is to be had.
struct PeerAddress {
  Id arena;
  Id listener;  ///< name of the process's abstract socket; zero where it has none
  Id secret;    ///< proves to that socket that the caller is of this communicator
};

/// Limits of all waits while a Fabric is made.
struct WaitLimit {
  Deadline deadline = Deadline::never();
  const AbortWord* abort = nullptr;
};

/// One rank's way to one peer. The steps are taken in order, each by all ranks before the next begins: connect, map, start.
class PeerEnd {
 public:
  virtual ~PeerEnd() = default;
  /// Adds to `address`, of this rank, what peers need to connect.
  virtual Result<> describe_self(PeerAddress*) { return {}; }
  virtual Result<> connect(const PeerAddress&, const WaitLimit&) { return {}; }
  virtual Result<> map(const PeerAddress& peer, const WaitLimit&) = 0;
  /// Everything works: from now on the death of the peer is told to the watch.
  virtual void start() {}

  /// Valid after map().
  virtual Arena& arena() const = 0;
  virtual Bell* bells() const = 0;

  virtual bool lend(const void* data, size_t bytes, Loan* loan) = 0;
  virtual const std::byte* reach(const Loan& loan, size_t bytes) = 0;
  virtual Result<> fetch(const Loan& loan, void* to, size_t bytes) = 0;
  virtual bool alive() const = 0;
  /// Whether the peer reads loans at the address itself, so that it must have stopped before the memory goes.
  virtual bool reads_in_place() const = 0;
  virtual std::string describe() const = 0;

  // What ends with a network between them do beside this.
  /// The name of the way, where it says more than the transport's: "NET/Socket".
  virtual std::string_view route() const { return ""; }
  /// The FIFO `link` to the peer has been made.
  virtual Result<> opened(int /*link*/) { return {}; }
  /// Wakes who executes the peer, after a change that it may wait for.
  virtual void ring();
  /// Nothing that was lent to the peer is read after this.
  virtual void cut() noexcept {}
};

/// What a PeerEnd is made from; the PeerInfos outlive it.
struct PeerRequest {
  std::shared_ptr<Process> process;
  std::shared_ptr<DeathWatch> watch;
  int rank = 0;
  int peer = 0;
  const PeerInfo* mine = nullptr;
  const PeerInfo* theirs = nullptr;
  std::shared_ptr<net::Station> station;  ///< null where no rank needs a network
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string_view name() const = 0;
  /// Why `mine` cannot reach `theirs` this way, as far as can be known before trying; empty where it can. Both ends find the
  /// same.
  virtual std::string refusal(int rank, const PeerInfo& mine, int peer, const PeerInfo& theirs) const = 0;
  virtual Result<std::unique_ptr<PeerEnd>> open(const PeerRequest& request) const = 0;
};

/// Equal for ranks that are on one host and may share memory.
bool same_host(const PeerInfo& a, const PeerInfo& b);

/// All transports, best first.
std::span<const Transport* const> transports();

}  // namespace ronde
