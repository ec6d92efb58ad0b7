// Detection from copies of a host's /sys and /proc, which the tests write themselves, and of the host that they run on.
#include <sys/stat.h>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/fake_host.h"
#include "support/topo.h"
#include "topo/detect.h"
#include "topo/sysfs.h"
#include "topo/text.h"

using namespace ronde;
using namespace ronde::topo;
using ronde::test::FakeHost;
namespace fs = std::filesystem;

namespace {

const std::vector<std::string> kGen4 = {"16.0 GT/s PCIe", "16", "16.0 GT/s PCIe", "16"};

Reading detected(const std::string& root) {
  const auto reading = detect(root);
  INFO((reading.ok() ? std::string() : reading.error().what));
  REQUIRE(reading.ok());
  CHECK(check(reading->machine) == std::vector<std::string>{});
  // What was detected can be written to a file for others to read.
  CHECK(test::read_machine(to_xml(reading->machine)).machine == reading->machine);
  CHECK(test::read_text(to_text(reading->machine)).machine == reading->machine);
  CHECK(detect(root)->machine == reading->machine);
  return *reading;
}

bool noted(const Reading& reading, const std::string& part) {
  return std::any_of(reading.notes.begin(), reading.notes.end(),
                     [&](const std::string& note) { return note.find(part) != std::string::npos; });
}

/// The nodes as an indented tree: kind, address or name, and what the node states.
std::string tree_text(const Machine& m) {
  std::string text;
  for (NodeId id = 0; id < static_cast<NodeId>(m.nodes.size()); ++id) {
    const Node& node = m.node(id);
    if (node.kind == NodeKind::network) continue;
    for (NodeId above = node.parent; above != kNone; above = m.node(above).parent) text += "  ";
    text += to_string(node.kind);
    if (node.kind == NodeKind::numa) text += " " + std::to_string(m.numa(id).id) + " " + m.numa(id).cpus.text();
    if (const Pci* pci = m.pci_of(id)) {
      text += " " + to_string(pci->address) + " " + std::to_string(pci->speed) + "x" + std::to_string(pci->width);
    }
    if (node.kind == NodeKind::port) {
      const Port& port = m.port(id);
      text += " " + port.name + ":" + std::to_string(port.port) + " " + std::to_string(port.speed);
    }
    text += "\n";
  }
  return text;
}

const std::string kSocket0 = "pci0000:00/0000:00:01.0";
const std::string kSwitch0 = kSocket0 + "/0000:01:00.0";
const std::string kSocket1 = "pci0000:80/0000:80:01.0";
const std::string kSwitch1 = kSocket1 + "/0000:81:00.0";

void switch_with_gpu(const FakeHost& host, const std::string& root_port, const std::string& up, const std::string& bus,
                     const std::string& numa) {
  host.pci(root_port, "0x060400", "0x8086", numa, kGen4);
  host.pci(up, "0x060400", "0x1000", numa, kGen4);
  const std::string down = up + "/0000:0" + bus + ":00.0";
  host.pci(down, "0x060400", "0x1000", numa, kGen4);
  // At rest: 2.5 GT/s.
  host.pci(down + "/0000:1" + bus + ":00.0", "0x030200", "0x10de", numa, {"2.5 GT/s PCIe", "16", "32.0 GT/s PCIe", "16"});
  host.pci(down + "/0000:1" + bus + ":00.1", "0x040300", "0x10de", numa, kGen4);
}

/// Two sockets, each with a switch and a GPU; beside the second GPU an InfiniBand card of two ports.
void two_sockets(const FakeHost& host) {
  host.numa(0, "00000000,0000000f");
  host.numa(1, "00000000,000000f0");
  host.file("/proc/cpuinfo",
            "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: Xeon: fast\n\n"
            "processor\t: 1\nvendor_id\t: Other\n");
  switch_with_gpu(host, kSocket0, kSwitch0, "2", "0");
  switch_with_gpu(host, kSocket1, kSwitch1, "3", "1");
  const std::string down = kSwitch1 + "/0000:03:10.0";
  host.pci(down, "0x060400", "0x1000", "1", kGen4);
  const std::string card = host.pci(down + "/0000:90:00.0", "0x020700", "0x15b3", "-1", kGen4);
  host.rdma(card, "mlx5_0", {"200 Gb/sec (4X HDR)", "2.5 Gb/sec (1X SDR)"}, "0002:c903:00a0:b0c0");
  host.net(card, "ib0", "200000");
}

const char* const kTwoSockets =
    "NUMA node 0 f\n"
    "  switch 0000:01:00.0 16000x16\n"
    "    gpu 0000:12:00.0 16000x16\n"
    "NUMA node 1 f0\n"
    "  switch 0000:81:00.0 16000x16\n"
    "    gpu 0000:13:00.0 16000x16\n"
    "    nic 0000:90:00.0 16000x16\n"
    "      port mlx5_0:1 200000\n"
    "      port mlx5_0:2 2500\n";

}  // namespace

TEST_CASE("two sockets with switches, GPUs and a card of two ports are found as they are", "[unit][topo]") {
  const FakeHost host;
  two_sockets(host);
  const Reading reading = detected(host.root());
  const Machine& m = reading.machine;
  CHECK(tree_text(m) == kTwoSockets);
  for (const Numa& numa : m.numas) {
    CHECK(numa.arch == "x86_64");
    CHECK(numa.vendor == "GenuineIntel");
    CHECK(numa.family == 6);
    CHECK(numa.model == 143);
  }
  CHECK(m.ports.at(0).guid == 0x0002c90300a0b0c0);
  CHECK(m.ports.at(1).guid == 0x0002c90300a0b0c0);
  CHECK(m.pci.at(1).device_class == 0x030200);
  CHECK(m.pci.at(1).vendor == 0x10de);
  CHECK(m.pci.at(1).device == 0x1234);
  CHECK(m.pci.at(1).subsystem_vendor == -1);
  CHECK(reading.notes ==
        std::vector<std::string>{"network interface shares the wire of an RDMA port, which stands for both: ib0 (mlx5_0)"});
}

TEST_CASE("symbolic links lead nowhere outside the root", "[unit][topo]") {
  const FakeHost host;
  two_sockets(host);
  const FakeHost other;
  SECTION("an absolute one is meant as the host itself sees it") {
    fs::rename(host.at("/sys/bus/pci/devices"), host.at("/elsewhere"));
    for (const auto& entry : fs::directory_iterator(host.at("/elsewhere"))) {
      const std::string target = fs::read_symlink(entry.path()).string().substr(std::string("../../..").size());
      host.link("/sys/bus/pci/devices/" + entry.path().filename().string(), "/sys" + target);
    }
    CHECK(tree_text(detected(host.root()).machine) == kTwoSockets);
  }
  SECTION("one with too many .. ends at the root") {
    fs::rename(host.at("/sys/devices"), host.at("/devices"));
    host.link("/sys/devices", "../../../../../../../../../../../../../../../devices");
    CHECK(tree_text(detected(host.root()).machine) == kTwoSockets);
  }
  SECTION("another host's files are not read") {
    other.file("/cpumap", "ff\n");
    fs::remove(host.at("/sys/devices/system/node/node1/cpumap"));
    host.link("/sys/devices/system/node/node1/cpumap", other.at("/cpumap"));
    CHECK(detected(host.root()).machine.numas.size() == 1);
  }
}

TEST_CASE("CPUs that the process may not use are in no mask", "[unit][topo]") {
  const FakeHost host;
  two_sockets(host);
  SECTION("version 2, in the group itself") {
    host.file("/proc/self/cgroup", "0::/job/7\n");
    host.file("/sys/fs/cgroup/cpuset.cpus.effective", "0-7\n");
    host.file("/sys/fs/cgroup/job/7/cpuset.cpus.effective", "2-5\n");
  }
  SECTION("version 2, in a container that sees its group as the root") {
    host.file("/proc/self/cgroup", "0::/job/7\n");
    host.file("/sys/fs/cgroup/cpuset.cpus.effective", "2-3,4,5\n");
  }
  SECTION("version 1") {
    host.file("/proc/self/cgroup", "4:memory:/x\n3:cpu,cpuset:/job\n1:name=systemd:/\n0::/\n");
    host.file("/sys/fs/cgroup/cpuset/job/cpuset.cpus", "2-5\n");
  }
  SECTION("CPUs that are off") { host.file("/sys/devices/system/cpu/online", "2-5\n"); }
  const Machine m = detected(host.root()).machine;
  CHECK(m.numas.at(0).cpus.text() == "c");
  CHECK(m.numas.at(1).cpus.text() == "30");
}

TEST_CASE("a NUMA node without allowed CPUs stays for its devices; a set of CPUs that is nobody's is ignored", "[unit][topo]") {
  const FakeHost host;
  two_sockets(host);
  host.file("/proc/self/cgroup", "0::/\n");
  SECTION("one socket") {
    host.file("/sys/fs/cgroup/cpuset.cpus.effective", "4-7\n");
    const Reading reading = detected(host.root());
    CHECK(reading.machine.numas.at(0).cpus.empty());
    CHECK(reading.machine.gpus.size() == 2);
    CHECK(noted(reading, "no CPU of the NUMA node may be used: node 0"));
  }
  SECTION("none") {
    host.file("/sys/fs/cgroup/cpuset.cpus.effective", "100\n");
    const Reading reading = detected(host.root());
    CHECK(tree_text(reading.machine) == kTwoSockets);
    CHECK(noted(reading, "set of allowed CPUs"));
  }
}

TEST_CASE("NUMA nodes of memory alone are no CPUs; their devices are at the nearest node that has some", "[unit][topo]") {
  const FakeHost host;
  host.numa(0, "0f", "10 40 80 60");
  host.numa(8, "f0", "40 10 60 80");
  host.numa(254, "0", "80 60 10 80");
  host.numa(255, "00000000,00000000", "60 80 80 10");
  host.pci("pci0004:00/0004:04:00.0", "0x030200", "0x10de", "255", kGen4);
  host.pci("pci0035:00/0035:03:00.0", "0x030200", "0x10de", "254", kGen4);
  host.file("/proc/cpuinfo", "processor\t: 0\ncpu\t\t: POWER9, altivec supported\n\nmodel\t: 8335-GTW\n");
  const Machine m = detected(host.root()).machine;
  CHECK(tree_text(m) ==
        "NUMA node 0 f\n  gpu 0004:04:00.0 16000x16\n"
        "NUMA node 8 f0\n  gpu 0035:03:00.0 16000x16\n");
  CHECK(m.numas.at(0).arch == "ppc64");
  CHECK(m.numas.at(0).model == -1);
}

TEST_CASE("functions of unknown vendor are GPUs where their driver lists them; where they are, the CPUs near them tell",
          "[unit][topo]") {
  const FakeHost host;
  host.numa(0, "0f");
  host.numa(8, "f0");
  host.numa(9, "f00");
  host.file("/proc/self/cgroup", "0::/\n");
  host.file("/sys/fs/cgroup/cpuset.cpus.effective", "0-3\n");
  const std::pair<const char*, const char*> gpus[] = {
      {"0004:05:00.0", "00f0"}, {"0004:06:00.0", "0ff0"}, {"0004:07:00.0", "0fff"}, {"0004:08:00.0", "x"}};
  for (const auto& [address, cpus] : gpus) {
    host.file(std::string("/sys/bus/pci/devices/") + address + "/class", "0x030000\n");
    host.file(std::string("/sys/bus/pci/devices/") + address + "/local_cpus", cpus);
    host.file(std::string("/proc/driver/nvidia/gpus/") + address + "/information", "");
  }
  host.file("/sys/bus/pci/devices/0004:09:00.0/class", "0x030000\n");
  host.file("/proc/driver/nvidia/gpus/0004:99:00.0/information", "");
  const Reading reading = detected(host.root());
  CHECK(tree_text(reading.machine) ==
        "NUMA node 0 f\n  gpu 0004:07:00.0 0x0\n  gpu 0004:08:00.0 0x0\n"
        "NUMA node 8 0\n  gpu 0004:05:00.0 0x0\n  gpu 0004:06:00.0 0x0\n"
        "NUMA node 9 0\n");
  CHECK(noted(reading, "NUMA node not known, taken to be the first: 0004:07:00.0, 0004:08:00.0"));
}

TEST_CASE("virtual functions share their adapter, and those of GPUs are no GPUs", "[unit][topo]") {
  const FakeHost host;
  host.numa(0, "ff");
  const std::string port = host.pci("pci0000:00/0000:00:01.0", "0x060400", "0x8086", "0", kGen4);
  const std::string card = host.pci(port + "/0000:01:00.0", "0x020000", "0x15b3", "0", kGen4);
  const std::string second = host.pci(port + "/0000:01:00.1", "0x020000", "0x15b3", "0", kGen4);
  const std::string virtual0 = host.pci(port + "/0000:01:01.2", "0x020000", "0x15b3", "0", {"Unknown", "0", "Unknown", "0"});
  host.pci(port + "/0000:01:01.3", "0x020000", "0x15b3", "0", {"Unknown", "0", "Unknown", "0"});
  host.link("/sys/devices/" + virtual0 + "/physfn", "../0000:01:00.0");
  host.link("/sys/devices/" + port + "/0000:01:01.3/physfn", "../0000:01:00.0");
  host.net(second, "eth1", "100000");
  host.net(virtual0, "eth10", "-1");
  const std::string port2 = host.pci("pci0000:00/0000:00:02.0", "0x060400", "0x8086", "0", kGen4);
  host.pci(port2 + "/0000:02:00.0", "0x030200", "0x10de", "0", kGen4);
  host.pci(port2 + "/0000:02:00.4", "0x030200", "0x10de", "0", kGen4);
  host.link("/sys/devices/" + port2 + "/0000:02:00.4/physfn", "../0000:02:00.0");
  const std::string expected_gpu = "  gpu 0000:02:00.0 16000x16\n";
  SECTION("the physical function belongs to someone else") {
    CHECK(tree_text(detected(host.root()).machine) ==
          "NUMA node 0 ff\n  nic 0000:01:00.0 16000x16\n    port eth10:-1 0\n    port eth1:-1 100000\n" + expected_gpu);
  }
  SECTION("a bond of both functions is on the first alone") {
    host.rdma(card, "mlx5_bond_0", {"100 Gb/sec (4X EDR)"}, "0:0:0:0");
    host.file("/sys/class/infiniband/mlx5_bond_0/ports/1/gids/0", "fe80:0000:0000:0000:0000:0000:0000:00ab\n");
    const Machine m = detected(host.root()).machine;
    CHECK(tree_text(m) ==
          "NUMA node 0 ff\n  nic 0000:01:00.0 16000x16\n    port mlx5_bond_0:1 100000\n    port eth10:-1 0\n" + expected_gpu);
    CHECK(m.ports.at(0).guid == 0xab);
  }
}

TEST_CASE("interfaces: what is no port, what is down, and ports that are on no known bus", "[unit][topo]") {
  const FakeHost host;
  host.numa(0, "f");
  host.numa(1, "f0");
  const std::string card = host.pci("pci0000:00/0000:00:03.0", "0x020000", "0x1af4", "-1", {});
  host.net(card + "/virtio2", "eth0", "4294967295");
  host.net(host.pci("pci0000:00/0000:00:04.0", "0x020000", "0x8086", "1", {}), "eth1", "25000");
  host.file("/sys/class/net/eth1/operstate", "down\n");
  host.net("platform/soc", "eth2", "1000");
  host.file("/sys/devices/platform/soc/numa_node", "1\n");
  host.file("/sys/devices/virtual/net/lo/type", "772\n");
  host.link("/sys/class/net/lo", "../../devices/virtual/net/lo");
  host.file("/sys/devices/virtual/net/docker0/type", "1\n");
  host.link("/sys/class/net/docker0", "../../devices/virtual/net/docker0");
  host.file("/sys/class/net/bonding_masters", "bond0\n");
  host.rdma(card, "siw0", {"2.5 Gb/sec"}, "0:0:0:1");
  fs::remove(host.at("/sys/class/infiniband/siw0"));
  host.file("/sys/devices/virtual/infiniband/siw0/ports/1/rate", "2.5 Gb/sec\n");
  host.link("/sys/class/infiniband/siw0", "../../devices/virtual/infiniband/siw0");
  const Reading reading = detected(host.root());
  CHECK(tree_text(reading.machine) ==
        "NUMA node 0 f\n  nic 0000:00:03.0 0x0\n    port eth0:-1 0\n"
        "NUMA node 1 f0\n  nic\n    port eth2:-1 1000\n");
  CHECK(noted(reading, "port that is down left out: eth1"));
  CHECK(noted(reading, "network interface without hardware of its own left out: docker0"));
  CHECK(noted(reading, "RDMA device without hardware of its own left out: siw0"));
  CHECK(noted(reading, "NUMA node not known, taken to be the first: 0000:00:03.0"));
}

TEST_CASE("a virtual machine's bridges: one with several devices is a switch, one that states one lane slows no GPU",
          "[unit][topo]") {
  const FakeHost host;
  host.numa(0, "f");
  const std::string bridge = host.pci("pci0000:00/0000:00:01.0", "0x060400", "0x1b36", "-1", {"2.5 GT/s PCIe", "1"});
  host.pci(bridge + "/0000:01:01.0", "0x120000", "0x1002", "-1", kGen4);
  host.pci(bridge + "/0000:01:02.0", "0x038000", "0x1002", "-1", kGen4);
  host.pci(bridge + "/0000:01:03.0", "0x030000", "0x1002", "-1", kGen4);
  const std::string port =
      host.pci("pci0000:00/0000:00:02.0", "0x060400", "0x1b36", "-1", {"2.5 GT/s PCIe", "1", "2.5 GT/s PCIe", "1"});
  host.pci(port + "/0000:02:00.0", "0x030200", "0x10de", "-1", {"Unknown", "63", "32.0 GT/s PCIe", "16"});
  const Reading reading = detected(host.root());
  CHECK(tree_text(reading.machine) ==
        "NUMA node 0 f\n"
        "  switch 0000:00:01.0 2500x1\n"
        "    gpu 0000:01:01.0 16000x16\n"
        "    gpu 0000:01:02.0 16000x16\n"
        "  gpu 0000:02:00.0 32000x16\n");
  CHECK(noted(reading, "taken to be as fast as its fastest device"));
}

TEST_CASE("a chain of switches: every upward port is one", "[unit][topo]") {
  const FakeHost host;
  std::string path = "pci0000:00";
  for (int i = 1; i <= 5; ++i) {
    path = host.pci(path + "/0000:0" + std::to_string(i) + ":00.0", "0x060400", "0x1000", i == 3 ? "0" : "-1", kGen4);
  }
  host.pci(path + "/0000:06:00.0", "0x030200", "0x10de", "-1", kGen4);
  // Without a bus's list of its own, a parent is known by its place.
  fs::remove(host.at("/sys/bus/pci/devices/0000:02:00.0"));
  host.file("/sys/devices/system/cpu/online", "0-1\n");
  CHECK(tree_text(detected(host.root()).machine) ==
        "NUMA node 0 3\n  switch 0000:02:00.0 16000x16\n    switch 0000:04:00.0 16000x16\n      gpu 0000:06:00.0 16000x16\n");
}

TEST_CASE("without NUMA all CPUs are in one node, whatever file tells of them", "[unit][topo]") {
  const FakeHost host;
  const std::string cpu = "/sys/devices/system/cpu/";
  SECTION("online") { host.file(cpu + "online", "0,2-3\n"); }
  SECTION("present") { host.file(cpu + "present", "0,2-3\n"); }
  SECTION("folders") {
    for (const char* name : {"cpu0", "cpu2", "cpu3", "cpufreq", "cpu", "cpu007", "cpu99999999"}) host.file(cpu + name + "/x", "");
  }
  SECTION("cpuinfo") { host.file("/proc/cpuinfo", "processor\t: 0\n\nprocessor\t: 2\n\nprocessor\t: 3\n"); }
  CHECK(tree_text(detected(host.root()).machine) == "NUMA node 0 d\n");
}

TEST_CASE("a folder with nothing in it is a host of which nothing is known; no folder is an error", "[unit][topo]") {
  const FakeHost host;
  const Reading reading = detected(host.root());
  CHECK(tree_text(reading.machine) == "NUMA node 0 0\n");
  CHECK(reading.notes == std::vector<std::string>{"CPUs not known: node 0"});

  const auto missing = detect(host.at("/none"));
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.code() == Code::system_error);
  CHECK(missing.error().what.find(host.at("/none")) != std::string::npos);
  host.file("/file", "x");
  REQUIRE_FALSE(detect(host.at("/file")).ok());
  CHECK(detect(host.at("/file")).code() == Code::invalid_argument);
}

TEST_CASE("broken contents are unknown", "[unit][topo]") {
  const FakeHost host;
  two_sockets(host);
  const std::string broken =
      GENERATE(std::string(), std::string("\0\xff\x01", 3), std::string("99999999999999999999999999"),
               std::string("-99999999999999999999 GT/s"), std::string("nan GT/s"), std::string(200000, '7'),
               std::string(100000, ','), std::string("0-99999999"), std::string(": : :\n:\n\t:"));
  CAPTURE(broken.substr(0, 40));
  // One file at a time, then all of them.
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(host.root())) {
    if (entry.is_regular_file() && !entry.is_symlink()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  REQUIRE(files.size() > 60);
  for (const bool keep : {false, true}) {
    for (const fs::path& path : files) {
      const std::string place = path.string().substr(host.root().size());
      std::ifstream in(path, std::ios::binary);
      const std::string before{std::istreambuf_iterator<char>(in), {}};
      host.file(place, broken);
      if (keep) continue;
      INFO(place);
      const auto reading = detect(host.root());
      REQUIRE(reading.ok());
      CHECK(check(reading->machine) == std::vector<std::string>{});
      CHECK(reading->machine.numas.size() >= 1);
      host.file(place, before);
    }
  }
  const Machine m = detected(host.root()).machine;
  CHECK(m.gpus.empty());
  CHECK(m.numas.size() == 1);
}

TEST_CASE("links in circles, folders for files and files that never end a read are unknown", "[unit][topo]") {
  const FakeHost host;
  two_sockets(host);
  const std::string pci = "/sys/bus/pci/devices/";
  host.link(pci + "0000:aa:00.0", "0000:aa:00.0");
  host.link(pci + "0000:ab:00.0", "0000:ac:00.0");
  host.link(pci + "0000:ac:00.0", "0000:ab:00.0");
  host.link(pci + "0000:ad:00.0", "../devices/../devices/0000:ad:00.0/x");
  host.link(pci + "0000:ae:00.0", "nowhere");
  host.link("/sys/class/net/loop0", "loop0");
  host.link("/sys/class/infiniband/loop1", ".");
  // Functions that seem to be inside themselves and each other.
  host.pci("pci0000:70/0000:70:00.0/0000:71:00.0/0000:70:00.0", "0x030200", "0x10de", "0", kGen4);
  host.file("/sys/devices/system/node/node2/cpumap/x", "");
  fs::create_directories(host.at("/sys/devices/system/node/node3"));
  REQUIRE(mkfifo(host.at("/sys/devices/system/node/node3/cpumap").c_str(), 0600) == 0);
  fs::remove(host.at("/proc/cpuinfo"));
  REQUIRE(mkfifo(host.at("/proc/cpuinfo").c_str(), 0600) == 0);
  const Machine m = detected(host.root()).machine;
  CHECK(m.numas.size() == 2);
  CHECK(m.gpus.size() == 3);
  CHECK(m.numas.at(0).vendor == "");
}

TEST_CASE("this host is detected, and has CPUs", "[unit][topo]") {
  const Machine m = detected("/").machine;
  CHECK(detected("").machine == m);
  CHECK(!m.numas.empty());
  CHECK(std::any_of(m.numas.begin(), m.numas.end(), [](const Numa& numa) { return !numa.cpus.empty(); }));
  CHECK(!m.numas.at(0).arch.empty());
}

TEST_CASE("names in order of their numbers, CPU lists and numbers as Linux writes them", "[unit][topo]") {
  const FakeHost host;
  for (const char* name : {"eth10", "eth2", "eth1", "eth01", "a", "eth", "10", "9"}) host.file(std::string("/d/") + name, "");
  const auto files = HostFiles::open(host.root());
  REQUIRE(files.ok());
  CHECK(!files->running());
  CHECK(files->names("/d") == std::vector<std::string>{"9", "10", "a", "eth", "eth01", "eth1", "eth2", "eth10"});
  CHECK(files->names("/none").empty());
  CHECK(parse_number("0x1f") == 31);
  CHECK(parse_number("-1") == -1);
  for (const char* text : {"", " 1", "1 ", "0x", "0x-1", "1.5", "9223372036854775808"}) CHECK(!parse_number(text));
  CHECK(parse_cpu_list("")->empty());
  CHECK(parse_cpu_list("0-3,8")->text() == "10f");
  for (const char* text : {"3-1", "-1", "0-65536", "a", "1-", "1,x"}) CHECK(!parse_cpu_list(text));
}
