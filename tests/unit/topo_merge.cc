// Several descriptions of hosts as one Machine.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/topo.h"
#include "topo/merge.h"
#include "topo/source.h"
#include "topo/text.h"

using namespace ronde;
using namespace ronde::topo;
using ronde::test::contains;
using ronde::test::links_text;
using ronde::test::read_text;

namespace {

using Lines = std::vector<std::string>;

Machine machine(const std::string& text) { return read_text(text).machine; }

/// Merges in every order, requires that it is the same each time and a Machine that can be written and read.
Reading merged(std::vector<Machine> machines) {
  auto first = merge(machines);
  REQUIRE(first.ok());
  CHECK(check(first->machine) == Lines{});
  const Reading again = read_text(to_text(first->machine));
  CHECK(to_text(again.machine) == to_text(first->machine));
  CHECK(again.machine == first->machine);
  std::vector<size_t> order(machines.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  while (std::next_permutation(order.begin(), order.end())) {
    std::vector<Machine> shuffled;
    for (const size_t i : order) shuffled.push_back(machines[i]);
    const auto other = merge(shuffled);
    REQUIRE(other.ok());
    REQUIRE(other->machine == first->machine);
    REQUIRE(other->notes == first->notes);
  }
  return std::move(*first);
}

/// The machine with another identity of its host and ranks from `first` on.
Machine as_host(Machine machine, uint64_t hash, int first) {
  machine.hosts[0].hash = hash;
  for (Gpu& gpu : machine.gpus) gpu.rank += first;
  return machine;
}

/// The machine as the process of one rank describes it: only its own GPU has a rank.
Machine seen_by(Machine machine, int rank) {
  for (Gpu& gpu : machine.gpus) gpu.rank = gpu.rank == rank ? rank : -1;
  return machine;
}

void same_again(const Machine& m, const std::string& name) {
  INFO(name);
  const auto alone = merge(std::vector<Machine>{m});
  REQUIRE(alone.ok());
  CHECK(to_text(alone->machine) == to_text(m));
  CHECK(alone->machine == m);
  CHECK(alone->notes == Lines{});
  const auto twice = merge(std::vector<Machine>{m, m});
  REQUIRE(twice.ok());
  CHECK(twice->machine == m);
  CHECK(complete(m, {}).machine == m);
  const Reading completed = complete(m, m);
  CHECK(to_text(completed.machine) == to_text(m));
  CHECK(completed.machine == m);
}

/// Files of machines in a folder.
std::vector<std::string> files(const std::string& folder, const std::string& extension) {
  std::vector<std::string> all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == extension) all.push_back(entry.path());
  }
  std::sort(all.begin(), all.end());
  return all;
}

const std::string kTwoGpus = "2 cpu icelake {\n switch {\n  gpu h100\n  nic gen5x16 400G\n }\n}\nnvlink 0-1 switch x18\n";

}  // namespace

TEST_CASE("a machine merged with itself is itself", "[unit][topo][merge]") {
  for (const std::string& file : files("tests/golden/machines", ".machine")) same_again(load_machine(file)->machine, file);
  same_again(
      machine("cpu {\n function {\n 2 gpu\n nic\n }\n gpu nobus\n gpu nobus\n nic nobus { port; port name=a; port name=a }\n"
              "nic { port name=\"\"; port name=\"\"; gpu }\n nic nobus 10G\n function\n 2 cpurank rank=-\n}\n"
              "cpu numa=- { switch class=1 { gpu; switch { gpu { nic 100G } } } }\ncpu numa=- { cpurank }\n"
              "nvlink 0-2 switch x2\nxgmi 0 1 x3\nnvlink 3 cpu x1\npcilink 0 1\n"),
      "odd");
}

TEST_CASE("real machines merged with themselves are themselves", "[unit][topo][merge]") {
  const std::string folder = test::topologies();
  if (folder.empty())
    RONDE_SKIP("TEST_TOPOLOGIES names no folder with topology files");
  int machines = 0;
  for (const std::string& file : files(folder, ".xml")) {
    const auto read = load_machine(file);
    if (!read.ok()) continue;
    same_again(read->machine, file);
    ++machines;
  }
  CHECK(machines > 0);
}

TEST_CASE("ranks of one host each know their own device", "[unit][topo][merge]") {
  const Machine whole = machine(kTwoGpus);
  CHECK(merged({seen_by(whole, 0), seen_by(whole, 1)}).machine == whole);
  CHECK(merged({seen_by(whole, 1), seen_by(whole, 0), whole}).notes == Lines{});
}

TEST_CASE("what one process sees and another does not is in the result", "[unit][topo][merge]") {
  const Reading both =
      merged({machine("cpu numa=0 {\n switch busid=01:00.0 {\n  gpu busid=02:00.0 rank=0 sm=90\n }\n}\n"),
              machine("cpu numa=0 sapphire cpus=ff {\n switch busid=01:00.0 gen5x16 {\n  gpu busid=03:00.0 rank=1 h100\n"
                      "  nic busid=04:00.0 { port name=eth0 port=1 400G rail=3 plane=1 }\n }\n}\n"
                      "cpu numa=1 sapphire {\n switch busid=81:00.0 {\n  gpu busid=82:00.0 rank=- h100\n }\n}\n"
                      "nvlink 0-1 switch x18\n")});
  CHECK(both.notes == Lines{});
  CHECK(links_text(both.machine) ==
        "switch 0000:01:00.0 - NUMA node 0: PCI x16 48 derived\n"
        "gpu 0 - switch 0000:01:00.0: PCI x16 12 assumed\n"
        "gpu 0 - switch 0000:01:00.0: PCI x16 48 derived\n"
        "nic 0000:04:00.0 - switch 0000:01:00.0: PCI x16 12 assumed\n"
        "port eth0 - nic 0000:04:00.0: internal x1 50 given\n"
        "switch 0000:81:00.0 - NUMA node 1: PCI x16 48 assumed\n"
        "gpu 1 - switch 0000:81:00.0: PCI x16 48 derived\n"
        "gpu 0 - NVSwitch: NVLink x18 370.8 table\n"
        "gpu 1 - NVSwitch: NVLink x18 370.8 table\n"
        "NUMA node 0 - NUMA node 1: socket x1 22 table\n"
        "port eth0 - network: network x1 50 given\n");
  CHECK(both.machine.ports[0].rail == 3);
  CHECK(both.machine.ports[0].plane == 1);
  CHECK(both.machine.device_of_rank(0) != kNone);
  CHECK(both.machine.device_of_rank(1) != kNone);
}

TEST_CASE("details that one knows fill in what another does not", "[unit][topo][merge]") {
  const Reading both = merged(
      {machine(
           "cpu {\n gpu busid=02:00.0 rank=0\n gpu busid=03:00.0 rank=- b200 c2c=5 c2crate=45000\n cpurank rank=4 cpus=3\n}\n"),
       machine("cpu {\n gpu busid=02:00.0 rank=- h100 gdr=1 domain=ab\n gpu busid=03:00.0 rank=1\n cpurank rank=4 cores=2 "
               "rate=9000\n}\n")});
  CHECK(both.notes == Lines{});
  REQUIRE(both.machine.gpus.size() == 2);
  CHECK(both.machine.gpus[0].sm == 90);
  CHECK(both.machine.gpus[0].gdr == 1);
  CHECK(both.machine.gpus[0].domain == 0xab);
  CHECK(both.machine.gpus[1].sm == 100);
  CHECK(both.machine.gpus[1].rank == 1);
  CHECK(both.machine.gpus[1].c2c_links == 5);
  REQUIRE(both.machine.cpu_ranks.size() == 1);
  CHECK(both.machine.cpu_ranks[0].cpus.text() == "3");
  CHECK(both.machine.cpu_ranks[0].cores == 2);
  CHECK(both.machine.cpu_ranks[0].rate == 9000);
}

TEST_CASE("contradictions: the lowest rank counts, and a note says what about", "[unit][topo][merge]") {
  const Reading both = merged(
      {machine(
           "host hash=a { cpu numa=0 {\n gpu busid=02:00.0 rank=0 sm=90 gen4x16\n nic busid=04:00.0 { port name=p 100G }\n} }\n"
           "nvlink 0 switch x4"),
       machine(
           "host hash=a { cpu numa=0 {\n nic busid=02:00.0 200G\n}\n cpu numa=1 {\n nic busid=04:00.0 { port name=p 200G }\n gpu "
           "busid=06:00.0 rank=5 } }\n"),
       machine("host hash=a { cpu numa=0 {\n gpu busid=02:00.0 rank=3 sm=80 gen5x16\n gpu busid=05:00.0 rank=0\n} }\n"
               "nvlink 0 switch x6")});
  CHECK(
      both.notes ==
      Lines{
          "descriptions of a host differ in PCI speed (MT/s), the first counts: gpu 0 (a) has 16000, not 32000",
          "descriptions of a host differ in the rank of a GPU, the first counts: gpu 0 (a) has 0, not 3",
          "descriptions of a host differ in the model of a GPU, the first counts: gpu 0 (a) has 90, not 80",
          "descriptions of a host differ in links of a GPU to NVLink switches, the smaller number counts: 0000:02:00.0: 4 and 6",
          "descriptions of a host differ in what a PCI function is, the first counts: nic 0000:02:00.0 (a) has gpu, not nic",
          "descriptions of a host differ in port speed (Mbit/s), the first counts: port p (a) has 100000, not 200000",
          "rank that several devices have, the first counts: 0"});
  CHECK(both.machine.device_of_rank(5) != kNone);
  CHECK(both.machine.gpus[0].sm == 90);
  CHECK(both.machine.ports[0].speed == 100000);
}

TEST_CASE("hosts are apart though their bus ids are the same, in the order of their ranks", "[unit][topo][merge]") {
  const Machine one = machine(kTwoGpus);
  std::vector<Machine> given;
  for (const int host : {2, 0, 1}) {
    for (const int local : {1, 0})
      given.push_back(seen_by(as_host(one, static_cast<uint64_t>(30 - host), 2 * host), 2 * host + local));
  }
  const Reading cluster = merged(given);
  CHECK(cluster.notes == Lines{});
  CHECK(cluster.machine == machine("host hash=1e {\n" + kTwoGpus.substr(0, kTwoGpus.find("nvlink")) + "}\nhost hash=1d {\n" +
                                   kTwoGpus.substr(0, kTwoGpus.find("nvlink")) + "}\nhost hash=1c {\n" +
                                   kTwoGpus.substr(0, kTwoGpus.find("nvlink")) + "}\nnvlink 0-5 switch x18\n"));
  CHECK(cluster.machine.of_kind(NodeKind::nv_switch).size() == 3);
  CHECK(cluster.machine.of_kind(NodeKind::network).size() == 1);
}

TEST_CASE("NVLink domains of several hosts: by their identity, or because one description has them", "[unit][topo][merge]") {
  const auto tray = [](int host, const char* domain) {
    const std::string gpus = std::string("cpu grace { 2 gpu b200 domain=") + domain + "\n nic 400G }\nnvlink 0-1 switch x18\n";
    return as_host(machine(gpus), static_cast<uint64_t>(host + 1), 2 * host);
  };
  const Reading racks = merged({tray(0, "aa"), tray(1, "bb"), tray(2, "aa"), tray(3, "bb")});
  CHECK(racks.notes == Lines{});
  const auto switches = racks.machine.of_kind(NodeKind::nv_switch);
  REQUIRE(switches.size() == 2);
  const auto switch_of = [&](int rank) {
    for (const Link& link : racks.machine.links) {
      if (link.a == racks.machine.device_of_rank(rank) && link.kind == LinkKind::nvlink) return link.b;
    }
    return kNone;
  };
  for (int rank = 0; rank < 8; ++rank) CHECK(switch_of(rank) == switches[static_cast<size_t>(rank / 2 % 2)]);
  for (const NodeId id : switches) CHECK(racks.machine.node(id).host == kNone);
  CHECK(merged({tray(0, "0"), tray(1, "0")}).machine.of_kind(NodeKind::nv_switch).size() == 2);

  // Files of whole racks have no names for what joins their hosts.
  const auto rack = [](int first) {
    const std::string host = "{ cpu grace { 2 gpu b200 } }\n";
    Machine m = machine("host hash=" + std::to_string(first + 1) + host + "host hash=" + std::to_string(first + 2) + host +
                        "nvlink 0-3 domain x18\n");
    for (Gpu& gpu : m.gpus) gpu.rank += 2 * first;
    return m;
  };
  CHECK(merged({rack(0)}).machine == rack(0));
  const Machine two = merged({rack(0), rack(2)}).machine;
  REQUIRE(two.of_kind(NodeKind::nv_switch).size() == 2);
  CHECK(two.gpus[0].domain != 0);
  CHECK(two.gpus[0].domain == two.gpus[3].domain);
  CHECK(two.gpus[0].domain != two.gpus[4].domain);
}

TEST_CASE("a file's functions become what the host has there, and what only one of them has is added", "[unit][topo][merge]") {
  const Machine file = machine(
      "cpu numa=0 cpus=f0 {\n switch busid=ffff:ff:01.0 {\n  function busid=01:00.0 gen4x16\n"
      "  function busid=02:00.0\n  function busid=03:00.0\n }\n nic nobus { port name=eth0 }\n}\n");
  const Machine host = machine(
      "cpu numa=0 milan cpus=3c {\n switch busid=00:01.0 { gpu busid=01:00.0 h100 rank=- }\n"
      " nic busid=02:00.0 gen4x8 { port name=mlx5_0 port=1 100G }\n nic busid=09:00.0 { port name=eth0 port=1 25G }\n}\n"
      "cpu numa=1 milan cpus=f00 { gpu busid=81:00.0 rank=- }\n");
  const Reading both = complete(file, host);
  CHECK(to_text(both.machine) ==
        to_text(machine(
            "cpu numa=0 milan cpus=30 {\n switch busid=ffff:ff:01.0 {\n  gpu busid=01:00.0 h100 rank=- gen4x16 class=0x030200\n"
            "  nic busid=02:00.0 gen4x8 { port name=mlx5_0 port=1 100G }\n  function busid=03:00.0\n }\n"
            " nic nobus { port name=eth0 dev=0 25G port=1 }\n}\ncpu numa=1 milan cpus=f00 { gpu busid=81:00.0 rank=- }\n")));
}

TEST_CASE("a file whose one node has no number is the host's one node", "[unit][topo][merge]") {
  const Machine file = machine("cpu numa=- { gpu busid=01:00.0 }\n");
  const Reading both = complete(file, machine("cpu numa=0 cpus=f { nic 100G }\n"));
  REQUIRE(both.machine.numas.size() == 1);
  CHECK(both.machine.numas[0].id == 0);
  CHECK(both.machine.numas[0].cpus.text() == "f");
  CHECK(complete(file, machine("2 cpu\n")).machine.numas.size() == 3);
  CHECK(complete(machine("2 cpu\n"), file).machine.numas.size() == 3);
  // CPUs that the process may not use are not its node's.
  CHECK(complete(machine("cpu cpus=f0\n"), machine("cpu cpus=f\n")).machine.numas[0].cpus.text() == "f");
}

TEST_CASE("nothing to merge is an error, an empty machine is none", "[unit][topo][merge]") {
  CHECK(merge({}).code() == Code::invalid_argument);
  CHECK(merged({Machine(), Machine()}).machine == Machine());
  CHECK(complete({}, machine(kTwoGpus)).machine == machine(kTwoGpus));
}

TEST_CASE("without ranks a machine is what it is for any communicator", "[unit][topo][merge]") {
  CHECK(without_ranks(machine("cpu { gpu rank=3; cpurank; nic 100G }\n")) ==
        machine("cpu { gpu rank=-; nic 100G busid=02:00.0 }\n"));
}
