// The simulation of CPU ranks on several hosts against sums that can be done by hand, and what ronde-plan compare makes of it.
#include "plan/algorithm.h"
#include "plan/simulate.h"
#include "support/catch.h"
#include "tools/plan/hosts.h"
#include "topo/copies.h"
#include "topo/text.h"

using namespace ronde;
using namespace ronde::plan::tool;

namespace {

constexpr int64_t kLink = 100;  // MB/s

/// Hosts with a core and a rank each, and links of kLink MB/s.
topo::Machine hosts(int n) {
  return topo::copies(topo::from_text("cpu {\n  cpurank cores=1\n  nic gen5x16 {\n    port mbits=800\n  }\n}\n", "m").value().machine, n);
}

/// Numbers that are easy to add up.
Costs plain_costs() {
  Costs costs = built_in_costs();
  for (auto& protocol : costs.hops) {
    for (HopCost& hop : protocol) hop = {1000, 100, 1000};
  }
  costs.cpu_launch = 2000;
  costs.cpu_patience = 1'000'000'000;
  costs.cpu_wake = 0;
  costs.cpu_switch = 700;
  costs.cpu_net_latency = 5000;
  costs.cpu_net_slot = 3000;
  costs.cpu_net_send = 1000;
  costs.cpu_net_receive = 2000;
  for (auto& work : costs.curves) {
    for (Curve& curve : work) curve.points = {{1, 10000, 10000}};
  }
  return costs;
}

int64_t nanos_of(const Costs& costs, Coll coll, int ranks, uint64_t bytes, uint64_t slice, bool by_cpu = true) {
  const topo::Machine machine = hosts(ranks);
  const CollSpec spec{coll, ranks, 0};
  Channel order;
  for (int rank = 0; rank < ranks; ++rank) {
    order.ring.push_back(rank);
    order.node_of.push_back(rank);
  }
  std::vector<Program> world;
  for (int rank = 0; rank < ranks; ++rank) world.push_back(find_algorithm("ring")->build(spec, order, rank).value());
  Conditions conditions{.slice = slice, .one_process = false};
  conditions.costs = &costs;
  conditions.net_by_cpu = by_cpu;
  const SimChannel channel{world};
  return simulate(machine, machine.of_kind(topo::NodeKind::cpu_rank), {spec, bytes}, {&channel, 1}, conditions).value().nanos;
}

}  // namespace

TEST_CASE("a slot between hosts costs both cores time, and the link its own", "[unit][plan][simulate]") {
  const Costs costs = plain_costs();
  // The root writes a slot and keeps its block; it sends; the link carries; the reader receives, reads the slot and copies.
  const int64_t bytes = 1'000'000;
  const int64_t expected = 2000 + 100 + bytes / 10 + 3000 + bytes + bytes * 1000 / kLink + 5000 + 3000 + bytes / 2 + 100 + bytes / 10;
  const int64_t nanos = nanos_of(costs, Coll::broadcast, 2, bytes, 1 << 30);
  CHECK(nanos >= expected - 10);
  CHECK(nanos <= expected + 10);
  // Where adapters do the work, neither core's.
  CHECK(nanos_of(costs, Coll::broadcast, 2, bytes, 1 << 30, false) < expected - 3 * bytes / 2);
}

TEST_CASE("slots follow each other over the link while cores are at the next", "[unit][plan][simulate]") {
  const Costs costs = plain_costs();
  const int64_t bytes = 10'000'000, link = bytes * 1000 / kLink;
  const int64_t nanos = nanos_of(costs, Coll::broadcast, 2, bytes, 65536);
  CHECK(nanos > link);
  CHECK(nanos < link + link / 20);
  // An exchange takes both directions at once, and a ring as long as its blocks cross.
  const int64_t both = nanos_of(costs, Coll::all_gather, 2, bytes, 65536);
  CHECK(both > link);
  CHECK(both < link + link / 4);
}

TEST_CASE("where both ranks exchange what they have, all that a slot takes adds up", "[unit][plan][simulate]") {
  Costs costs = plain_costs();
  costs.cpu_net_send = 40;
  costs.cpu_net_receive = 80;
  const int64_t bytes = 10'000'000;
  // Each sends, and receives when the link has brought the other's: a ring's slices wait for each other.
  const int64_t works = bytes * 1000 / 40 + bytes * 1000 / kLink + bytes * 1000 / 80;
  const int64_t nanos = nanos_of(costs, Coll::all_gather, 2, bytes, 65536);
  CHECK(nanos > works);
  CHECK(nanos < works + works / 20);
}

TEST_CASE("ranks in the order of their hosts, as many on each", "[unit][plan][predict]") {
  CHECK(hosts_of({7, 8}).value() == 2);
  CHECK(hosts_of({7, 7, 8, 8}).value() == 2);
  CHECK(hosts_of({7, 7, 7}).value() == 1);
  CHECK_FALSE(hosts_of({7, 8, 7, 8, 8, 8}).ok());
  CHECK_FALSE(hosts_of({7, 7, 8}).ok());
  CHECK_FALSE(hosts_of({7, 8, 8, 9}).ok());
}

TEST_CASE("a call between hosts is predicted as the library would run it, no faster than the link", "[unit][plan][predict]") {
  const Job job{.ranks = 4, .hosts = 2, .cores = 2};
  const uint64_t bytes = 4 << 20;
  const Row fast = predict_hosts(job, Coll::all_reduce, bytes, 0, built_in_costs()).value();
  const Row slow = predict_hosts(job, Coll::all_reduce, bytes, 200, built_in_costs()).value();
  CHECK(fast.algorithm == slow.algorithm);  // the library does not know the link's rate
  CHECK(slow.kind == HopKind::network);
  CHECK(slow.predicted >= static_cast<double>(bytes) * 1000 / 25);  // what all-reduce has to carry between two hosts, each way
  CHECK(slow.predicted > 4 * fast.predicted);
}
