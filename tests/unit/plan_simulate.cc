// The simulation against sums that can be done by hand.
#include "plan/simulate.h"

#include <numeric>

#include "plan/algorithm.h"
#include "support/catch.h"
#include "topo/text.h"

using namespace ronde;

namespace {

constexpr const char* kPair = "cpu sapphire {\n  switch gen5x16 {\n    2 gpu h100\n  }\n}\nnvlink 0-1 switch x18\n";
constexpr const char* kEight = "cpu sapphire {\n  switch gen5x16 {\n    8 gpu h100\n  }\n}\nnvlink 0-7 switch x18\n";
constexpr const char* kCpus = "cpu genoa {\n  cpurank cores=1\n  cpurank cores=1\n  cpurank cores=1\n  cpurank cores=1\n}\n";

topo::Machine machine_of(const std::string& text) {
  auto reading = topo::from_text(text, "m");
  INFO((reading.ok() ? std::string() : reading.error().what));
  REQUIRE(reading.ok());
  return std::move(reading->machine);
}

std::vector<topo::NodeId> devices_of(const topo::Machine& machine) {
  std::vector<topo::NodeId> devices = machine.of_kind(topo::NodeKind::gpu);
  return devices.empty() ? machine.of_kind(topo::NodeKind::cpu_rank) : devices;
}

std::vector<Program> world_of(const char* algorithm, const CollSpec& spec, int channel = 0) {
  Channel order;
  order.index = channel;
  order.ring.resize(static_cast<size_t>(spec.ranks));
  std::iota(order.ring.begin(), order.ring.end(), 0);
  std::vector<Program> world;
  for (int r = 0; r < spec.ranks; ++r) {
    auto program = find_algorithm(algorithm)->build(spec, order, r);
    REQUIRE(program.ok());
    world.push_back(std::move(*program));
  }
  return world;
}

/// Numbers that are easy to add up.
Costs plain_costs() {
  Costs costs = built_in_costs();
  for (auto& protocol : costs.hops) {
    for (HopCost& hop : protocol) hop = {1000, 100, 1000};
  }
  costs.hop(Protocol::ll, HopKind::nvlink).efficiency = 500;
  costs.gpu_launch = 5000;
  costs.gpu_channel = 1'000'000;
  costs.cpu_launch = 2000;
  costs.cpu_patience = 1'000'000'000;
  costs.cpu_wake = 0;
  costs.cpu_switch = 700;
  for (auto& work : costs.curves) {
    for (Curve& curve : work) curve.points = {{1, 10000, 5000}};
  }
  return costs;
}

Simulation run(const topo::Machine& machine, const SimCall& call, const std::vector<SimChannel>& channels,
               const Conditions& conditions) {
  const auto devices = devices_of(machine);
  auto result = simulate(machine, std::span(devices).first(static_cast<size_t>(call.spec.ranks)), call, channels, conditions);
  INFO((result.ok() ? std::string() : result.error().what));
  REQUIRE(result.ok());
  return std::move(*result);
}

}  // namespace

TEST_CASE("a ring over NVLink takes what its steps add up to", "[unit][plan][simulate]") {
  const topo::Machine machine = machine_of(kEight);
  const int64_t rate = machine.link(static_cast<topo::LinkId>(machine.links.size() - 1)).rate;
  const Costs costs = plain_costs();
  Conditions conditions{.slice = 1 << 30};
  conditions.costs = &costs;
  const SimCall call{{Coll::all_reduce, 8, 0}, 80'000'000};
  const auto world = world_of("ring", call.spec);
  const Simulation it = run(machine, call, {{world}}, conditions);
  // Blocks of 10 MB. A slot is written, 13 times a hop and two slots, then a hop and one slot; the last lender learns of its end
  // a hop later. Every block crosses 14 hops: the first is fetched, partial sums are sent, whole ones fetched again. In between,
  // the Move that completes a sum finds all it needs in its own memory: threads' time alone.
  const int64_t block = 10'000'000;
  const int64_t expected = 5000 + 100 + 13 * (1000 + 200) + 1000 + 100 + 14 * block * 1000 / rate + block / 1000 + 1000;
  CHECK(it.nanos >= expected - 1);
  CHECK(it.nanos <= expected + 20);  // times are rounded up to picoseconds, rates down
  CHECK(it.moves == 8 * 15);
  CHECK(it.chain.hops == 14);
  CHECK(it.chain.launch == 5000);
  CHECK(it.chain.latency == 14000);
  CHECK(it.chain.launch + it.chain.slots + it.chain.data + it.chain.latency + 1000 >= it.nanos - 5);
  CHECK(it.busbw == busbw_of(call, it.nanos));
  REQUIRE(it.links.size() == 16);
  for (const LinkUse& use : it.links) CHECK(use.bytes == 14 * block);
  CHECK(run(machine, call, {{world}}, conditions) == it);
}

TEST_CASE("channels share links, whether they are alike or not", "[unit][plan][simulate]") {
  const topo::Machine machine = machine_of(kEight);
  const Costs costs = plain_costs();
  Conditions conditions{.slice = 1 << 20};
  conditions.costs = &costs;
  const SimCall call{{Coll::all_reduce, 8, 0}, 64 << 20};
  const auto world = world_of("ring", call.spec);
  const auto copy = world;
  const Simulation one = run(machine, call, {{world}}, conditions);
  const Simulation alike = run(machine, call, {{world}, {world}, {world}, {world}}, conditions);
  const Simulation apart = run(machine, call, {{world}, {copy}, {world}, {copy}}, conditions);
  CHECK(alike.nanos == apart.nanos);
  CHECK(alike.moves == apart.moves);
  CHECK(alike.links == apart.links);
  CHECK(alike.nanos < one.nanos);  // fewer slices one after the other, so fewer waits for slots
  CHECK(alike.nanos > one.nanos / 2);
}

TEST_CASE("what a channel's threads move, and what the protocol adds", "[unit][plan][simulate]") {
  const topo::Machine machine = machine_of(kPair);
  Costs costs = plain_costs();
  Conditions conditions{.slice = 1 << 30};
  conditions.costs = &costs;
  const SimCall call{{Coll::broadcast, 2, 0}, 100'000'000};
  const auto world = world_of("chain", call.spec);
  const int64_t whole = run(machine, call, {{world}}, conditions).nanos;
  costs.gpu_channel = 10'000;
  const Simulation slow = run(machine, call, {{world}}, conditions);
  CHECK(slow.chain.data >= 2 * 10'000'000);  // the root keeps the block as well, then the reader fetches it
  CHECK(slow.nanos > whole);
  costs.gpu_channel = 1'000'000;
  conditions.protocol = Protocol::ll;
  const Simulation ll = run(machine, call, {{world}}, conditions);
  const int64_t rate = machine.link(static_cast<topo::LinkId>(machine.links.size() - 1)).rate;
  CHECK(ll.chain.data >= int64_t{100'000'000} * 1000 / (rate / 2));
}

TEST_CASE("a CPU rank does one thing after the other", "[unit][plan][simulate]") {
  const topo::Machine machine = machine_of(kCpus);
  const Costs costs = plain_costs();
  Conditions conditions{.slice = 1 << 30};
  conditions.costs = &costs;
  const SimCall call{{Coll::reduce_scatter, 2, 0}, 1'000'000};
  const auto world = world_of("ring", call.spec);
  const Simulation both = run(machine, call, {{world}}, conditions);
  // Each lends its input and folds the other's: 1 MB at 5000 MB/s, as both are at it.
  CHECK(both.nanos == 2000 + 100 + 1000 + 100 + 200'000 + 1000);
  const SimCall broadcast{{Coll::broadcast, 2, 0}, 1'000'000};
  const auto chain = world_of("chain", broadcast.spec);
  const Simulation alone = run(machine, broadcast, {{chain}}, conditions);
  // The root copies alone at 10000 MB/s and lends its output, then the other fetches it alone.
  CHECK(alone.nanos == 2000 + 100 + 100'000 + 1000 + 100 + 100'000 + 1000);
  CHECK(alone.waits.size() == 1);
  CHECK(alone.waits[0].rank == 1);
  CHECK(alone.waits[0].data_from == 0);
  CHECK(alone.waits[0].for_data == 101'100);
  conditions.ranks_per_core = 2;
  const Simulation shared = run(machine, call, {{world}}, conditions);
  // The curves say what each gets while both are at it, but here only one is at a time.
  CHECK(shared.nanos > 2000 + 2 * 100'000);
  CHECK(shared.nanos < 2000 + 2 * 100'000 + 10'000);
}

TEST_CASE("slots bound how far a writer runs ahead", "[unit][plan][simulate]") {
  const topo::Machine machine = machine_of(kCpus);
  Costs costs = plain_costs();
  costs.curve(CpuWork::take, HopKind::process).points = {{1, 1000, 1000}};  // the root lends what it has just copied
  Conditions conditions{.slots = 2, .slice = 65536};
  conditions.costs = &costs;
  const SimCall call{{Coll::broadcast, 2, 0}, 1 << 20};
  const auto chain = world_of("chain", call.spec);
  const Simulation it = run(machine, call, {{chain}}, conditions);
  CHECK(it.chain.data > 1'000'000);
  const auto root = std::find_if(it.waits.begin(), it.waits.end(), [](const LaneWait& w) { return w.rank == 0; });
  REQUIRE(root != it.waits.end());
  CHECK(root->for_room > 500'000);
  CHECK(root->room_at == 1);
  conditions.slots = 16;
  CHECK(run(machine, call, {{chain}}, conditions).nanos <= it.nanos);
}

TEST_CASE("every algorithm and collective comes to an end, with every byte that it has to move", "[unit][plan][simulate]") {
  for (const char* text : {kEight, kCpus}) {
    const topo::Machine machine = machine_of(text);
    const int most = static_cast<int>(devices_of(machine).size());
    for (const Algorithm& algorithm : algorithms()) {
      for (const Coll coll :
           {Coll::all_reduce, Coll::broadcast, Coll::reduce, Coll::all_gather, Coll::reduce_scatter, Coll::all_to_all}) {
        for (int n = 1; n <= most; ++n) {
          const SimCall call{{coll, n, n - 1}, 300'000};
          if (!algorithm.supports(call.spec)) continue;
          CAPTURE(std::string(algorithm.name), std::string(name_of(coll)), n);
          const auto world = world_of(std::string(algorithm.name).c_str(), call.spec);
          for (const bool merged : {false, true}) {
            Conditions conditions{.slots = 2, .slice = 4096};
            conditions.merged = merged;
            const Simulation it = run(machine, call, {{world}, {world}}, conditions);
            CHECK(it.nanos > 0);
            CHECK(it.moves > 0);
          }
        }
      }
    }
  }
}

TEST_CASE("the closed form of an even ring is what the events give", "[unit][plan][simulate]") {
  const Costs costs = plain_costs();
  const topo::Machine machine = machine_of(kEight);
  const int64_t rate = machine.link(static_cast<topo::LinkId>(machine.links.size() - 1)).rate;
  for (const int n : {2, 3, 5, 8}) {
    for (const size_t channels : {1u, 4u}) {
      for (const uint64_t bytes : {uint64_t{64} * 8 * 1024, uint64_t{40} << 20}) {
        Conditions conditions{.slice = 1 << 20};
        conditions.costs = &costs;
        conditions.lend_threshold = 0;
        const SimCall call{{Coll::all_reduce, n, 0}, bytes};
        const auto world = world_of("ring", call.spec);
        const int64_t events = run(machine, call, std::vector<SimChannel>(channels, SimChannel{world}), conditions).nanos;
        const int64_t closed = even_ring_nanos({n, bytes, static_cast<int64_t>(channels), HopKind::nvlink, rate}, conditions);
        CAPTURE(n, channels, bytes, events, closed);
        CHECK(std::abs(events - closed) <= events / 50);
      }
    }
  }
  const int64_t thousand = even_ring_nanos({1000, 1 << 30, 16, HopKind::nvlink, rate});
  CHECK(even_ring_nanos({100'000, 1 << 30, 16, HopKind::nvlink, rate}) > 20 * thousand);  // latency for each rank
}

TEST_CASE("Programs that do not fit are refused", "[unit][plan][simulate]") {
  const topo::Machine machine = machine_of(kEight);
  const auto devices = devices_of(machine);
  const SimCall call{{Coll::all_reduce, 8, 0}, 1000};
  auto world = world_of("ring", call.spec);
  const auto error = [&](std::span<const topo::NodeId> some, const std::vector<SimChannel>& channels) {
    const auto result = simulate(machine, some, call, channels);
    REQUIRE_FALSE(result.ok());
    return result.error().what;
  };
  CHECK(error(std::span(devices).first(3), {{world}}).find("3 devices for 8 ranks") != std::string::npos);
  CHECK(error(devices, {}).find("no channel") != std::string::npos);
  CHECK(error(devices, {{std::span(world).first(2)}}).find("Programs for 2 of 8 ranks") != std::string::npos);
  auto broken = world;
  broken[3].lanes[0].erase(broken[3].lanes[0].begin());
  CHECK(error(devices, {{broken}}).find("they never end; rank ") != std::string::npos);
  broken = world;
  broken[3].lanes[0].clear();
  CHECK(error(devices, {{broken}}).find("does not fit") != std::string::npos);
  broken = world;
  broken[2].peers[0].rank = 99;
  CHECK(error(devices, {{broken}}).find("a peer that there is not") != std::string::npos);
  const topo::Machine apart =
      machine_of("host {\n  cpu sapphire {\n    gpu h100\n  }\n}\nhost {\n  cpu sapphire {\n    gpu h100\n  }\n}\n");
  const SimCall two{{Coll::all_reduce, 2, 0}, 1000};
  const auto pair = world_of("ring", two.spec);
  const auto result = simulate(apart, devices_of(apart), two, std::vector<SimChannel>{{pair}});
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().what.find("no path from ") != std::string::npos);
}
