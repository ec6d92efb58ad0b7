#include "transport/inproc/inproc.h"

#include <cstring>

#include "transport/bells.h"

namespace ronde::inproc {
namespace {

class End final : public PeerEnd {
 public:
  explicit End(const PeerRequest& request)
      : process_(request.process),
        lends_(request.mine->p2p_disabled == 0 && request.theirs->p2p_disabled == 0),
        self_(request.mine == request.theirs) {}

  Result<> map(const PeerAddress& peer, const WaitLimit&) override {
    arena_ = process_->find(peer.arena);
    if (arena_ == nullptr) return fail(Code::internal_error, "finding a peer's arena in this process: it is gone");
    bells_ = own_bells();
    return {};
  }

  Arena& arena() const override { return *arena_; }
  Bell* bells() const override { return bells_; }

  bool lend(const void* data, size_t, Loan* loan) override {
    *loan = Loan{reinterpret_cast<uint64_t>(data), 0};
    return lends_;
  }
  const std::byte* reach(const Loan& loan, size_t) override { return reinterpret_cast<const std::byte*>(loan.address); }
  Result<> fetch(const Loan& loan, void* to, size_t bytes) override {
    std::memcpy(to, reinterpret_cast<const void*>(loan.address), bytes);
    return {};
  }
  bool alive() const override { return true; }
  bool reads_in_place() const override { return true; }
  std::string describe() const override {
    std::string text = self_ ? "this rank itself" : "a thread of this process";
    return text + (lends_ ? "; reads lent buffers in place" : "; nothing is lent (RONDE_P2P_DISABLE=1)");
  }

 private:
  std::shared_ptr<Process> process_;
  std::shared_ptr<Arena> arena_;
  Bell* bells_ = nullptr;
  bool lends_;
  bool self_;
};

class Self final : public Transport {
 public:
  std::string_view name() const override { return "self"; }
  std::string refusal(int rank, const PeerInfo&, int peer, const PeerInfo&) const override {
    return rank == peer ? "" : "it is another rank";
  }
  Result<std::unique_ptr<PeerEnd>> open(const PeerRequest& request) const override {
    return std::unique_ptr<PeerEnd>(new End(request));
  }
};

class Threads final : public Transport {
 public:
  std::string_view name() const override { return "inproc"; }
  std::string refusal(int, const PeerInfo& mine, int, const PeerInfo& theirs) const override {
    if (!same_host(mine, theirs)) return "it is on another host";
    return mine.process == theirs.process ? "" : "it is in another process";
  }
  Result<std::unique_ptr<PeerEnd>> open(const PeerRequest& request) const override {
    return std::unique_ptr<PeerEnd>(new End(request));
  }
};

}  // namespace

const Transport& self_transport() {
  static const Self* one = new Self;
  return *one;
}
const Transport& transport() {
  static const Threads* one = new Threads;
  return *one;
}

}  // namespace ronde::inproc
