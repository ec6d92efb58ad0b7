// The fabric: one rank's view of the memory and the peers of a communicator. Transports stand behind it; executors see FifoViews.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/abort.h"
#include "base/bell.h"
#include "base/config.h"
#include "base/result.h"
#include "boot/bootstrap.h"
#include "fifo/control.h"
#include "fifo/fifo.h"

namespace ronde {

/// A Bell of this process, in memory that every process which shares a communicator with it has mapped. Given back when
/// destroyed.
class BellLease {
 public:
  BellLease() = default;
  BellLease(Bell* bell, uint32_t index) : bell_(bell), index_(index) {}
  BellLease(BellLease&& other) noexcept;
  BellLease& operator=(BellLease&& other) noexcept;
  ~BellLease();
  Bell& bell() const { return *bell_; }
  uint32_t index() const { return index_; }

 private:
  Bell* bell_ = nullptr;
  uint32_t index_ = 0;
};

/// Takes a Bell for the calling thread. system_error when all (4096) are in use.
Result<BellLease> lease_bell();

/// How lent data is named in a slot.
struct Loan {
  uint64_t address = 0;
  uint32_t region = 0;
};

/// What a Fabric is made from. The pointers outlive it.
struct FabricRequest {
  Bootstrap* bootstrap = nullptr;
  std::shared_ptr<const Config> config;
  AbortWord* abort = nullptr;
  /// Links per ordered pair of ranks: FIFO number 0..links-1.
  int links = 1;
  /// So many links in a row serve one channel: they use one network device, and channels take turns over the devices.
  int links_per_channel = 1;
  /// Called by the monitor, from its thread, once for each peer whose process ended without closing; `how` is a sentence.
  std::function<void(int rank, const std::string& how)> on_death;
  /// Called from any thread when a network connection with `rank` is lost for good though its process may live.
  std::function<void(int rank, Error)> on_error;
  /// Tests: treat every rank as if it were a process of its own, so that threads exercise what processes use.
  bool pretend_processes = false;
};

class Fabric {
 public:
  /// Collective over the bootstrap's ranks. Maps every peer that can be reached; a peer that no transport reaches is an error
  /// naming both ranks, each transport and why it refused.
  static Result<std::unique_ptr<Fabric>> make(FabricRequest request);
  virtual ~Fabric() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Slots of every FIFO of the communicator, and bytes of each: functions of the configuration, size() and the links alone,
  /// equal on all ranks.
  virtual uint32_t slots() const = 0;
  virtual uint32_t slot_capacity() const = 0;

  /// Shared memory of `rank` (this one included): control_bytes(size()) bytes, zero at the start. Valid as long as the Fabric,
  /// whatever happens to the peer.
  virtual ControlBlock& control(int rank) = 0;
  /// Rings the Bell that `rank` has published in its control block.
  virtual void ring(int rank) = 0;
  /// Asks ranks of other hosts what their control blocks say; control() shows the answers as they come. To be called now and then while `peers` are waited
  /// for.
  virtual void refresh(std::span<const int> peers) = 0;
  /// Asks those of `peers` that are on other hosts the same, and passes on the probes that control() of them says. The question's number.
  virtual uint64_t ask(std::span<const int> peers) = 0;
  /// Whether those of `peers` that are on other hosts have answered question `since` or a later one, and, if neither they nor this rank have moved since,
  /// nothing is under way between them any more: all has come, or what has not finds no room until its reader moves.
  virtual bool settled(std::span<const int> peers, uint64_t since) = 0;
  /// Tells of connections that have been lost, for ranks that wait for nothing. Cheap where there are none.
  virtual void report_lost() = 0;
  /// Devices of the network between hosts that this rank's connections take turns over; 0 where there is no network.
  virtual int network_devices() const = 0;
  /// Whether this host's cores move what the network between hosts carries (net::Net::by_cpu); false where there is none.
  virtual bool network_by_cpu() const = 0;
  /// Does the work of the network's proxies once, in place of their threads. True if anything moved. Cheap where there is no network.
  virtual bool help() = 0;
  /// The calling thread helps no more for now: the proxies go on, at once where it `sleeps` or something is left to do.
  virtual void rest(bool sleeps) = 0;

  /// Writer's end to `peer` (may be this rank). Made on first use, by this rank alone: its pages are committed here, so that it
  /// is an error and never a SIGBUS when memory is short. Slots and capacity come from the configuration, less for many ranks (an
  /// idle connection takes at most 256 KiB). Thread-safe for different (peer, link).
  virtual Result<FifoView> writer(int peer, int link) = 0;
  /// Reader's end from `peer`; a null view until the writer has made it. Cheap: one load. Thread-safe.
  virtual FifoView reader(int peer, int link) = 0;

  /// Whether `peer` can read this process's memory [data, data+bytes) by itself, and how the slot names it.
  virtual bool lend(int peer, const void* data, size_t bytes, Loan* loan) = 0;
  /// Where this process sees what `peer` has lent; nullptr where it must be copied instead.
  virtual const std::byte* reach(int peer, const Loan& loan, size_t bytes) = 0;
  /// Copies what `peer` has lent into `to`. Counts only if the peer was alive and the loan valid after the copy.
  virtual Result<> fetch(int peer, const Loan& loan, void* to, size_t bytes) = 0;

  /// Revokes what this rank has lent, for good, and waits until no live reader is inside a chunk of it: at most 10 s for threads
  /// of this process, whose reads in place must end before the memory goes, half a second for other processes, which discard what
  /// they read. After it the lent memory may be unmapped.
  virtual void revoke_loans() noexcept = 0;

  /// False once the peer's process has ended.
  virtual bool alive(int peer) const = 0;
  /// "self", "inproc", "shm" or "NET/<name of the network>".
  virtual std::string_view transport(int peer) const = 0;
  /// For the log and explain: how this rank's data reaches `peer`, and why not better.
  virtual std::string describe(int peer) const = 0;
  /// "rank 3 (pid 1234)" for error texts.
  virtual std::string peer_name(int peer) const = 0;

  /// Tells the peers that this rank leaves in order; after it the end of this process is no death to them. When it returns on_death runs no more.
  virtual void close() noexcept = 0;
};

/// Memory for ncclMemAlloc: zeroed, shareable (a memfd of its own), page aligned; huge pages advised. Freed by free_shareable.
Result<void*> alloc_shareable(size_t bytes);
/// invalid_argument for a pointer that alloc_shareable did not return or that was freed. Peers that still have it mapped keep
/// their mapping until their last Fabric with this process ends.
Result<> free_shareable(void* data);

}  // namespace ronde
