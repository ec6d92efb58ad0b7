// NCCL's graph files, in and out.
#include <fmt/core.h>

#include <numeric>

#include "graph/graph_file.h"
#include "graph/load.h"
#include "graph/search.h"
#include "graph_support.h"
#include "support/catch.h"

using namespace ronde;
using namespace ronde::graph;
using namespace ronde::test;
using ronde::topo::Distance;
using ronde::topo::kNone;
using ronde::topo::Machine;
using ronde::topo::NodeId;
using ronde::topo::NodeKind;

namespace {

std::vector<int> all(size_t n) {
  std::vector<int> numbers(n);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

std::vector<NodeId> devices_of(const Machine& machine) {
  std::vector<NodeId> devices = gpus(machine);
  for (const NodeId id : machine.of_kind(NodeKind::cpu_rank)) devices.push_back(id);
  return devices;
}

/// Writes and reads again; requires that the same comes back.
std::string written(const std::vector<FileGraph>& graphs, const Machine& machine) {
  const auto devices = devices_of(machine);
  const std::string text = to_graph_xml(graphs, machine, devices);
  INFO(text);
  const auto again = from_graph_xml(text, "g", machine, devices);
  INFO((again.ok() ? "" : again.error().what));
  REQUIRE(again.ok());
  CHECK(*again == graphs);
  return text;
}

std::string graphs(const std::string& inside) { return "<graphs version=\"1\">\n" + inside + "</graphs>\n"; }
std::string graph_with(const std::string& inside, const std::string& attributes = "id=\"0\" pattern=\"4\"") {
  return graphs("<graph " + attributes + ">\n" + inside + "</graph>\n");
}

std::string error_of(const std::string& xml) {
  const Machine box = switch_box(2);
  const auto read = from_graph_xml(xml, "g.xml", box, gpus(box));
  REQUIRE_FALSE(read.ok());
  CHECK(read.code() == Code::invalid_argument);
  return read.error().what;
}

}  // namespace

TEST_CASE("channels that a search finds come back from a file", "[unit][graph]") {
  for (const Machine& machine : {switch_box(8), cube_mesh(), pci_box(4), read_text("2 cpu { 3 cpurank; nic 100G }\n").machine,
                                 read_text("cpu { function { 2 gpu } }\n").machine, read_text("cpu { gpu dev=- }\n").machine}) {
    const auto devices = devices_of(machine);
    std::vector<FileGraph> file;
    for (const Shape shape : {Shape::ring, Shape::chain}) {
      const auto found = search(machine, devices, shape);
      REQUIRE(found.ok());
      const auto graph = graph_of(machine, devices, found->channels, shape, all(devices.size()));
      REQUIRE(graph.ok());
      CHECK(graph->id == (shape == Shape::ring ? kRingGraph : kTreeGraph));
      REQUIRE(graph->channels.size() == found->channels.size());
      for (size_t i = 0; i < graph->channels.size(); ++i) {
        const HostChannel& channel = graph->channels[i];
        CHECK((channel.in == kNone && channel.out == kNone));
        if (shape == Shape::ring) CHECK(channel.order == found->channels[i].ring);
        for (size_t at = 1; shape == Shape::chain && at < channel.order.size(); ++at)
          CHECK(found->channels[i].parent[static_cast<size_t>(channel.order[at])] == channel.order[at - 1]);
      }
      file.push_back(*graph);
    }
    written(file, machine);
  }
}

TEST_CASE("a graph file as it is written: numbers in hexadecimal, ports before and after the devices", "[unit][graph]") {
  std::string gpus_of_box;
  for (int i = 0; i < 12; ++i) gpus_of_box += gpu(i, bus(i), to_switch(6));
  const Machine box =
      machine(cpu(0, gpus_of_box + "<pci busid=\"0000:40:00.0\" class=\"0x020000\" link_speed=\"16 GT/s\" link_width=\"16\">"
                                   "<nic><net name=\"a\" dev=\"26\" speed=\"100000\"/></nic></pci>"));
  FileGraph ring;
  ring.rate_intra = 20600;
  ring.rate_inter = 12500;
  ring.latency_inter = 1.5;
  ring.type_intra = Distance::nvl;
  ring.type_inter = Distance::pxn;
  ring.cross_nic = 2;
  const NodeId port = box.of_kind(NodeKind::port)[0];
  ring.channels = {{all(12), port, port}};
  CHECK(
      written({ring}, box) ==
      "<graphs version=\"1\">\n"
      "  <graph id=\"0\" pattern=\"4\" crossnic=\"2\" nchannels=\"1\" speedintra=\"20.6\" speedinter=\"12.5\" "
      "latencyinter=\"1.5\" "
      "typeintra=\"NVL\" typeinter=\"PXN\" samechannels=\"0\">\n"
      "    <channel>\n      <net dev=\"1a\"/>\n      <gpu dev=\"0\"/>\n      <gpu dev=\"1\"/>\n      <gpu dev=\"2\"/>\n"
      "      <gpu dev=\"3\"/>\n      <gpu dev=\"4\"/>\n      <gpu dev=\"5\"/>\n      <gpu dev=\"6\"/>\n      <gpu dev=\"7\"/>\n"
      "      <gpu dev=\"8\"/>\n      <gpu dev=\"9\"/>\n      <gpu dev=\"a\"/>\n      <gpu dev=\"b\"/>\n      <net dev=\"1a\"/>\n"
      "    </channel>\n  </graph>\n</graphs>\n");
  // Files of others write 0x; graphs of NVLS list heads.
  const auto read =
      from_graph_xml(graph_with("<channel><gpu dev=\"0xb\"/></channel>\n", "id=\"3\" pattern=\"5\""), "g", box, gpus(box));
  REQUIRE(read.ok());
  CHECK((*read)[0].channels[0].order == std::vector<int>{11});
  CHECK((*read)[0].pattern == Pattern::nvls);
}

TEST_CASE("a channel over several hosts is cut to one of them", "[unit][graph]") {
  const std::string host = " { cpu { 2 gpu h100; nic gen5x16 100G; nic gen5x16 200G } }\n";
  const Machine two =
      read_text("host hash=1" + host + "host hash=2" + host + "nvlink 0-1 switch x6\nnvlink 2-3 switch x6\n").machine;
  const auto devices = gpus(two);
  const auto ports = two.of_kind(NodeKind::port);
  Channel ring;
  ring.ring = {1, 2, 3, 0};
  ring.rate = 7000;
  Channel tree;
  tree.parent = {-1, 0, 1, 2};
  tree.rate = 5000;
  const std::vector<int> first = {0, 1};
  const std::vector<int> second = {2, 3};
  const auto cut = [&](const Channel& channel, Shape shape, const std::vector<int>& members) {
    const auto graph = graph_of(two, devices, std::vector<Channel>{channel}, shape, members);
    REQUIRE(graph.ok());
    return *graph;
  };
  const FileGraph a = cut(ring, Shape::ring, first);
  // The best path is by the faster port.
  CHECK(a.channels == std::vector<HostChannel>{{{0, 1}, ports[1], ports[1]}});
  CHECK(a.rate_intra == 7000);
  CHECK(a.type_intra == Distance::nvl);
  CHECK(a.type_inter == Distance::phb);
  CHECK(cut(ring, Shape::ring, second).channels == std::vector<HostChannel>{{{0, 1}, ports[3], ports[3]}});
  CHECK(cut(tree, Shape::chain, first).channels == std::vector<HostChannel>{{{0, 1}, ports[1], ports[1]}});
  CHECK(cut(tree, Shape::chain, second).channels == std::vector<HostChannel>{{{0, 1}, ports[3], ports[3]}});

  ring.ring = {0, 2, 1, 3};
  CHECK(graph_of(two, devices, std::vector<Channel>{ring}, Shape::ring, first).error().what ==
        "writing a graph file: a channel passes the devices of the host of gpu 1 of host 0 in several pieces, which no graph file can "
        "say; ask for orders that pass each host's devices one after another, or unset RONDE_GRAPH_DUMP_FILE");
  tree.parent = {2, 2, -1, 2};
  CHECK(contains(graph_of(two, devices, std::vector<Channel>{tree}, Shape::chain, first).error().what, "in several pieces"));
  Channel star;
  star.parent = {-1, 0, 0, 0};
  CHECK(contains(graph_of(two, devices, std::vector<Channel>{star}, Shape::chain, all(4)).error().what, "with branches"));
}

TEST_CASE("what is no graph file says so, and where", "[unit][graph]") {
  const std::string channel = "<channel><gpu dev=\"0\"/><gpu dev=\"1\"/></channel>\n";
  CHECK(error_of("<system version=\"1\"/>") ==
        "g.xml:1: <system>: this is a topology file (NCCL_TOPO_FILE), not a graph file; expected <graphs>");
  CHECK(error_of("<html/>") == "g.xml:1: <html>: expected <graphs>, the root of a graph file");
  CHECK(error_of("") == "g.xml:1: not well-formed XML: No document element found");
  CHECK(contains(error_of("<graphs version=\"1\"><graph id=\"0\""), "g.xml:1: not well-formed XML"));
  CHECK(error_of("<graphs version=\"2\"/>") == "g.xml:1: <graphs> version=\"2\": expected a whole number from 1 to 1");
  CHECK(error_of(graphs("text")) == "g.xml:1: <graphs>: holds text (\"?text\") where only elements may stand");
  CHECK(error_of(graphs("<channel/>")) == "g.xml:2: <channel>: expected <graph>");
  CHECK(error_of(graph_with("", "pattern=\"4\"")) == "g.xml:2: <graph>: no id: 0 is a ring's, 1 a tree's");
  CHECK(error_of(graph_with("", "id=\"0\"")) == "g.xml:2: <graph>: no pattern: 4 is a ring, 1 to 3 are trees");
  CHECK(error_of(graph_with("", "id=\"0\" pattern=\"7\"")) ==
        "g.xml:2: <graph> pattern=\"7\": expected a whole number from 1 to 6");
  CHECK(error_of(graph_with("", "id=\"0\" pattern=\"4\" typeintra=\"NVLINK\"")) ==
        "g.xml:2: <graph> typeintra=\"NVLINK\": expected a type of path: LOC, NVL, NVB, C2C, PIX, PXB, P2C, PXN, PHB, SYS, NET "
        "or DIS");
  CHECK(error_of(graph_with("", "id=\"0\" pattern=\"4\" speedintra=\"-1\"")) ==
        "g.xml:2: <graph> speedintra=\"-1\": expected a number, not negative");
  CHECK(error_of(graph_with("", "id=\"0\" pattern=\"4\" speedinter=\"1e9\"")) ==
        "g.xml:2: <graph> speedinter=\"1e9\": more than 100000 GB/s");
  CHECK(error_of(graph_with(channel, "id=\"0\" pattern=\"4\" nchannels=\"2\"")) ==
        "g.xml:2: <graph> nchannels=\"2\": but the graph holds 1");
  CHECK(error_of(graphs("<graph id=\"0\" pattern=\"4\"/>\n<graph id=\"0\" pattern=\"3\"/>")) ==
        "g.xml:3: <graph> id=\"0\": a graph of this number stands further up");
  CHECK(error_of(graph_with("<gpu dev=\"0\"/>")) == "g.xml:3: <gpu>: expected <channel>");
  CHECK(error_of(graph_with("<channel>\n<cpu/></channel>")) == "g.xml:4: <cpu>: expected <net>, <gpu> or <cpurank>");
  CHECK(error_of(graph_with("<channel>\n<gpu/></channel>")) ==
        "g.xml:4: <gpu> dev=\"\": expected the hexadecimal number of a device");
  CHECK(error_of(graph_with("<channel>\n<gpu dev=\"xyz\"/></channel>")) ==
        "g.xml:4: <gpu> dev=\"xyz\": expected a hexadecimal number of at most 64 bits");
  CHECK(error_of(graph_with("<channel>\n<gpu dev=\"10\"/></channel>")) ==
        "g.xml:4: <gpu>: no device of this communicator has number 16");
  CHECK(error_of(graph_with("<channel>\n<cpurank rank=\"0\"/></channel>")) ==
        "g.xml:4: <cpurank>: no device of this communicator has number 0");
  CHECK(error_of(graph_with("<channel>\n<net dev=\"0\"/></channel>")) == "g.xml:4: <net>: no port of this host has number 0");
  CHECK(error_of(graph_with("<channel><gpu dev=\"0\"/></channel>")) == "g.xml:3: <channel>: does not pass gpu 1");
  CHECK(error_of(graph_with("<channel><gpu dev=\"0\"/><gpu dev=\"1\"/><gpu dev=\"0\"/></channel>")) ==
        "g.xml:3: <channel>: passes gpu 0 more than once");
  const Machine with_port = read_text("cpu { gpu; nic 100G }\n").machine;
  const auto twice =
      from_graph_xml(graph_with("<channel><net dev=\"0\"/><gpu dev=\"0\"/><net dev=\"0\"/>\n<net dev=\"0\"/></channel>"), "g",
                     with_port, gpus(with_port));
  REQUIRE_FALSE(twice.ok());
  CHECK(twice.error().what == "g:4: <net>: expected one <net> before the devices and one after them");
  const Machine hosts = read_text("host { cpu { gpu dev=0 } }\nhost { cpu { gpu dev=0 } }\n").machine;
  const auto apart = from_graph_xml(graph_with(""), "g", hosts, gpus(hosts));
  REQUIRE_FALSE(apart.ok());
  CHECK(contains(apart.error().what, "devices of one number, gpu 0 of host 0 and gpu 0 of host 1"));
}

TEST_CASE("a graph file where a topology file is expected says so", "[unit][graph]") {
  CHECK(contains(read_error(graph_with("")), "this is a graph file (NCCL_GRAPH_FILE), not a topology file; expected <system>"));
}
