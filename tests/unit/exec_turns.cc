// How the lanes of a call share their rank: one that always could go on must not keep the others from it.
#include <algorithm>
#include <array>

#include "exec/runner.h"
#include "exec/work.h"
#include "kernels/cpu/reduce.h"
#include "support/catch.h"
#include "support/fabric_world.h"

using namespace ronde;
using namespace ronde::test;

namespace {

constexpr size_t kSlice = 64;
constexpr uint64_t kSlices = 64;

/// Rank 1, played by the test: it never lets rank 0 wait.
struct Peer {
  FifoView in, out;
  uint64_t fingerprint = 0;
  uint64_t sent = 0;      ///< slots to rank 0
  uint64_t received = 0;  ///< slots from rank 0
  uint64_t folded = 0;    ///< by rank 0, of what was sent
  uint64_t worst = 0;     ///< how far what rank 0 sends fell behind what it receives

  /// Takes whatever rank 0 has sent, and refills its input.
  void serve(Fabric& fabric) {
    if (!in) in = fabric.reader(0, 0);
    received = in ? in.header->tail.load() : 0;
    if (in) in.header->head.store(received);
    while (sent < kSlices && sent - out.header->head.load() < out.slots) {
      Slot& slot = out.slot_of(sent);
      slot.kind = SlotKind::bytes;
      slot.bytes = kSlice;
      slot.fingerprint = fingerprint;
      slot.sequence = 0;
      std::fill_n(out.data_of(sent), kSlice, std::byte{1});
      out.header->tail.store(++sent);
    }
  }
};

Peer peer;
Fabric* peers_fabric = nullptr;

/// In the place of a reduction: what the peer does meanwhile.
void fold(void* to, const void* const* from, int n, size_t count, Scale) {
  auto* const sum = static_cast<uint8_t*>(to);
  for (size_t i = 0; i < count; ++i) {
    uint8_t value = 0;
    for (int s = 0; s < n; ++s) value = static_cast<uint8_t>(value + static_cast<const uint8_t*>(from[s])[i]);
    sum[i] = value;
  }
  ++peer.folded;
  peer.worst = std::max(peer.worst, peer.folded - std::min(peer.folded, peer.received));
  peer.serve(*peers_fabric);
}

}  // namespace

TEST_CASE("exec: a lane whose input never ends leaves turns to the lane that sends", "[exec]") {
  FabricWorld world = make_fabrics({});
  REQUIRE(world.error() == "");
  ReduceTable table{};
  table.fn[static_cast<int>(DataType::uint8)][static_cast<int>(ReduceOp::sum)] = fold;
  SeatLimits limits;
  limits.lend_threshold = SIZE_MAX;
  const auto seat = std::make_shared<Seat>(std::move(world.fabric[0]), table, limits);
  Result<Port*> port = seat->port(1, 0, true);
  REQUIRE(port.ok());
  std::vector<uint8_t> input(kSlice * kSlices, 2), output(input.size(), 0);

  Program program;
  Move send, receive;
  send.src = Buf::input;
  send.out_count = 1;
  receive.src = Buf::input;
  receive.dst = Buf::output;
  receive.in_count = 1;
  program.blocks = 1;
  program.lanes = {{send}, {receive}};
  BoundProgram bound;
  bound.program = &program;
  bound.ports = {*port};
  Completion completion(1);
  Work work;
  work.seat = seat;
  work.call = {Coll::all_reduce, DataType::uint8, ReduceOp::sum, 0, -1, input.size(), 0, 0};
  work.completion = &completion;
  work.fingerprint = work.call.fingerprint();
  Part part;
  part.bound = &bound;
  part.table.base[static_cast<size_t>(Buf::input)] = reinterpret_cast<uintptr_t>(input.data());
  part.table.base[static_cast<size_t>(Buf::output)] = reinterpret_cast<uintptr_t>(output.data());
  part.table.stride = part.table.block = part.table.total = input.size();
  part.slicing = slicing_of(part.table, kSlice, false);
  for (const auto& moves : program.lanes) part.lanes.push_back(Lane{&moves});
  work.parts = {part};

  peer = {};
  peers_fabric = &world[1];
  peer.fingerprint = work.fingerprint;
  Result<FifoView> out = world[1].writer(0, 0);
  REQUIRE(out.ok());
  peer.out = *out;
  peer.serve(world[1]);
  seat->begin_work();
  seat->active = {&work};
  Result<Runner*> runner = Runner::of_this_thread();
  REQUIRE(runner.ok());
  REQUIRE((*runner)->claim(*seat));
  const auto done = [&] {
    peer.serve(world[1]);
    return completion.done() || seat->failed();
  };
  (*runner)->run_until(done, true);
  REQUIRE(completion.result().ok());
  CHECK(peer.folded == kSlices);
  CHECK(std::all_of(output.begin(), output.end(), [](uint8_t value) { return value == 3; }));
  CHECK(peer.worst <= peer.out.slots);
}
