// What a rank makes of a peer that has left, step by step.
#include "exec/watch.h"

#include "base/clock.h"
#include "exec/runner.h"
#include "exec/work.h"
#include "kernels/cpu/reduce.h"
#include "support/catch.h"
#include "support/fabric_world.h"

using namespace ronde;
using namespace ronde::test;

namespace {

/// A Fabric whose network never stands still, for other communicators.
class BusyFabric final : public Fabric {
 public:
  explicit BusyFabric(std::unique_ptr<Fabric> of) : of_(std::move(of)) {}
  bool help() override { return true; }

  int rank() const override { return of_->rank(); }
  int size() const override { return of_->size(); }
  uint32_t slots() const override { return of_->slots(); }
  uint32_t slot_capacity() const override { return of_->slot_capacity(); }
  ControlBlock& control(int rank) override { return of_->control(rank); }
  void ring(int rank) override { of_->ring(rank); }
  void refresh(std::span<const int> peers) override { of_->refresh(peers); }
  uint64_t ask(std::span<const int> peers) override { return of_->ask(peers); }
  bool settled(std::span<const int> peers, uint64_t since) override { return of_->settled(peers, since); }
  void report_lost() override { of_->report_lost(); }
  int network_devices() const override { return of_->network_devices(); }
  bool network_by_cpu() const override { return of_->network_by_cpu(); }
  void rest(bool sleeps) override { of_->rest(sleeps); }
  Result<FifoView> writer(int peer, int link) override { return of_->writer(peer, link); }
  FifoView reader(int peer, int link) override { return of_->reader(peer, link); }
  bool lend(int peer, const void* data, size_t bytes, Loan* loan) override { return of_->lend(peer, data, bytes, loan); }
  const std::byte* reach(int peer, const Loan& loan, size_t bytes) override { return of_->reach(peer, loan, bytes); }
  Result<> fetch(int peer, const Loan& loan, void* to, size_t bytes) override { return of_->fetch(peer, loan, to, bytes); }
  void revoke_loans() noexcept override { of_->revoke_loans(); }
  bool alive(int peer) const override { return of_->alive(peer); }
  std::string_view transport(int peer) const override { return of_->transport(peer); }
  std::string describe(int peer) const override { return of_->describe(peer); }
  std::string peer_name(int peer) const override { return of_->peer_name(peer); }
  void close() noexcept override { of_->close(); }

 private:
  std::unique_ptr<Fabric> of_;
};

/// Two ranks of one process; rank 0 has a Seat, and in it a Recv from rank 1 of a few bytes.
struct WaitingRecv {
  explicit WaitingRecv(bool busy = false) {
    REQUIRE(world.error() == "");
    Result<const ReduceTable*> table = choose_reduce_table("scalar");
    REQUIRE(table.ok());
    SeatLimits limits;
    limits.timeout = 0;
    std::unique_ptr<Fabric> own = std::move(world.fabric[0]);
    if (busy) own = std::make_unique<BusyFabric>(std::move(own));
    seat = std::make_shared<Seat>(std::move(own), **table, limits);
    Result<Port*> port = seat->port(1, 0, false);
    REQUIRE(port.ok());
    bound.ports = {*port};
    Move move;
    move.in_count = 1;
    move.dst = Buf::output;
    program.blocks = 1;
    program.lanes = {{move}};
    bound.program = &program;
    work.seat = seat;
    work.call.coll = Coll::recv;
    work.call.root = 1;
    work.call.count = data.size();
    work.completion = &completion;
    Part part;
    part.bound = &bound;
    part.table.base = {0, 0, reinterpret_cast<uintptr_t>(data.data()), 0};
    part.table.stride = part.table.block = part.table.total = data.size();
    part.slicing = slicing_of(part.table, 4096, false);
    part.lanes = {Lane{&program.lanes[0]}};
    work.parts = {part};
    work.fingerprint = work.call.fingerprint();
    seat->begin_work();
    Part& ours = work.parts[0];
    REQUIRE(advance(work, ours, ours.lanes[0]).value() == Step::blocked);
    seat->active = {&work};
  }
  ~WaitingRecv() {
    if (!completion.done()) seat->end_work(work, seat->error());
  }
  void leave(RankState how) { world[1].control(1).state.store(static_cast<uint32_t>(how)); }

  FabricWorld world = make_fabrics({});
  std::shared_ptr<Seat> seat;
  std::array<std::byte, 8> data{};
  Program program;
  BoundProgram bound;
  Completion completion{1};
  Work work;
};

}  // namespace

TEST_CASE("watch: a peer that has left is believed at the second look", "[exec]") {
  WaitingRecv wait;
  look_why(*wait.seat, true);
  REQUIRE_FALSE(wait.seat->failed());
  wait.leave(RankState::closed);
  look_why(*wait.seat, true);
  REQUIRE_FALSE(wait.seat->failed());  // what it sent before it left may have come after the last pass
  look_why(*wait.seat, true);
  REQUIRE(wait.seat->failed());
  CHECK(wait.seat->error().code == Code::remote_error);
  CHECK(contains(wait.seat->error().what, "rank 1, which has destroyed its communicator"));
}

TEST_CASE("watch: data that came with the peer's last act is taken, not missed", "[exec]") {
  WaitingRecv wait;
  wait.leave(RankState::closed);
  look_why(*wait.seat, true);
  Result<FifoView> out = wait.world[1].writer(0, 0);
  REQUIRE(out.ok());
  Slot& slot = out->slot_of(0);
  slot.kind = SlotKind::bytes;
  slot.bytes = wait.data.size();
  slot.fingerprint = wait.work.fingerprint;
  slot.sequence = 0;
  std::fill_n(out->data_of(0), wait.data.size(), std::byte{5});
  out->header->tail.store(1);
  Result<Runner*> runner = Runner::of_this_thread();
  REQUIRE(runner.ok());
  REQUIRE((*runner)->claim(*wait.seat));
  (*runner)->run_until([&] { return wait.completion.done(); }, true);
  CHECK(wait.completion.result().ok());
  CHECK(wait.data[7] == std::byte{5});
  CHECK_FALSE(wait.seat->failed());
}

TEST_CASE("watch: who helps others meanwhile looks why its own call stands still, and answers", "[exec]") {
  WaitingRecv wait(true);
  Result<Runner*> runner = Runner::of_this_thread();
  REQUIRE(runner.ok());
  REQUIRE((*runner)->claim(*wait.seat));
  ControlBlock& own = wait.seat->control();
  const Deadline limit = Deadline::in(10);
  uint64_t asked = 0;
  bool answered = false;
  (*runner)->run_until([&] {
    if (own.blocked.load() != 0 && asked == 0) asked = own.probe.fetch_add(1) + 1;
    if (asked != 0 && !answered && own.probe_answer.load() >= asked) {
      answered = true;
      wait.leave(RankState::closed);
    }
    return wait.completion.done() || limit.passed();
  }, true);
  CHECK(answered);
  REQUIRE(wait.completion.done());
  CHECK(contains(wait.completion.result().error().what, "rank 1, which has destroyed its communicator"));
}

TEST_CASE("watch: a peer that has finalised is a disagreement, on all ranks", "[exec]") {
  WaitingRecv wait;
  wait.leave(RankState::finalized);
  look_why(*wait.seat, true);
  look_why(*wait.seat, true);
  REQUIRE(wait.seat->failed());
  CHECK(wait.seat->error().code == Code::invalid_usage);
  CHECK(wait.world[1].control(1).mail.load() == 2);
}
