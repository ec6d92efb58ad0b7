// The channels that are found on machines of different kinds.
#include <algorithm>
#include <string>
#include <vector>

#include "graph/load.h"
#include "graph/search.h"
#include "support/catch.h"
#include "topo/assembly.h"
#include "unit/graph_support.h"

using namespace ronde;
using namespace ronde::graph;
using namespace ronde::topo;
using namespace ronde::test;

namespace {

/// The channels that the search finds; requires that it does, that no link is asked for too much, and that the bound holds.
Channels found(const Machine& machine, const std::vector<NodeId>& devices, Shape shape, const Limits& limits = {}) {
  auto channels = search(machine, devices, shape, limits);
  INFO((channels.ok() ? std::string() : channels.error().what));
  REQUIRE(channels.ok());
  const Load load = load_of(machine, devices, channels->channels);
  CHECK(load.faults == std::vector<std::string>{});
  for (const auto& over : load.over) FAIL_CHECK(describe(machine, over));
  CHECK(channels->channels.size() >= 1);
  CHECK(channels->channels.size() <= static_cast<size_t>(limits.max_channels));
  CHECK(total_rate(channels->channels) <= channels->bound);
  CHECK(channels->steps <= limits.steps * std::max<int64_t>(1, static_cast<int64_t>(devices.size() * devices.size()) / 1024));
  return std::move(*channels);
}

/// "6 x 20000"
std::string text(const Channels& channels) {
  return std::to_string(channels.channels.size()) + " x " + std::to_string(channels.channels.at(0).rate);
}

std::string error(const Machine& m, const std::vector<NodeId>& devices, const Limits& limits = {}) {
  const auto channels = search(m, devices, Shape::ring, limits);
  REQUIRE_FALSE(channels.ok());
  return channels.error().what;
}

/// The ring as its devices' nodes, from the lowest on.
std::vector<NodeId> nodes_of_ring(const Channel& channel, const std::vector<NodeId>& devices) {
  std::vector<NodeId> nodes;
  for (const int rank : channel.ring) nodes.push_back(devices[static_cast<size_t>(rank)]);
  std::rotate(nodes.begin(), std::min_element(nodes.begin(), nodes.end()), nodes.end());
  return nodes;
}

Machine cpu_ranks(int numas, int each) {
  Assembly assembly;
  const int32_t host = assembly.host(1);
  for (int n = 0; n < numas; ++n) {
    Numa numa;
    numa.id = n;
    numa.arch = "x86_64";
    numa.vendor = "AuthenticAMD";
    const NodeId node = assembly.numa(host, numa);
    for (int i = 0; i < each; ++i) {
      CpuRank rank;
      rank.rank = n * each + i;
      rank.cores = 1;
      rank.rate = 8000;
      assembly.cpu_rank(node, rank);
    }
  }
  return assembly.finish();
}

}  // namespace

TEST_CASE("devices on an NVLink switch use all of it, without a search", "[unit][graph]") {
  for (const int devices : {2, 8, 16, 72}) {
    const Machine m = switch_box(devices);
    const Channels rings = found(m, gpus(m), Shape::ring);
    CHECK(text(rings) == "3 x 40000");
    CHECK(rings.bound == 120000);
    CHECK(rings.steps == 0);
  }
  Limits narrow;
  narrow.max_rate = 20000;
  CHECK(text(found(switch_box(8), gpus(switch_box(8)), Shape::ring, narrow)) == "6 x 20000");
  // More where the channels would not be enough otherwise.
  narrow.max_channels = 4;
  CHECK(text(found(switch_box(8), gpus(switch_box(8)), Shape::ring, narrow)) == "4 x 30000");
}

TEST_CASE("chains over an NVLink switch take turns at being an end", "[unit][graph]") {
  const Machine m = switch_box(8);
  const Channels chains = found(m, gpus(m), Shape::chain);
  // An inner device is loaded twice: one chain alone would carry half of 120000.
  CHECK(text(chains) == "8 x 8571");
  CHECK(chains.bound == 68571);
  const Machine two = switch_box(2);
  CHECK(text(found(two, gpus(two), Shape::chain)) == "3 x 40000");
}

TEST_CASE("a slow device on an NVLink switch holds all up", "[unit][graph]") {
  const Machine m = machine(cpu(0, gpu(0, bus(0), to_switch(6)) + gpu(1, bus(1), to_switch(2)) + gpu(2, bus(2), to_switch(6))));
  const Channels rings = found(m, gpus(m), Shape::ring);
  CHECK(total_rate(rings.channels) == 40000);
}

TEST_CASE("a hybrid cube mesh is divided into rings to the last link", "[unit][graph]") {
  const Machine m = cube_mesh();
  const Channels rings = found(m, gpus(m), Shape::ring);
  CHECK(text(rings) == "6 x 20000");
  CHECK(rings.bound == 120000);
  // Not one byte goes over a bus.
  for (const Channel& channel : rings.channels) {
    for (const auto& hop : channel.hops) CHECK(hop.size() == 1);
  }
  CHECK(total_rate(found(m, gpus(m), Shape::chain).channels) >= 60000);
}

TEST_CASE("cliques are divided into rings, in halves where whole links do not do", "[unit][graph]") {
  // Four devices with one link to each other: three rings of whole links do not exist, six of halves do.
  const auto clique = [](int devices) {
    std::string inside;
    for (int i = 0; i < devices; ++i) {
      std::string links;
      for (int to = 0; to < devices; ++to) links += to == i ? "" : nvlink(bus(to), 1);
      inside += gpu(i, bus(i), links);
    }
    return machine(cpu(0, inside));
  };
  CHECK(text(found(clique(4), gpus(clique(4)), Shape::ring)) == "6 x 10000");
  CHECK(text(found(clique(8), gpus(clique(8)), Shape::ring)) == "7 x 20000");
  CHECK(total_rate(found(clique(8), gpus(clique(8)), Shape::chain).channels) == 80000);
}

TEST_CASE("PCI and two sockets: the ring crosses each way between sockets once", "[unit][graph]") {
  for (const int each : {1, 4, 8}) {
    const Machine m = pci_box(each);
    const Channels rings = found(m, gpus(m), Shape::ring);
    CHECK(text(rings) == "1 x 16000");
    CHECK(rings.bound == 16000);
  }
  const Machine m = pci_box(4);
  CHECK(nodes_of_ring(found(m, gpus(m), Shape::ring).channels[0], gpus(m)) == gpus(m));
  // A device inside a chain has its bus loaded twice.
  CHECK(total_rate(found(m, gpus(m), Shape::chain).channels) >= 12000);
}

TEST_CASE("pairs with NVLink: within pairs over it, between them over PCI, there and back", "[unit][graph]") {
  std::string halves[2];
  for (int i = 0; i < 8; ++i) halves[i / 4] += gpu(i, bus(i), nvlink(bus(i ^ 1), 4));
  const Machine m = machine(cpu(0, halves[0]) + cpu(1, halves[1]));
  const Channels rings = found(m, gpus(m), Shape::ring);
  CHECK(total_rate(rings.channels) == 16000);
  const Machine one = machine(cpu(0, halves[0]));
  // Each device sends over PCI in one of the two directions, and over NVLink in the other: twice what PCI alone carries.
  const Channels both = found(one, gpus(one), Shape::ring);
  CHECK(text(both) == "2 x 24000");
  const std::vector<Channel> set = both.channels;
  const Load load = load_of(one, gpus(one), set);
  for (size_t i = 0; i < one.links.size(); ++i) {
    if (one.links[i].kind == LinkKind::nvlink) CHECK(load.by_arc[2 * i] + load.by_arc[2 * i + 1] == 48000);
  }
}

TEST_CASE("links between devices that carry less than the buses are not preferred to them", "[unit][graph]") {
  // A ring of single links at 20 GB/s, both directions; the bus would add 24.
  const Machine m = machine(cpu(0, gpu(0, bus(0), nvlink(bus(1), 1) + nvlink(bus(2), 1)) +
                                       gpu(1, bus(1), nvlink(bus(0), 1) + nvlink(bus(2), 1)) +
                                       gpu(2, bus(2), nvlink(bus(0), 1) + nvlink(bus(1), 1))));
  CHECK(text(found(m, gpus(m), Shape::ring)) == "2 x 20000");
  Machine slow = m;
  for (Link& link : slow.links) {
    if (link.kind == LinkKind::nvlink) link.rate = 1000;
  }
  CHECK(total_rate(found(slow, gpus(slow), Shape::ring).channels) >= 24000);
}

TEST_CASE("unlike widths", "[unit][graph]") {
  // Three GPUs behind a switch with 4 lanes upwards, one beside it.
  const Machine m =
      machine(cpu(0, pci_switch("0000:01:00.0", gpu(0, bus(0)) + gpu(1, bus(1)) + gpu(2, bus(2)), 4) + gpu(3, bus(3))));
  const Channels rings = found(m, gpus(m), Shape::ring);
  CHECK(text(rings) == "1 x 6000");
  CHECK(nodes_of_ring(rings.channels[0], gpus(m)).size() == 4);
  CHECK(text(found(m, gpus(m), Shape::chain)) == "1 x 6000");
}

TEST_CASE("parts of one GPU reach each other inside it", "[unit][graph]") {
  const Machine m = machine(cpu(0, "<pci busid=\"0000:01:00.0\"><gpu dev=\"0\" rank=\"0\" mlopart=\"0\">" + to_switch(6) +
                                       "</gpu><gpu dev=\"0\" rank=\"1\" mlopart=\"1\">" + to_switch(6) + "</gpu></pci>"));
  const Channels rings = found(m, gpus(m), Shape::ring);
  CHECK(rings.channels.size() == 32);
  CHECK(total_rate(rings.channels) > 2600000);
}

TEST_CASE("CPU ranks", "[unit][graph]") {
  const Machine m = cpu_ranks(2, 32);
  const auto devices = m.of_kind(NodeKind::cpu_rank);
  REQUIRE(devices.size() == 64);
  const Channels rings = found(m, devices, Shape::ring);
  CHECK(total_rate(rings.channels) == 8000);
  CHECK(total_rate(found(m, devices, Shape::chain).channels) >= 4000);
}

TEST_CASE("too many devices to search are an error, not a wait", "[unit][graph]") {
  const Machine m = cpu_ranks(1, 1025);
  CHECK(contains(error(m, m.of_kind(NodeKind::cpu_rank)), "1025 devices cannot be searched at once, only through 1024"));
}

TEST_CASE("several hosts in one NVLink domain are one", "[unit][graph]") {
  const std::string tray = gpu(0, "0000:01:00.0", to_switch(6)) + gpu(1, "0000:02:00.0", to_switch(6));
  std::string second = gpu(2, "0000:01:00.0", to_switch(6)) + gpu(3, "0000:02:00.0", to_switch(6));
  const auto read = from_xml("<system version=\"1\">" + cpu(0, tray, "1") + cpu(0, second, "2") + "</system>", "m.xml");
  REQUIRE(read.ok());
  const Machine& m = read->machine;
  REQUIRE(m.of_kind(NodeKind::nv_switch).size() == 1);
  CHECK(text(found(m, gpus(m), Shape::ring)) == "3 x 40000");
}

TEST_CASE("which rank has which device changes no channel", "[unit][graph]") {
  for (const Machine& m : {cube_mesh(), pci_box(4), switch_box(8)}) {
    const auto devices = gpus(m);
    auto permuted = devices;
    for (int turn = 0; turn < 5; ++turn) {
      std::next_permutation(permuted.begin(), permuted.end());
      std::rotate(permuted.begin(), permuted.begin() + 3, permuted.end());
      for (const Shape shape : {Shape::ring, Shape::chain}) {
        const Channels one = found(m, devices, shape);
        const Channels other = found(m, permuted, shape);
        REQUIRE(one.channels.size() == other.channels.size());
        CHECK(one.bound == other.bound);
        CHECK(one.steps == other.steps);
        CHECK(load_of(m, devices, one.channels).by_arc == load_of(m, permuted, other.channels).by_arc);
        for (size_t i = 0; i < one.channels.size() && shape == Shape::ring; ++i) {
          CHECK(nodes_of_ring(one.channels[i], devices) == nodes_of_ring(other.channels[i], permuted));
          CHECK(one.channels[i].hops == other.channels[i].hops);
        }
      }
    }
  }
}

TEST_CASE("the same input gives the same channels", "[unit][graph]") {
  for (const Shape shape : {Shape::ring, Shape::chain}) {
    const Machine one = cube_mesh();
    const Machine other = cube_mesh();
    CHECK(found(one, gpus(one), shape).channels == found(other, gpus(other), shape).channels);
  }
}

TEST_CASE("each rate of a found set, raised by one, is too much where the set is as good as can be", "[unit][graph]") {
  const Machine m = cube_mesh();
  auto set = found(m, gpus(m), Shape::ring).channels;
  for (Channel& channel : set) {
    ++channel.rate;
    CHECK_FALSE(load_of(m, gpus(m), set).fits());
    --channel.rate;
  }
  set.push_back(set[0]);
  CHECK(load_of(m, gpus(m), set).over.size() >= 8);
}

TEST_CASE("fewer steps find fewer channels or none, never wrong ones", "[unit][graph]") {
  const Machine m = cube_mesh();
  Limits limits;
  int64_t last = 0;
  for (limits.steps = 1; limits.steps <= 4096; limits.steps *= 2) {
    const auto channels = search(m, gpus(m), Shape::ring, limits);
    if (!channels.ok()) {
      CHECK(last == 0);
      CHECK(channels.error().what == "No ring through 8 devices was found in " + std::to_string(limits.steps) + " steps.");
      continue;
    }
    CHECK(load_of(m, gpus(m), channels->channels).fits());
    last = std::max(last, total_rate(channels->channels));
  }
  CHECK(last == 120000);
  limits.steps = 1;
  CHECK_FALSE(search(m, gpus(m), Shape::ring, limits).ok());
}

TEST_CASE("one device is a ring of its own; two on one, none, and what is no device are errors", "[unit][graph]") {
  const Machine m = pci_box(2);
  const auto devices = gpus(m);
  for (const Shape shape : {Shape::ring, Shape::chain}) CHECK(text(found(m, {devices[0]}, shape)) == "1 x 50000");
  CHECK(error(m, {}) == "A channel search needs at least one device.");
  CHECK(error(m, {devices[0], devices[1], devices[0]}) == "Ranks 0 and 2 both run on gpu 0.");
  CHECK(error(m, {devices[0], 0}) == "Rank 1 cannot run on NUMA node 0: it is no device.");
  CHECK(contains(error(m, {devices[0], 1000}), "Rank 1 has device 1000"));
  Limits none;
  none.max_channels = 0;
  CHECK(contains(error(m, devices, none), "0 channels"));
}

TEST_CASE("devices that only a network joins are an error that names two", "[unit][graph]") {
  const Machine m = machine(cpu(0, gpu(0, bus(0)), "1") + cpu(0, gpu(1, bus(0)), "2"));
  CHECK(error(m, gpus(m)) ==
        "There is no way from gpu 0 of host 0 to gpu 1 of host 1 inside the machine; devices that only a network "
        "joins are searched host by host.");
}

TEST_CASE("machines of any make: what is found fits, and something is found", "[unit][graph]") {
  uint32_t state = 1;
  const auto random = [&](uint32_t below) {
    state = state * 1664525 + 1013904223;
    return static_cast<int>((state >> 8) % below);
  };
  for (int trial = 0; trial < 100; ++trial) {
    INFO(trial);
    const int devices = 2 + random(8);
    std::vector<std::vector<int>> links(static_cast<size_t>(devices), std::vector<int>(static_cast<size_t>(devices), 0));
    for (int i = random(20); i > 0; --i) {
      const int a = random(static_cast<uint32_t>(devices));
      const int b = random(static_cast<uint32_t>(devices));
      if (a == b) continue;
      ++links[static_cast<size_t>(a)][static_cast<size_t>(b)];
      ++links[static_cast<size_t>(b)][static_cast<size_t>(a)];
    }
    std::string inside;
    for (int device = 0, numa = 0; device < devices; ++numa) {
      std::string bridge;
      for (int i = 1 + random(4); i > 0 && device < devices; --i, ++device) {
        std::string peers;
        for (int to = 0; to < devices; ++to) {
          const int count = links[static_cast<size_t>(device)][static_cast<size_t>(to)];
          if (count > 0) peers += nvlink(bus(to), count);
        }
        bridge += gpu(device, bus(device), peers);
      }
      inside +=
          cpu(numa, random(2) == 0 ? bridge : pci_switch("0000:0" + std::to_string(numa) + ":00.0", bridge, 4 << random(3)));
    }
    const Machine m = machine(inside);
    Limits limits;
    limits.steps = 20000;
    for (const Shape shape : {Shape::ring, Shape::chain}) found(m, gpus(m), shape, limits);
    // Of steps there have to be as many as it takes to go once from device to device.
    limits.steps = 2 * devices * devices;
    for (const Shape shape : {Shape::ring, Shape::chain}) found(m, gpus(m), shape, limits);
  }
}
