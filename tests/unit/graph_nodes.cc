// Channels through several hosts.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "graph/channels.h"
#include "graph/double_tree.h"
#include "graph/load.h"
#include "support/catch.h"
#include "topo/copies.h"
#include "topo/text.h"
#include "unit/graph_support.h"

using namespace ronde;
using namespace ronde::graph;
using namespace ronde::topo;
using namespace ronde::test;

namespace {

/// Eight GPUs on NVLink switches, each next to a port of its own.
const char* const kBig = "2 cpu sapphire { 2 switch gen5x16 { 2 gpu h100; 2 nic gen5x16 400G } }\n";
/// Two GPUs on each of two CPUs, one port on the first.
const char* const kSmall =
    "cpu rome { switch gen4x16 { 2 gpu a100; nic gen4x16 100G } }; cpu rome { switch gen4x16 { 2 gpu a100 } }\n";

Machine big() { return read_text(std::string(kBig) + "nvlink 0-7 switch x18").machine; }
Machine hosts(const std::string& items, const std::string& links = "") {
  const auto read = from_text(items + "\n" + links, "hosts");
  INFO((read.ok() ? std::string() : read.error().what));
  REQUIRE(read.ok());
  return read->machine;
}

/// Requires that channels are found, and that they are what they have to be.
Joined found(const Machine& m, const std::vector<NodeId>& devices, Shape shape, const Limits& limits = {}) {
  auto joined = find_channels(m, devices, shape, limits);
  INFO((joined.ok() ? std::string() : joined.error().what));
  REQUIRE(joined.ok());
  const Load load = load_of(m, devices, joined->channels);
  CHECK(load.faults == std::vector<std::string>{});
  for (const Overload& over : load.over) FAIL_CHECK(describe(m, over));
  CHECK(joined->channels.size() <= static_cast<size_t>(limits.max_channels));
  CHECK(total_rate(joined->channels) <= joined->bound);
  CHECK(joined->node_of.size() == devices.size());
  return std::move(*joined);
}
std::string text(const Joined& joined) {
  return std::to_string(joined.channels.size()) + " x " + std::to_string(joined.channels.at(0).rate);
}
std::string error(const Machine& m, const Limits& limits = {}, Shape shape = Shape::ring) {
  const auto joined = find_channels(m, gpus(m), shape, limits);
  REQUIRE_FALSE(joined.ok());
  return joined.error().what;
}

/// The ports of each way through the network, out and in, as their numbers in their hosts.
std::vector<std::pair<int, int>> crossings(const Machine& m, const Channel& channel) {
  std::vector<std::pair<int, int>> all;
  for (const auto& hop : channel.hops) {
    for (size_t i = 0; i + 1 < hop.size(); ++i) {
      const Link& out = m.link(link_of(hop[i]));
      if (out.kind != LinkKind::network) continue;
      all.emplace_back(m.port(out.a).dev, m.port(m.link(link_of(hop[i + 1])).a).dev);
      ++i;
    }
  }
  return all;
}

/// Whether some hop leads from one GPU over NVLink and through another to a port.
bool passes_peers(const Machine& m, const Channel& channel) {
  return std::any_of(channel.hops.begin(), channel.hops.end(), [&](const std::vector<ArcId>& hop) {
    const auto of_kind = [&](LinkKind kind) {
      return std::any_of(hop.begin(), hop.end(), [&](ArcId arc) { return m.link(link_of(arc)).kind == kind; });
    };
    return of_kind(LinkKind::nvlink) && of_kind(LinkKind::network);
  });
}

}  // namespace

TEST_CASE("two binary trees: every node has a parent in both, and children in one", "[unit][graph]") {
  for (int n = 1; n <= 130; ++n) {
    INFO(n);
    std::vector<int> children[2];
    for (const bool second : {false, true}) {
      const std::vector<int> parent = binary_tree(n, second);
      REQUIRE(parent.size() == static_cast<size_t>(n));
      CHECK(std::count(parent.begin(), parent.end(), -1) == 1);
      children[second].assign(static_cast<size_t>(n), 0);
      for (int node = 0; node < n; ++node) {
        int steps = 0;
        for (int at = node; at != -1 && steps <= 10; ++steps) at = parent[static_cast<size_t>(at)];
        CHECK(steps <= 9);  // ceil(log2(130)) + 1
        if (parent[static_cast<size_t>(node)] != -1) ++children[second][static_cast<size_t>(parent[static_cast<size_t>(node)])];
      }
      CHECK(*std::max_element(children[second].begin(), children[second].end()) <= 2);
    }
    for (int node = 0; node < n; ++node)
      CHECK((children[0][static_cast<size_t>(node)] == 0 || children[1][static_cast<size_t>(node)] == 0));
    CHECK(most_edges(n) <= 4);
  }
  CHECK(most_edges(2) == 2);
  CHECK(most_edges(3) == 3);
}

TEST_CASE("the trees over nodes are those of the Programs", "[unit][graph]") {
  using Parents = std::vector<int>;
  CHECK(binary_tree(4, false) == Parents{1, 3, 1, -1});
  CHECK(binary_tree(4, true) == Parents{-1, 2, 0, 2});
  CHECK(binary_tree(5, false) == Parents{1, 3, 1, -1, 3});
  CHECK(binary_tree(5, true) == Parents{4, 2, 4, 2, -1});
}

TEST_CASE("several hosts alike: all ports are used", "[unit][graph]") {
  for (const int n : {2, 3, 4, 7, 16}) {
    INFO(n);
    const Machine m = copies(big(), n);
    const auto devices = gpus(m);
    const Joined rings = found(m, devices, Shape::ring);
    CHECK(text(rings) == "8 x 48000");
    CHECK(rings.nodes == n);
    for (size_t rank = 0; rank < devices.size(); ++rank) CHECK(rings.node_of[rank] == m.node(devices[rank]).host);
    const Joined trees = found(m, devices, Shape::chain);
    // Between two nodes there is one edge, between more the busiest node has four in two trees.
    CHECK(total_rate(trees.channels) >= (n == 2 ? 211000 : 190000));
    CHECK(trees.channels.size() % 2 == 0);
  }
}

TEST_CASE("a network hop stays on its rail", "[unit][graph]") {
  Limits limits;
  for (const int n : {2, 4}) {
    const Machine m = copies(big(), n);
    for (const CrossNic cross : {CrossNic::never, CrossNic::faster}) {
      limits.rules.cross_nic = cross;
      for (const Channel& ring : found(m, gpus(m), Shape::ring, limits).channels) {
        const auto hops = crossings(m, ring);
        REQUIRE(hops.size() == static_cast<size_t>(n));
        for (const auto& [out, in] : hops) CHECK(out == in);
        // Where rings may not change their rail, all hops are on one.
        if (cross == CrossNic::never) CHECK(std::count(hops.begin(), hops.end(), hops[0]) == n);
      }
    }
  }
}

TEST_CASE("rings change their rail only where that carries more", "[unit][graph]") {
  // Eight links of 20.6 GB/s to the switches are less than the ports carry: a ring that enters at one GPU and leaves by the port
  // of another takes seven hops over them instead of eight.
  const Machine m = copies(hosts(kBig, "nvlink 0-7 switch x8"), 2);
  Limits limits;
  limits.rules.cross_nic = CrossNic::never;
  const int64_t same = total_rate(found(m, gpus(m), Shape::ring, limits).channels);
  CHECK(same == 164800);
  limits.rules.cross_nic = CrossNic::faster;
  const int64_t other = total_rate(found(m, gpus(m), Shape::ring, limits).channels);
  CHECK(other > same * 8 / 7 - 10);
  limits.rules.cross_nic = CrossNic::free;
  CHECK(total_rate(found(m, gpus(m), Shape::ring, limits).channels) >= other);
  // With one port there is no other rail.
  const Machine one = copies(hosts(kSmall), 2);
  limits.rules.cross_nic = CrossNic::faster;
  CHECK(text(found(one, gpus(one), Shape::ring, limits)) == text(found(one, gpus(one), Shape::ring)));
}

TEST_CASE("out through the GPU that is next to the port, unless that is forbidden", "[unit][graph]") {
  const Machine m = copies(hosts(kSmall, "nvlink 0-3 switch x12"), 2);
  Limits limits;
  limits.rules.cross_nic = CrossNic::never;
  for (const bool pxn : {true, false}) {
    limits.rules.pxn = pxn;
    const Joined rings = found(m, gpus(m), Shape::ring, limits);
    CHECK(total_rate(rings.channels) == 12500 - (12500 % static_cast<int64_t>(rings.channels.size())));
    if (!pxn) {
      for (const Channel& ring : rings.channels) CHECK_FALSE(passes_peers(m, ring));
    }
  }
  // One GPU alone is next to the port: the last of a ring reaches it over that one, or crosses between the CPUs.
  const Machine far = copies(
      hosts("cpu rome { switch gen4x16 { gpu a100; nic gen4x16 200G } }; cpu rome { 3 gpu a100 }", "nvlink 0-3 switch x12"), 2);
  for (const bool pxn : {true, false}) {
    limits.rules.pxn = pxn;
    for (const Channel& ring : found(far, gpus(far), Shape::ring, limits).channels) CHECK(passes_peers(far, ring) == pxn);
  }
}

TEST_CASE("a port that may not access GPU memory is reached through the CPU", "[unit][graph]") {
  const Machine m = copies(hosts("cpu rome { switch gen4x16 { gpu a100; nic gen4x16 100G } }"), 2);
  Limits limits;
  const auto through_cpu = [&](const Machine& machine) {
    const Joined rings = found(machine, gpus(machine), Shape::ring, limits);
    const auto& hop = rings.channels.at(0).hops.at(0);
    return std::count_if(hop.begin(), hop.end(), [&](ArcId arc) {
      const Link& link = machine.link(link_of(arc));
      return machine.node(arc % 2 == 0 ? link.b : link.a).kind == NodeKind::numa;
    });
  };
  CHECK(through_cpu(m) == 0);
  limits.rules.gdr_level = Distance::loc;
  CHECK(through_cpu(m) == 2);
  limits.rules = {};
  for (const bool port : {true, false}) {
    Machine without = m;
    for (Port& each : without.ports) each.gdr = port ? 0 : 1;
    for (Gpu& each : without.gpus) each.gdr = port ? 1 : 0;
    CHECK(through_cpu(without) == 2);
  }
  // A tree passes the bus of the switch twice in each direction then.
  limits.rules.gdr_level = Distance::loc;
  const Machine narrow = copies(hosts("cpu rome { switch gen4x4 { 2 gpu a100; nic gen4x16 400G } }"), 3);
  found(narrow, gpus(narrow), Shape::chain, limits);
}

TEST_CASE("unlike nodes agree on the narrowest", "[unit][graph]") {
  const std::string links = "nvlink 0-7 switch x18\n";
  const Machine m =
      hosts("host { " + std::string(kBig) + "}\nhost { " + kSmall + "}\nhost { cpu icelake { gpu l4; nic gen3x8 25G } }", links);
  REQUIRE(gpus(m).size() == 13);
  for (const Shape shape : {Shape::ring, Shape::chain}) {
    const Joined joined = found(m, gpus(m), shape);
    CHECK(joined.nodes == 3);
    if (shape == Shape::ring) CHECK(total_rate(joined.channels) == 3125);
  }
  // Nodes of one kind but for the number of ports.
  const Machine ports =
      hosts("host { " + std::string(kBig) + "}\nhost { 2 cpu sapphire { 2 switch gen5x16 { 2 gpu h100; nic gen5x16 400G } } }",
            "nvlink 0-7 switch x18\nnvlink 8-15 switch x18");
  CHECK(total_rate(found(ports, gpus(ports), Shape::ring).channels) >= 191000);
}

TEST_CASE("many kinds of nodes share the steps of the search", "[unit][graph]") {
  std::string all;
  for (int host = 0; host < 20; ++host)
    all += "host { cpu rome { 3 gpu a100; nic gen4x16 { port mbits=" + std::to_string(50000 + 8000 * host) + " } } }\n";
  const Machine m = hosts(all);
  for (const Shape shape : {Shape::ring, Shape::chain}) {
    const Joined joined = found(m, gpus(m), shape);
    CHECK(joined.nodes == 20);
    CHECK(joined.steps <= Limits().steps);
    if (shape == Shape::ring) CHECK(total_rate(joined.channels) >= 6240);
  }
}

TEST_CASE("a node without a port is an error that names it", "[unit][graph]") {
  const Machine m = hosts("host { " + std::string(kSmall) + "}\nhost { cpu rome { 2 gpu a100 } }");
  for (const Shape shape : {Shape::ring, Shape::chain})
    CHECK(error(m, {}, shape) == "There is no way from gpu 0 of host 1 to gpu 0 of host 0: its host has no network port; add one, or describe it in RONDE_TOPO_FILE.");
  // Devices of one host do not care what others lack.
  CHECK(find_channels(m, std::vector<NodeId>{gpus(m)[4], gpus(m)[5]}, Shape::ring).ok());
}

TEST_CASE("ports of any number and speed", "[unit][graph]") {
  Limits limits;
  limits.max_channels = 4;
  const auto three = [](const std::string& gpus, const std::string& ports) {
    return copies(hosts("cpu rome { " + gpus + "; " + ports + " }; cpu rome { 2 gpu a100 }"), 3);
  };
  for (const std::string ports : {"nic gen4x16 { port mbits=100 }", "nic gen4x16 1G", "32 nic gen4x16 100G", "nic gen1x1 400G",
                                  "4 nic gen4x16 200G 200G"}) {
    INFO(ports);
    for (const std::string gpu : {"gpu a100", "3 gpu a100"}) {
      const Machine m = three(gpu, ports);
      for (const Shape shape : {Shape::ring, Shape::chain}) CHECK(found(m, gpus(m), shape, limits).channels[0].rate >= 1);
    }
  }
  // Of three nodes one has three edges in two trees, for which 1 MB/s is too little.
  const Machine slow = three("gpu a100", "nic gen4x16 { port mbits=8 }");
  CHECK(text(found(slow, gpus(slow), Shape::ring, limits)) == "1 x 1");
  CHECK(error(slow, limits, Shape::chain) ==
        "No chain through 3 devices and a port was found in 450000 steps; links that carry little may be why.");
}

TEST_CASE("one GPU in each host", "[unit][graph]") {
  const Machine one = hosts("cpu rome { switch gen4x16 { gpu a100; nic gen4x16 200G } }");
  for (const int n : {2, 3, 8}) {
    const Machine m = copies(one, n);
    CHECK(total_rate(found(m, gpus(m), Shape::ring).channels) == 24000);
    CHECK(total_rate(found(m, gpus(m), Shape::chain).channels) >= (n == 2 ? 24000 : 12000));
  }
}

TEST_CASE("hosts of one NVLink domain are one node", "[unit][graph]") {
  const Machine rack =
      hosts("host { cpu { 2 gpu b200; 2 nic 400G } }\nhost { cpu { 2 gpu b200; 2 nic 400G } }", "nvlink 0-3 domain x18");
  CHECK(found(rack, gpus(rack), Shape::ring).nodes == 1);
  const Machine two = copies(rack, 2);
  const Joined rings = found(two, gpus(two), Shape::ring);
  CHECK(rings.nodes == 2);
  CHECK(rings.node_of == std::vector<int>{0, 0, 0, 0, 1, 1, 1, 1});
  found(two, gpus(two), Shape::chain);
}

TEST_CASE("which rank has which device changes no channel through several hosts", "[unit][graph]") {
  const Machine m = copies(hosts(kSmall), 3);
  const auto devices = gpus(m);
  auto permuted = devices;
  std::reverse(permuted.begin() + 1, permuted.end());
  std::rotate(permuted.begin(), permuted.begin() + 5, permuted.end());
  for (const Shape shape : {Shape::ring, Shape::chain}) {
    const Joined one = found(m, devices, shape);
    const Joined other = found(m, permuted, shape);
    CHECK(text(one) == text(other));
    CHECK(load_of(m, devices, one.channels).by_arc == load_of(m, permuted, other.channels).by_arc);
    CHECK(found(m, devices, shape).channels == one.channels);
  }
}

TEST_CASE("more channels than there are links for are parts of others", "[unit][graph]") {
  const Machine m = copies(hosts(kSmall), 2);
  Limits limits;
  const int64_t total = total_rate(found(m, gpus(m), Shape::ring).channels);
  limits.min_channels = 12;
  const Joined many = found(m, gpus(m), Shape::ring, limits);
  CHECK(many.channels.size() >= 12);
  CHECK(total_rate(many.channels) >= total - 12);
  limits.max_channels = limits.min_channels = 7;
  CHECK(found(m, gpus(m), Shape::chain, limits).channels.size() >= 6);
}

TEST_CASE("without direct access devices share memory of their CPU, without that too they have the network", "[unit][graph]") {
  const Machine m = hosts("cpu rome { switch gen4x16 { 2 gpu a100 } }");
  Limits limits;
  limits.rules.p2p = false;
  const Joined rings = found(m, gpus(m), Shape::ring, limits);
  CHECK(rings.channels[0].hops[0].size() == 4);
  limits.rules = {};
  limits.rules.p2p_level = Distance::loc;
  CHECK(found(m, gpus(m), Shape::ring, limits).channels[0].hops == rings.channels[0].hops);
  limits.rules.p2p_level = Distance::pix;
  CHECK(found(m, gpus(m), Shape::ring, limits).channels[0].hops[0].size() == 2);
  limits.rules.p2p = limits.rules.shm = false;
  CHECK(contains(error(m, limits), "There is no way from gpu 0 to gpu 1"));
  const Machine port = hosts("cpu rome { switch gen4x16 { 2 gpu a100; nic gen4x16 200G } }");
  for (const Machine& several : {port, copies(port, 2)}) {
    for (const Shape shape : {Shape::ring, Shape::chain}) {
      const Joined joined = found(several, gpus(several), shape, limits);
      CHECK(total_rate(joined.channels) >= 8000);
      for (const auto& hop : joined.channels[0].hops) CHECK((hop.empty() || hop.size() >= 8));
    }
  }
}

TEST_CASE("over NVLink through another GPU, unless that is forbidden", "[unit][graph]") {
  const Machine m = hosts("cpu rome { 3 gpu v100 }", "nvlink 0 1 x2\nnvlink 1 2 x2");
  Limits limits;
  limits.rules.nvb = false;
  CHECK(total_rate(found(m, gpus(m), Shape::ring, limits).channels) < 40000);
  limits.rules.nvb = true;
  CHECK(total_rate(found(m, gpus(m), Shape::ring, limits).channels) >= 20000);
}

TEST_CASE("large machines are joined, not searched", "[unit][graph]") {
  const Machine m = copies(big(), 256);
  const Joined few = found(copies(big(), 3), gpus(copies(big(), 3)), Shape::ring);
  const Joined many = found(m, gpus(m), Shape::ring);
  CHECK(many.steps == few.steps);
  CHECK(text(many) == text(few));
  CHECK(total_rate(found(m, gpus(m), Shape::chain).channels) >= 190000);
}

TEST_CASE("nodes of any make: what is found fits", "[unit][graph]") {
  uint32_t state = 7;
  const auto random = [&](uint32_t below) {
    state = state * 1664525 + 1013904223;
    return static_cast<int>((state >> 8) % below);
  };
  for (int trial = 0; trial < 40; ++trial) {
    std::string all;
    for (int host = 2 + random(3); host > 0; --host) {
      std::string inside;
      for (int cpu = 1 + random(2); cpu > 0; --cpu) {
        std::string below = std::to_string(1 + random(3)) + " gpu a100; ";
        if (cpu == 1 || random(2) == 0)
          below += std::to_string(1 + random(3)) + " nic gen4x8 " + std::to_string(25 << random(4)) + "G; ";
        inside += "cpu rome { " +
                  (random(2) == 0 ? below : "switch gen4x" + std::to_string(4 << random(3)) + " { " + below + "}") + " }; ";
      }
      all += "host { " + inside + " }\n";
    }
    INFO(all);
    const Machine m = hosts(all);
    Limits limits;
    limits.steps = 20000;
    limits.max_channels = 1 + random(8);
    for (const Shape shape : {Shape::ring, Shape::chain}) found(m, gpus(m), shape, limits);
  }
}
