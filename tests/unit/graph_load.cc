// The loads that channels mean, and what the check finds wrong with channels.
#include <algorithm>
#include <string>
#include <vector>

#include "graph/load.h"
#include "support/catch.h"
#include "unit/graph_support.h"

using namespace ronde;
using namespace ronde::graph;
using namespace ronde::topo;
using namespace ronde::test;

namespace {

Channel ring(std::vector<int> order, int64_t rate) {
  Channel channel;
  channel.ring = std::move(order);
  channel.rate = rate;
  return channel;
}
Channel tree(std::vector<int> parent, int64_t rate) {
  Channel channel;
  channel.parent = std::move(parent);
  channel.rate = rate;
  return channel;
}

/// The loads that are not 0: "gpu 0 to NUMA node 0: 5", sorted by arc.
std::vector<std::string> loads(const Machine& m, const std::vector<Channel>& channels) {
  const Load load = load_of(m, gpus(m), channels);
  CHECK(load.faults == std::vector<std::string>{});
  std::vector<std::string> lines;
  for (size_t arc = 0; arc < load.by_arc.size(); ++arc) {
    if (load.by_arc[arc] == 0) continue;
    const Link& link = m.link(link_of(static_cast<ArcId>(arc)));
    const NodeId from = arc % 2 == 0 ? link.a : link.b;
    const NodeId to = arc % 2 == 0 ? link.b : link.a;
    lines.push_back(topo::describe(m, from) + " to " + topo::describe(m, to) + ": " + std::to_string(load.by_arc[arc]));
  }
  return lines;
}

std::vector<std::string> overloads(const Machine& m, const std::vector<Channel>& channels) {
  std::vector<std::string> lines;
  for (const Overload& over : load_of(m, gpus(m), channels).over) lines.push_back(graph::describe(m, over));
  return lines;
}

std::vector<std::string> faults(const Machine& m, const Channel& channel) {
  const Load load = load_of(m, gpus(m), std::vector<Channel>{channel});
  for (const int64_t on_arc : load.by_arc) CHECK(on_arc == 0);
  return load.faults;
}

using Lines = std::vector<std::string>;

/// gpu 0 and gpu 1 on one CPU, gpu 2 on another.
Machine three() { return machine(cpu(0, gpu(0, bus(0)) + gpu(1, bus(1))) + cpu(1, gpu(2, bus(2)))); }

}  // namespace

TEST_CASE("a ring loads its hops in its direction", "[unit][graph]") {
  CHECK(loads(three(), {ring({0, 1, 2}, 5)}) == Lines{"gpu 0 to NUMA node 0: 5", "NUMA node 0 to gpu 0: 5",
                                                      "gpu 1 to NUMA node 0: 5", "NUMA node 0 to gpu 1: 5",
                                                      "gpu 2 to NUMA node 1: 5", "NUMA node 1 to gpu 2: 5",
                                                      "NUMA node 0 to NUMA node 1: 5", "NUMA node 1 to NUMA node 0: 5"});
  // The first ring crosses from CPU to CPU twice in each direction, the second once.
  const Machine pairs = pci_box(2);
  const auto lines = loads(pairs, {ring({0, 2, 1, 3}, 5), ring({0, 1, 2, 3}, 3)});
  CHECK(std::count(lines.begin(), lines.end(), "NUMA node 0 to NUMA node 1: 13") == 1);
  CHECK(std::count(lines.begin(), lines.end(), "gpu 0 to switch 0000:01:00.0: 8") == 1);
}

TEST_CASE("a tree loads its hops in both directions", "[unit][graph]") {
  CHECK(loads(three(), {tree({1, -1, 1}, 5)}) == Lines{"gpu 0 to NUMA node 0: 5", "NUMA node 0 to gpu 0: 5",
                                                       "gpu 1 to NUMA node 0: 10", "NUMA node 0 to gpu 1: 10",
                                                       "gpu 2 to NUMA node 1: 5", "NUMA node 1 to gpu 2: 5",
                                                       "NUMA node 0 to NUMA node 1: 5", "NUMA node 1 to NUMA node 0: 5"});
}

TEST_CASE("without stated ways links between devices come before wider buses", "[unit][graph]") {
  const Machine m = machine(cpu(0, gpu(0, bus(0), nvlink(bus(1), 1)) + gpu(1, bus(1), nvlink(bus(0), 1))));
  CHECK(loads(m, {ring({0, 1}, 7)}) == Lines{"gpu 0 to gpu 1: 7", "gpu 1 to gpu 0: 7"});
}

TEST_CASE("planted overloads are found, with the link and by how much", "[unit][graph]") {
  const Machine m = three();
  CHECK(overloads(m, {ring({0, 1, 2}, 16000)}).empty());
  CHECK(overloads(m, {ring({0, 1, 2}, 16001)}) == Lines{"NUMA node 0 to NUMA node 1 (socket): 16001 of 16000 MB/s",
                                                        "NUMA node 1 to NUMA node 0 (socket): 16001 of 16000 MB/s"});
  CHECK(overloads(m, {ring({0, 1, 2}, 10000), ring({2, 1, 0}, 6000), ring({0, 1, 2}, 1)}).size() == 2);
  CHECK(overloads(m, {tree({1, -1, 1}, 12001)}) ==
        Lines{"gpu 1 to NUMA node 0 (PCI): 24002 of 24000 MB/s", "NUMA node 0 to gpu 1 (PCI): 24002 of 24000 MB/s"});
}

TEST_CASE("rates that are too high are scaled down until they fit", "[unit][graph]") {
  const Machine m = three();
  const std::vector<Channel> twice = {ring({0, 1, 2}, 16000), ring({0, 1, 2}, 16000)};
  CHECK(total_rate(twice) == 32000);
  CHECK(fitting_rate(load_of(m, gpus(m), twice), twice) == 16000);
  const std::vector<Channel> one = {ring({0, 1, 2}, 9000)};
  CHECK(fitting_rate(load_of(m, gpus(m), one), one) == 9000);
  const std::vector<Channel> none = {ring({0, 1}, 9000)};
  CHECK(fitting_rate(load_of(m, gpus(m), none), none) == 0);
}

TEST_CASE("channels that are none are told", "[unit][graph]") {
  const Machine m = three();
  CHECK(faults(m, ring({0, 1}, 5)) == Lines{"channel 0: its ring does not pass each of 3 devices once"});
  CHECK(faults(m, ring({0, 1, 1}, 5)) == Lines{"channel 0: its ring does not pass each of 3 devices once"});
  CHECK(faults(m, ring({0, 1, 3}, 5)) == Lines{"channel 0: its ring does not pass each of 3 devices once"});
  CHECK(faults(m, ring({0, 1, 2}, 0)) == Lines{"channel 0: its rate is 0 MB/s"});
  CHECK(faults(m, Channel{{}, {}, 5, {}}) == Lines{"channel 0: it has to be either a ring or a tree"});
  CHECK(faults(m, Channel{{0, 1, 2}, {-1, 0, 0}, 5, {}}) == Lines{"channel 0: it has to be either a ring or a tree"});
  CHECK(faults(m, tree({-1, 0}, 5)) == Lines{"channel 0: its tree is not one of 3 devices"});
  CHECK(faults(m, tree({-1, -1, 0}, 5)) == Lines{"channel 0: its tree has not one root"});
  CHECK(faults(m, tree({-1, 2, 1}, 5)).size() == 1);
  CHECK(faults(m, tree({-1, 7, 0}, 5)) == Lines{"channel 0: rank 1 is not below its tree's root"});
  const Machine apart = machine(cpu(0, gpu(0, bus(0)), "1") + cpu(0, gpu(1, bus(0)), "2"));
  CHECK(faults(apart, ring({0, 1}, 5)).size() == 2);
}

TEST_CASE("stated ways have to lead where their hops go", "[unit][graph]") {
  const Machine m = three();
  const Wiring wiring(m);
  const auto devices = gpus(m);
  Channel good = ring({0, 1, 2}, 5);
  for (size_t i = 0; i < 3; ++i) good.hops.push_back(path_between(wiring, devices[i], devices[(i + 1) % 3]).arcs);
  CHECK(load_of(m, gpus(m), std::vector<Channel>{good}).fits());
  Channel cut = good;
  cut.hops[1].pop_back();
  CHECK(faults(m, cut).size() == 1);
  Channel backwards = good;
  backwards.hops[0][0] = reverse(backwards.hops[0][0]);
  CHECK(faults(m, backwards).size() == 1);
  Channel outside = good;
  outside.hops[0][0] = 10000;
  CHECK(faults(m, outside).size() == 1);
  Channel few = good;
  few.hops.pop_back();
  CHECK(faults(m, few) == Lines{"channel 0: its ways are not as many as its hops"});
}
