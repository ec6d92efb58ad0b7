#include "transport/shm/shm.h"

#include <sys/uio.h>
#include <cerrno>
#include <cstring>

#include <fmt/core.h>

#include "transport/shm/hub.h"

namespace ronde::shm {
namespace {

class End final : public PeerEnd {
 public:
  End(const PeerRequest& request, LinkPtr link)
      : process_(request.process),
        watch_(request.watch),
        peer_(request.peer),
        shape_(request.mine->shape),
        lends_(request.mine->p2p_disabled == 0 && request.theirs->p2p_disabled == 0),
        reads_(lends_ && request.mine->vm_readv != 0 && request.theirs->vm_readv != 0),
        link_(std::move(link)) {}
  ~End() override {
    if (watcher_ != nullptr) hub().remove_watcher(watcher_);
    hub().unpin(link_);
  }

  Result<> describe_self(PeerAddress* address) override {
    address->listener = hub().listener();
    address->secret = hub().secret();
    return {};
  }
  Result<> connect(const PeerAddress& peer, const WaitLimit& patience) override { return hub().connect(link_, peer, patience); }
  Result<> map(const PeerAddress& peer, const WaitLimit& patience) override {
    RONDE_TRY(hub().await_caller(*link_, patience));
    RONDE_TRY(bells_, hub().map_bells(*link_, patience));
    RONDE_TRY(arena_, hub().map_arena(*link_, peer.arena, shape_, patience));
    if (reads_) RONDE_TRY(hub().prove(*link_, patience));
    return {};
  }
  void start() override {
    watcher_ = std::make_shared<Watcher>(Watcher{link_, peer_, arena_, watch_});
    hub().add_watcher(watcher_);
  }

  Arena& arena() const override { return *arena_; }
  Bell* bells() const override { return bells_; }

  bool lend(const void* data, size_t bytes, Loan* loan) override;
  const std::byte* reach(const Loan& loan, size_t bytes) override;
  Result<> fetch(const Loan& loan, void* to, size_t bytes) override;
  bool alive() const override { return !link_->ended.load(std::memory_order_seq_cst); }
  bool reads_in_place() const override { return false; }
  std::string describe() const override;

 private:
  Hub& hub() const { return process_->hub(); }
  Result<> read_memory(uint64_t address, std::byte* to, size_t bytes) const;

  std::shared_ptr<Process> process_;
  std::shared_ptr<DeathWatch> watch_;
  int peer_;
  ArenaShape shape_;
  bool lends_;
  bool reads_;  // process_vm_readv may be used
  LinkPtr link_;
  std::shared_ptr<Arena> arena_;
  Bell* bells_ = nullptr;
  std::shared_ptr<Watcher> watcher_;
};

bool End::lend(const void* data, size_t bytes, Loan* loan) {
  if (!lends_) return false;
  uint64_t offset = 0;
  if (const std::shared_ptr<Region> region = find_region(data, bytes, &offset)) {
    if (hub().offer(*link_, region)) {
      *loan = Loan{offset, region->id};
      return true;
    }
  }
  if (!reads_ || link_->proof.load(std::memory_order_relaxed) != Proof::readable) return false;  // known since map()
  *loan = Loan{reinterpret_cast<uint64_t>(data), 0};
  return true;
}

const std::byte* End::reach(const Loan& loan, size_t bytes) {
  if (loan.region == 0) return nullptr;
  const std::lock_guard lock(link_->regions_mutex);
  const auto found = link_->regions.find(loan.region);
  if (found == link_->regions.end()) return nullptr;
  const Mapping& region = found->second;
  return loan.address <= region.size() && bytes <= region.size() - loan.address ? region.data() + loan.address : nullptr;
}

Result<> End::read_memory(uint64_t address, std::byte* to, size_t bytes) const {
  for (size_t done = 0; done < bytes;) {
    iovec local{to + done, bytes - done};
    iovec remote{reinterpret_cast<void*>(address + done), bytes - done};
    const ssize_t n = process_vm_readv(link_->pid, &local, 1, &remote, 1, 0);
    if (n > 0) {
      done += static_cast<size_t>(n);
    } else if (n == 0 || errno != EINTR) {
      return system_failure(n == 0 ? EFAULT : errno,
                            fmt::format("reading memory of process {} with process_vm_readv", link_->pid),
                            "set RONDE_VM_READV=0 to do without", Scope::communicator);
    }
  }
  return {};
}

Result<> End::fetch(const Loan& loan, void* to, size_t bytes) {
  Result<> done;
  if (loan.region != 0) {
    const std::byte* from = reach(loan, bytes);
    if (from == nullptr) return fail(Code::internal_error, fmt::format("region {} of the peer does not hold that", loan.region));
    std::memcpy(to, from, bytes);
  } else {
    done = read_memory(loan.address, static_cast<std::byte*>(to), bytes);
  }
  // The number of a process that has ended may be another's by now. Its socket closes before the number is free: looked at after
  // the copy, an open socket says that the copy was of the peer.
  if (hung_up(link_->socket.get())) {
    return fail(Code::remote_error, fmt::format("process {} ended meanwhile", link_->pid), Scope::communicator);
  }
  return done;
}

std::string End::describe() const {
  const std::string memory = "shared memory of another process";
  if (!lends_) return memory + "; nothing is lent (RONDE_P2P_DISABLE=1)";
  const std::string regions = memory + "; lends memory of ncclMemAlloc";
  if (!reads_) return regions + " only (RONDE_VM_READV=0)";
  if (link_->proof.load(std::memory_order_seq_cst) == Proof::readable)
    return regions + ", and any other through process_vm_readv";
  return fmt::format("{} only: the peer cannot use process_vm_readv on this process ({})", regions, strerror(link_->proof_errno));
}

class Shm final : public Transport {
 public:
  std::string_view name() const override { return "shm"; }
  std::string refusal(int rank, const PeerInfo& mine, int peer, const PeerInfo& theirs) const override {
    if (!same_host(mine, theirs)) return "it is on another host";
    if (mine.shm_disabled != 0 || theirs.shm_disabled != 0) {
      return fmt::format("RONDE_SHM_DISABLE=1 on rank {}", mine.shm_disabled != 0 ? rank : peer);
    }
    return "";
  }
  Result<std::unique_ptr<PeerEnd>> open(const PeerRequest& request) const override {
    RONDE_TRY(LinkPtr link, request.process->hub().pin(request.theirs->process));
    return std::unique_ptr<PeerEnd>(new End(request, std::move(link)));
  }
};

}  // namespace

const Transport& transport() {
  static const Shm* one = new Shm;
  return *one;
}

}  // namespace ronde::shm
