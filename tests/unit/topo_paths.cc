// Paths through machines: what forwards and what does not, which of several is taken, how far apart two devices are said to be.
#include <limits>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/topo.h"
#include "topo/paths.h"

using namespace ronde;
using namespace ronde::topo;
using ronde::test::read_machine;

namespace {

std::string gpu(int dev, const std::string& busid, const std::string& inside = "") {
  const std::string number = std::to_string(dev);
  return "<pci busid=\"" + busid + "\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\"><gpu dev=\"" + number +
         "\" sm=\"70\" rank=\"" + number + "\">" + inside + "</gpu></pci>";
}
std::string nvlink(const std::string& target, int count, const std::string& target_class = "0x030200") {
  return "<nvlink target=\"" + target + "\" count=\"" + std::to_string(count) + "\" tclass=\"" + target_class + "\"/>";
}
std::string nic(const std::string& busid, const std::string& name, int speed) {
  return "<pci busid=\"" + busid + "\" class=\"0x020000\" link_speed=\"16 GT/s\" link_width=\"16\"><nic><net name=\"" + name +
         "\" speed=\"" + std::to_string(speed) + "\"/></nic></pci>";
}
std::string pci_switch(const std::string& busid, const std::string& inside) {
  return "<pci busid=\"" + busid + "\" class=\"0x060400\" link_speed=\"16 GT/s\" link_width=\"16\">" + inside + "</pci>";
}
std::string cpu(int numa, const std::string& inside, const std::string& hash = "1") {
  return "<cpu host_hash=\"" + hash + "\" numaid=\"" + std::to_string(numa) + "\" arch=\"x86_64\" vendor=\"AuthenticAMD\">" +
         inside + "</cpu>";
}
Machine machine(const std::string& inside) { return read_machine("<system version=\"1\">" + inside + "</system>").machine; }

/// "PIX 24: gpu 0, switch 0000:01:00.0, gpu 1"
std::string text(const Machine& m, NodeId from, const Path& path) {
  if (!path.found()) return "DIS";
  std::string out = std::string(to_string(path.distance)) + " " + std::to_string(path.rate / 1000) + ":";
  for (const NodeId node : nodes_of(m, from, path)) out += (out.back() == ':' ? " " : ", ") + describe(m, node);
  return out;
}

/// From the GPU of one rank to that of another.
std::string between(const Machine& m, int from, int to, const Routing& routing = {}) {
  const Wiring wiring(m);
  const NodeId start = m.device_of_rank(from);
  return text(m, start, path_between(wiring, start, m.device_of_rank(to), routing));
}
/// From a GPU to a port of that name.
std::string to_port(const Machine& m, int from, const std::string& name, const Routing& routing = {}) {
  const Wiring wiring(m);
  const NodeId start = m.device_of_rank(from);
  for (const NodeId port : m.of_kind(NodeKind::port)) {
    if (m.port(port).name == name) return text(m, start, path_between(wiring, start, port, routing));
  }
  return "no such port";
}

/// Two CPUs; on the first a tree of switches with three GPUs and an adapter, and a GPU of its own; on the second a GPU.
Machine pci_box() {
  return machine(cpu(0, pci_switch("0000:01:00.0",
                                   pci_switch("0000:02:00.0", gpu(0, "0000:03:00.0") + gpu(1, "0000:04:00.0")) +
                                       pci_switch("0000:05:00.0", gpu(2, "0000:06:00.0") + nic("0000:07:00.0", "near", 100000))) +
                            gpu(3, "0000:08:00.0")) +
                 cpu(1, gpu(4, "0000:80:00.0")));
}

}  // namespace

TEST_CASE("distances over PCI", "[unit][topo]") {
  const Machine m = pci_box();
  CHECK(between(m, 0, 0) == "LOC " + std::to_string(std::numeric_limits<int64_t>::max() / 1000) + ": gpu 0");
  CHECK(between(m, 0, 1) == "PIX 24: gpu 0, switch 0000:02:00.0, gpu 1");
  CHECK(between(m, 0, 2) == "PXB 24: gpu 0, switch 0000:02:00.0, switch 0000:01:00.0, switch 0000:05:00.0, gpu 2");
  CHECK(between(m, 0, 3) == "PHB 24: gpu 0, switch 0000:02:00.0, switch 0000:01:00.0, NUMA node 0, gpu 3");
  CHECK(between(m, 3, 4) == "SYS 16: gpu 3, NUMA node 0, NUMA node 1, gpu 4");
  CHECK(to_port(m, 2, "near") == "PIX 12: gpu 2, switch 0000:05:00.0, nic 0000:07:00.0, port near");
  CHECK(to_port(m, 0, "near") ==
        "PXB 12: gpu 0, switch 0000:02:00.0, switch 0000:01:00.0, switch 0000:05:00.0, nic 0000:07:00.0, port near");
}

TEST_CASE("GPUs joined directly; through another GPU only where that is allowed", "[unit][topo]") {
  const std::string a = "0000:01:00.0";
  const std::string b = "0000:02:00.0";
  const std::string c = "0000:03:00.0";
  const std::string d = "0000:04:00.0";
  const Machine m =
      machine(cpu(0, gpu(0, a, nvlink(b, 2)) + gpu(1, b, nvlink(a, 2) + nvlink(c, 1)) + gpu(2, c, nvlink(b, 1) + nvlink(d, 3)) +
                         gpu(3, d, nvlink(c, 3)) + nic("0000:05:00.0", "net", 8000)));
  CHECK(between(m, 0, 1) == "NVL 40: gpu 0, gpu 1");
  // One NVLink (20 GB/s) is fewer arcs, PCI (24 GB/s) is wider.
  CHECK(between(m, 1, 2) == "PHB 24: gpu 1, NUMA node 0, gpu 2");
  Routing shortest;
  shortest.prefer = Routing::Prefer::shortest;
  CHECK(between(m, 1, 2, shortest) == "NVL 20: gpu 1, gpu 2");
  CHECK(between(m, 0, 2, shortest) == "PHB 24: gpu 0, NUMA node 0, gpu 2");
  shortest.forwarding_gpus = 1;
  // As short as PCI but narrower.
  CHECK(between(m, 0, 2, shortest) == "PHB 24: gpu 0, NUMA node 0, gpu 2");
  std::vector<int64_t> left(arc_count(m));
  for (size_t arc = 0; arc < left.size(); ++arc) {
    const Link& link = m.link(link_of(static_cast<ArcId>(arc)));
    left[arc] = link.kind == LinkKind::nvlink ? link.rate : 0;
  }
  Routing nvlinks;
  nvlinks.left = left;
  CHECK(between(m, 0, 1, nvlinks) == "NVL 40: gpu 0, gpu 1");
  CHECK(between(m, 0, 2, nvlinks) == "DIS");
  nvlinks.forwarding_gpus = 1;
  CHECK(between(m, 0, 2, nvlinks) == "NVB 20: gpu 0, gpu 1, gpu 2");
  CHECK(between(m, 0, 3, nvlinks) == "DIS");
  nvlinks.forwarding_gpus = 2;
  CHECK(between(m, 0, 3, nvlinks) == "NVB 20: gpu 0, gpu 1, gpu 2, gpu 3");
}

TEST_CASE("through an NVLink switch, and from it to another GPU's adapter", "[unit][topo]") {
  const std::string all = nvlink("fffffff:ff:ff.0", 6, "0x068000");
  const Machine m = machine(cpu(0, gpu(0, "0000:01:00.0", all)) +
                            cpu(1, pci_switch("0000:80:00.0", gpu(1, "0000:81:00.0", all) + nic("0000:82:00.0", "far", 180000))));
  CHECK(between(m, 0, 1) == "NVL 120: gpu 0, NVSwitch, gpu 1");
  CHECK(to_port(m, 0, "far") == "SYS 16: gpu 0, NUMA node 0, NUMA node 1, switch 0000:80:00.0, nic 0000:82:00.0, port far");
  Routing through;
  through.forwarding_gpus = 1;
  CHECK(to_port(m, 0, "far", through) == "PXN 22: gpu 0, NVSwitch, gpu 1, switch 0000:80:00.0, nic 0000:82:00.0, port far");
}

TEST_CASE("over C2C", "[unit][topo]") {
  const std::string c2c = "<c2c bw=\"40000\" count=\"5\"/>";
  const Machine m =
      machine(cpu(0, gpu(0, "0000:01:00.0", c2c) + gpu(1, "0000:02:00.0", c2c) + nic("0000:03:00.0", "net", 160000)));
  const Wiring wiring(m);
  const NodeId first = m.device_of_rank(0);
  CHECK(text(m, first, path_between(wiring, first, 0)) == "C2C 200: gpu 0, NUMA node 0");
  CHECK(to_port(m, 0, "net") == "P2C 20: gpu 0, NUMA node 0, nic 0000:03:00.0, port net");
  CHECK(between(m, 0, 1) == "PHB 200: gpu 0, NUMA node 0, gpu 1");
}

TEST_CASE("parts of one GPU are in one place", "[unit][topo]") {
  const Machine m = machine(cpu(
      0, "<pci busid=\"0000:01:00.0\"><gpu dev=\"0\" rank=\"0\" mlopart=\"0\"/><gpu dev=\"0\" rank=\"1\" mlopart=\"1\"/></pci>"));
  CHECK(between(m, 0, 1) == "LOC 2618: gpu 0 part 0, function 0000:01:00.0, gpu 0 part 1");
}

TEST_CASE("hosts are joined by the network, where it may be used", "[unit][topo]") {
  const Machine m = machine(cpu(0, gpu(0, "0000:01:00.0") + gpu(1, "0000:02:00.0") + nic("0000:03:00.0", "a", 80000), "1") +
                            cpu(0, gpu(2, "0000:01:00.0") + nic("0000:03:00.0", "b", 40000), "2"));
  CHECK(between(m, 0, 2) == "DIS");
  Routing network;
  network.network = true;
  CHECK(between(m, 0, 2, network) ==
        "NET 5: gpu 0 of host 0, NUMA node 0 of host 0, nic 0000:03:00.0 of host 0, port a of host 0, network, port b of host 1, "
        "nic 0000:03:00.0 of host 1, NUMA node 0 of host 1, gpu 2 of host 1");
  CHECK(between(m, 0, 1, network) == "PHB 24: gpu 0 of host 0, NUMA node 0 of host 0, gpu 1 of host 0");
}

TEST_CASE("what arcs have left decides", "[unit][topo]") {
  const Machine m = pci_box();
  const Wiring wiring(m);
  std::vector<int64_t> left(arc_count(m));
  for (size_t arc = 0; arc < left.size(); ++arc) left[arc] = m.link(link_of(static_cast<ArcId>(arc))).rate;
  Routing routing;
  routing.left = left;
  const NodeId from = m.device_of_rank(0);
  const NodeId to = m.device_of_rank(1);
  const Path path = path_between(wiring, from, to, routing);
  REQUIRE(path.arcs.size() == 2);
  left[static_cast<size_t>(path.arcs[1])] = 7000;
  CHECK(path_between(wiring, from, to, routing).rate == 7000);
  CHECK(path_between(wiring, to, from, routing).rate == 24000);
  left[static_cast<size_t>(path.arcs[1])] = 0;
  CHECK_FALSE(path_between(wiring, from, to, routing).found());
  CHECK(path_between(wiring, to, from, routing).found());
}

TEST_CASE("paths to all are the paths to each; each arc starts where the last one ended", "[unit][topo]") {
  const Machine m = pci_box();
  const Wiring wiring(m);
  for (const auto prefer : {Routing::Prefer::widest, Routing::Prefer::shortest}) {
    Routing routing;
    routing.prefer = prefer;
    routing.network = true;
    for (NodeId from = 0; from < static_cast<NodeId>(m.nodes.size()); ++from) {
      const auto all = paths_from(wiring, from, routing);
      REQUIRE(all.size() == m.nodes.size());
      for (NodeId to = 0; to < static_cast<NodeId>(m.nodes.size()); ++to) {
        const Path& path = all[static_cast<size_t>(to)];
        CHECK(path == path_between(wiring, from, to, routing));
        CHECK(path.found());
        NodeId at = from;
        for (const ArcId arc : path.arcs) {
          const Link& link = m.link(link_of(arc));
          CHECK((arc % 2 == 0 ? link.a : link.b) == at);
          at = arc % 2 == 0 ? link.b : link.a;
        }
        CHECK(at == to);
      }
    }
  }
}
