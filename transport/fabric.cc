#include "transport/fabric.h"

#include <sched.h>
#include <unistd.h>
#include <cstring>
#include <vector>

#include <fmt/core.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "transport/bells.h"
#include "transport/join.h"
#include "transport/net/station.h"
#include "transport/transport.h"

namespace ronde {
namespace {

class RankFabric final : public Fabric {
 public:
  RankFabric(Joined joined, BellHold bells) : joined_(std::move(joined)), bells_(std::move(bells)) {}
  ~RankFabric() override;

  int rank() const override { return joined_.rank; }
  int size() const override { return static_cast<int>(joined_.peers.size()); }
  uint32_t slots() const override { return joined_.arena->shape().slots; }
  uint32_t slot_capacity() const override { return joined_.arena->shape().slot_capacity; }

  ControlBlock& control(int rank) override { return end(rank).arena().control(); }
  void ring(int rank) override { end(rank).ring(); }
  void refresh(std::span<const int> peers) override {
    if (joined_.station != nullptr) joined_.station->refresh(peers);
  }
  uint64_t ask(std::span<const int> peers) override { return joined_.station == nullptr ? 0 : joined_.station->ask(peers); }
  bool settled(std::span<const int> peers, uint64_t since) override { return joined_.station == nullptr || joined_.station->settled(peers, since); }
  void report_lost() override {
    if (joined_.station != nullptr) joined_.station->report_lost();
  }
  int network_devices() const override { return joined_.station == nullptr ? 0 : joined_.station->devices(); }
  bool network_by_cpu() const override { return joined_.station != nullptr && joined_.station->net().by_cpu(); }
  bool help() override { return joined_.station != nullptr && joined_.station->help(); }
  void rest(bool sleeps) override {
    if (joined_.station != nullptr) joined_.station->rest(sleeps);
  }
  Result<FifoView> writer(int peer, int link) override;
  FifoView reader(int peer, int link) override { return joined_.arena->find_fifo(peer, link); }

  bool lend(int peer, const void* data, size_t bytes, Loan* loan) override { return end(peer).lend(data, bytes, loan); }
  const std::byte* reach(int peer, const Loan& loan, size_t bytes) override { return end(peer).reach(loan, bytes); }
  Result<> fetch(int peer, const Loan& loan, void* to, size_t bytes) override;
  void revoke_loans() noexcept override;

  bool alive(int peer) const override { return end(peer).alive(); }
  std::string_view transport(int peer) const override {
    return end(peer).route().empty() ? at(peer).transport->name() : end(peer).route();
  }
  std::string describe(int peer) const override { return fmt::format("{}: {}", transport(peer), end(peer).describe()); }
  std::string peer_name(int peer) const override { return joined_.name(peer); }
  void close() noexcept override;

 private:
  const JoinedPeer& at(int peer) const { return joined_.peers[static_cast<size_t>(peer)]; }
  PeerEnd& end(int peer) const { return *at(peer).end; }
  bool wait_for_reader(int peer, const FifoView& fifo, uint64_t others_until, uint64_t threads_until);

  Joined joined_;
  BellHold bells_;
  std::atomic<bool> revoked_{false};
};

RankFabric::~RankFabric() {
  if (forked()) {
    // The child of a fork: links, monitor and locks are the parent's. What only maps memory may stay as it is.
    for (JoinedPeer& peer : joined_.peers) static_cast<void>(peer.end.release());
    return;
  }
  close();
}

void RankFabric::close() noexcept {
  if (forked()) return;
  joined_.arena->mark_closed();
  if (joined_.station != nullptr) joined_.station->close();
  joined_.watch->cancel();
}

Result<FifoView> RankFabric::writer(int peer, int link) {
  auto made = end(peer).arena().make_fifo(rank(), link);
  if (!made) {
    Error error = std::move(made).error();
    error.what = fmt::format("connecting rank {} to {}: {}", rank(), peer_name(peer), error.what);
    return error;
  }
  // seq_cst: either revoke_loans finds the new queue, or this finds that loans are revoked.
  if (revoked_.load(std::memory_order_seq_cst)) made->header->revoked.store(1, std::memory_order_seq_cst);
  RONDE_TRY(end(peer).opened(link));
  return made;
}

Result<> RankFabric::fetch(int peer, const Loan& loan, void* to, size_t bytes) {
  auto done = end(peer).fetch(loan, to, bytes);
  if (done) return done;
  Error error = std::move(done).error();
  error.what = fmt::format("reading {} bytes that {} has lent to rank {}: {}", bytes, peer_name(peer), rank(), error.what);
  return error;
}

// False: the reader is still inside, and its time is over.
bool RankFabric::wait_for_reader(int peer, const FifoView& fifo, uint64_t others_until, uint64_t threads_until) {
  const uint64_t until = end(peer).reads_in_place() ? threads_until : others_until;
  for (int spins = 0; loan_readers(fifo); ++spins) {
    if (!alive(peer)) return true;
    if (now_ns() > until) return false;
    if (spins < 100) {
      sched_yield();
    } else {
      usleep(50);
    }
  }
  return true;
}

void RankFabric::revoke_loans() noexcept {
  if (forked()) return;
  revoked_.store(true, std::memory_order_seq_cst);  // pairs with the load in writer()
  std::vector<std::pair<int, FifoView>> lent;
  for (int peer = 0; peer < size(); ++peer) {
    for (uint32_t link = 0; link < joined_.arena->shape().links; ++link) {
      const FifoView fifo = end(peer).arena().find_fifo(rank(), static_cast<int>(link));
      if (!fifo) continue;
      fifo.header->revoked.store(1, std::memory_order_seq_cst);
      lent.emplace_back(peer, fifo);
    }
  }
  for (const JoinedPeer& peer : joined_.peers) peer.end->cut();
  const uint64_t now = now_ns();
  for (const auto& [peer, fifo] : lent) {
    if (wait_for_reader(peer, fifo, now + kSecond / 2, now + 10 * kSecond) || !end(peer).reads_in_place()) continue;
    RONDE_WARN(
        "rank {} takes back what it has lent, but {} has been reading it for 10 s; unmapping that memory now may crash the "
        "process",
        rank(), peer_name(peer));
  }
}

}  // namespace

void PeerEnd::ring() {
  // seq_cst, like all of the Bell's rule: who takes over a rank publishes his Bell, then looks again at what the rank waits for,
  // then sleeps.
  const uint32_t index = arena().control().bell.load(std::memory_order_seq_cst);
  ronde::ring(bells()[index % kBells]);
}

Result<std::unique_ptr<Fabric>> Fabric::make(FabricRequest request) {
  watch_forks();
  if (forked()) {
    return fail(Code::invalid_usage,
                "making a communicator: this process was forked after its parent had used the library; "
                "start a new program with exec instead",
                Scope::process);
  }
  RONDE_TRY(BellHold bells, BellHold::take());
  RONDE_TRY(Joined joined, join_peers(request));
  std::unique_ptr<Fabric> fabric(new RankFabric(std::move(joined), std::move(bells)));
  for (int peer = 0; peer < fabric->size(); ++peer) {
    RONDE_INFO(init, "rank {} to {}: {}", fabric->rank(), fabric->peer_name(peer), fabric->describe(peer));
  }
  return fabric;
}

}  // namespace ronde
