// Cores and caches as a host's files have them, and CPU ranks shared out over them.
#include <sched.h>
#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/fake_host.h"
#include "support/topo.h"
#include "topo/cpu_ranks.h"
#include "topo/detect.h"
#include "topo/text.h"

using namespace ronde;
using namespace ronde::topo;
using ronde::test::FakeHost;

namespace {

CpuMask cpus(const std::string& hex) { return CpuMask::parse(hex).value(); }

/// Two NUMA nodes of four cores with two CPUs each (n and n + 8); L2 by core, one L3 a node.
void two_nodes(const FakeHost& host) {
  host.numa(0, "0f0f");
  host.numa(1, "f0f0");
  for (int cpu = 0; cpu < 16; ++cpu) {
    const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu);
    const std::string core = std::to_string(cpu % 8) + "," + std::to_string(cpu % 8 + 8);
    const std::string node = cpu % 8 < 4 ? "0-3,8-11" : "4-7,12-15";
    host.file(folder + "/topology/thread_siblings_list", core + "\n");
    const std::vector<std::vector<std::string>> caches = {{"1", "Data", "32K", core},
                                                          {"1", "Instruction", "32K", core},
                                                          {"2", "Unified", "1024K", core},
                                                          {"3", "Unified", "16384K", node}};
    for (size_t i = 0; i < caches.size(); ++i) {
      const std::string index = folder + "/cache/index" + std::to_string(i);
      const char* names[] = {"/level", "/type", "/size", "/shared_cpu_list"};
      for (size_t j = 0; j < 4; ++j) host.file(index + names[j], caches[i][j] + "\n");
    }
  }
}

HostCpus read(const FakeHost& host) {
  const auto found = detect_cpus(host.root());
  REQUIRE(found.ok());
  return *found;
}

Machine machine(const FakeHost& host) {
  const auto found = detect(host.root());
  REQUIRE(found.ok());
  return found->machine;
}

std::vector<RankAffinity> ranks(const std::vector<std::string>& masks) {
  std::vector<RankAffinity> all;
  for (size_t i = 0; i < masks.size(); ++i) all.push_back({static_cast<int>(i), cpus(masks[i])});
  return all;
}

/// with_cpu_ranks, and what has to hold for whatever it gives.
Reading placed(const Machine& host, const HostCpus& cpus, std::vector<RankAffinity> ranks) {
  const Reading reading = with_cpu_ranks(host, cpus, ranks);
  const Machine& m = reading.machine;
  CHECK(check(m) == std::vector<std::string>{});
  CHECK(m.cpu_ranks.size() == ranks.size());
  CHECK(test::read_machine(to_xml(m)).machine == m);
  CHECK(test::read_text(to_text(m)).machine == m);
  std::reverse(ranks.begin(), ranks.end());
  CHECK(with_cpu_ranks(host, cpus, ranks).machine == m);
  CHECK(with_cpu_ranks(m, cpus, ranks).machine == m);
  return reading;
}

/// "0@0:f" for rank 0 on NUMA node 0 with the CPUs f.
std::string places(const Machine& m) {
  std::string text;
  for (const NodeId id : m.of_kind(NodeKind::cpu_rank)) {
    const CpuRank& rank = m.cpu_rank(id);
    text += std::to_string(rank.rank) + "@" + std::to_string(m.numa(m.numa_of(id)).id) + ":" + rank.cpus.text() + " ";
  }
  return text;
}

}  // namespace

TEST_CASE("cores with their siblings, and caches of levels 2 and 3, each once", "[unit][topo]") {
  const FakeHost host;
  two_nodes(host);
  const HostCpus found = read(host);
  REQUIRE(found.cores.size() == 8);
  CHECK(found.cores[0] == Core{0, cpus("101")});
  CHECK(found.cores[7] == Core{1, cpus("8080")});
  REQUIRE(found.caches.size() == 10);
  CHECK(found.caches[0] == Cache{2, 1 << 20, cpus("101")});
  CHECK(found.caches[1] == Cache{3, 16 << 20, cpus("f0f")});
  CHECK(found.memory_rates.empty());
  CHECK(found.quota == 0);
}

TEST_CASE("masks tell what lists do not", "[unit][topo]") {
  const FakeHost host;
  two_nodes(host);
  const HostCpus lists = read(host);
  for (int cpu = 0; cpu < 16; ++cpu) {
    const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu);
    const std::string core = std::to_string(1 << cpu % 4) + "0" + std::to_string(1 << cpu % 4);
    host.file(folder + "/topology/thread_siblings_list", "");
    host.file(folder + "/topology/thread_siblings", core + (cpu % 8 < 4 ? "\n" : "0\n"));
    std::filesystem::remove(host.at(folder + "/cache/index3/shared_cpu_list"));
    host.file(folder + "/cache/index3/shared_cpu_map", cpu % 8 < 4 ? "0000,00000f0f\n" : "0000,0000f0f0\n");
  }
  CHECK(read(host) == lists);
}

TEST_CASE("cores lack the CPUs that are off or not the cgroup's; a core that has none is none", "[unit][topo]") {
  const FakeHost host;
  two_nodes(host);
  host.file("/sys/devices/system/cpu/online", "0-14\n");
  host.file("/proc/self/cgroup", "0::/job\n");
  host.file("/sys/fs/cgroup/job/cpuset.cpus.effective", "0,2,8,15\n");
  const HostCpus found = read(host);
  REQUIRE(found.cores.size() == 2);
  CHECK(found.cores[0] == Core{0, cpus("101")});
  CHECK(found.cores[1] == Core{0, cpus("4")});
}

TEST_CASE("a cgroup's limit on time: the least of the group's and of those around it, and it is noted", "[unit][topo]") {
  const FakeHost host;
  two_nodes(host);
  SECTION("version 2") {
    host.file("/proc/self/cgroup", "0::/a/b\n");
    host.file("/sys/fs/cgroup/cpu.max", "max 100000\n");
    host.file("/sys/fs/cgroup/a/cpu.max", "150000 100000\n");
    host.file("/sys/fs/cgroup/a/b/cpu.max", "400000 100000\n");
  }
  SECTION("version 1") {
    host.file("/proc/self/cgroup", "3:cpu,cpuacct:/a\n2:cpuset:/\n");
    host.file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    host.file("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    host.file("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "75000\n");
    host.file("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "50000\n");
  }
  CHECK(read(host).quota == 1500);
  const auto notes = detect(host.root())->notes;
  CHECK(std::count(notes.begin(), notes.end(), "cgroup limits time on CPUs: 1.5 CPUs") == 1);
}

TEST_CASE("what firmware says of memory counts for the ranks at it", "[unit][topo]") {
  const FakeHost host;
  two_nodes(host);
  const std::string folder = "/sys/devices/system/node/node1/access0/initiators/";
  host.file(folder + "read_bandwidth", "200000\n");
  host.file(folder + "write_bandwidth", "100000\n");
  host.file("/sys/devices/system/node/node0/access0/initiators/read_bandwidth", "0\n");
  host.file("/sys/devices/system/node/node0/access0/initiators/write_bandwidth", "0\n");
  const HostCpus found = read(host);
  REQUIRE(found.memory_rates == std::map<int, int64_t>{{1, 104857}});
  const Reading reading = placed(machine(host), found, ranks({"", "", "", ""}));
  CHECK(test::links_text(reading.machine).find("cpu rank 3 - NUMA node 1: memory x1 52.428 given") != std::string::npos);
  CHECK(test::links_text(reading.machine).find("cpu rank 0 - NUMA node 0: memory x1 10 assumed") != std::string::npos);
  CHECK(reading.notes == std::vector<std::string>{"memory bandwidth of CPU rank unknown, taken as 10 GB/s: rank 0, rank 1"});
}

TEST_CASE("broken files: what they hold is unknown", "[unit][topo]") {
  const FakeHost host;
  two_nodes(host);
  const std::string text =
      GENERATE(std::string(), std::string("-1"), std::string("1000000000000000000000K"), std::string("9999999999G"),
               std::string("0-99999999"), std::string("\0\1", 2), std::string("max max"), std::string("0 0"));
  host.file("/proc/self/cgroup", "0::/\n1:cpu:/\n");
  host.file("/sys/fs/cgroup/cpu.max", text);
  for (int cpu = 0; cpu < 16; ++cpu) {
    const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu);
    host.file(folder + "/topology/thread_siblings_list", text);
    host.file(folder + "/cache/index2/size", text);
    host.file(folder + "/cache/index3/shared_cpu_list", text);
  }
  host.file("/sys/devices/system/node/node1/access0/initiators/read_bandwidth", text);
  host.file("/sys/devices/system/node/node1/access0/initiators/write_bandwidth", text);
  const HostCpus found = read(host);
  CHECK(found.cores.size() == 16);
  CHECK(found.quota == 0);
  CHECK(found.memory_rates.empty());
  CHECK(std::all_of(found.caches.begin(), found.caches.end(), [](const Cache& c) { return c.level == 3 || c.bytes == 0; }));
  CHECK(placed(machine(host), found, ranks({"", ""})).machine.cpu_ranks[0].cores == 8);
}

TEST_CASE("free ranks are spread over nodes by their cores, neighbours together", "[unit][topo]") {
  const FakeHost host;
  two_nodes(host);
  const HostCpus all = read(host);
  CHECK(places(placed(machine(host), all, ranks({""})).machine) == "0@0:f0f ");
  const Machine two = placed(machine(host), all, ranks({"", ""})).machine;
  CHECK(places(two) == "0@0:f0f 1@1:f0f0 ");
  CHECK(two.cpu_ranks[0].cores == 4);
  CHECK(two.cpu_ranks[0].l2_bytes == 4 << 20);
  CHECK(two.cpu_ranks[0].l3_bytes == 16 << 20);
  CHECK(places(placed(machine(host), all, ranks({"", "", "", ""})).machine) == "0@0:303 1@0:c0c 2@1:3030 3@1:c0c0 ");
  CHECK(places(placed(machine(host), all, ranks({"", "", ""})).machine) == "0@0:303 1@0:c0c 2@1:f0f0 ");
  CHECK(places(placed(machine(host), all, ranks(std::vector<std::string>(10))).machine) ==
        "0@0:101 1@0:101 2@0:202 3@0:404 4@0:808 5@1:1010 6@1:1010 7@1:2020 8@1:4040 9@1:8080 ");
}

TEST_CASE("a node with fewer cores takes fewer ranks, one without takes none", "[unit][topo]") {
  const FakeHost host;
  two_nodes(host);
  host.file("/proc/self/cgroup", "0::/\n");
  SECTION("two of four") {
    host.file("/sys/fs/cgroup/cpuset.cpus.effective", "0-5,8-13\n");
    CHECK(places(placed(machine(host), read(host), ranks({"", "", "", "", "", ""})).machine) ==
          "0@0:101 1@0:202 2@0:404 3@0:808 4@1:1010 5@1:2020 ");
  }
  SECTION("none") {
    host.file("/sys/fs/cgroup/cpuset.cpus.effective", "4-7\n");
    CHECK(places(placed(machine(host), read(host), ranks({"", ""})).machine) == "0@1:30 1@1:c0 ");
  }
}

TEST_CASE("ranks go where their CPUs are, pinned ones first", "[unit][topo]") {
  const FakeHost host;
  two_nodes(host);
  const HostCpus all = read(host);
  CHECK(places(placed(machine(host), all, ranks({"8000", "4000", "f0f0", ""})).machine) == "3@0:f0f 0@1:8000 1@1:4000 2@1:f0f0 ");
  // Pinned in the opposite order, and one to half of a core.
  CHECK(places(placed(machine(host), all, ranks({"f0f0", "f0f", "100"})).machine) == "1@0:f0f 2@0:100 0@1:f0f0 ");
  const Reading none = placed(machine(host), all, ranks({"f0000", "f0f0"}));
  CHECK(places(none.machine) == "0@0:f0f 1@1:f0f0 ");
  CHECK(std::count(none.notes.begin(), none.notes.end(),
                   "CPUs that a rank may use are none of the host's and were ignored: rank 0 (f0000)") == 1);
}

TEST_CASE("CPU ranks stand among what a machine has already", "[unit][topo]") {
  const auto host = from_text(
      "cpu sapphire { switch gen5x16 { gpu h100; nic gen5x16 400G } cpurank rank=7 cpus=1 rate=9000; gpu h100 rank=9 }\n"
      "cpu sapphire { 2 gpu h100; cpurank rank=8 }\n"
      "nvlink 0-3 switch x18\n",
      "m");
  INFO((host.ok() ? std::string() : host.error().what));
  REQUIRE(host.ok());
  const Reading reading = placed(host->machine, {}, {{9, {}}, {4, {}}});
  const Machine& m = reading.machine;
  CHECK(m.of_kind(NodeKind::cpu_rank).size() == 2);
  CHECK(m.gpus.size() == 4);
  CHECK(m.gpus.at(1).rank == -1);
  CHECK(reading.notes.at(0) == "rank of a GPU is a CPU rank's: gpu 1 (rank 9), gpu 3 (rank 4)");
  CHECK(m.ports == host->machine.ports);
  CHECK(m.numa_of(m.device_of_rank(4)) == m.of_kind(NodeKind::numa)[0]);
  CHECK(m.numa_of(m.device_of_rank(9)) == m.of_kind(NodeKind::numa)[1]);
  CHECK(m.links.size() == host->machine.links.size());
}

TEST_CASE("machines that know no CPUs, and none at all", "[unit][topo]") {
  const auto unknown = from_text("2 cpu { gpu h100 rank=- }\n", "m");
  REQUIRE(unknown.ok());
  CHECK(places(placed(unknown->machine, {}, ranks({"", "", ""})).machine) == "0@0:0 1@0:0 2@1:0 ");
  CHECK(placed(unknown->machine, {}, ranks({""})).machine.cpu_ranks[0].cores == 0);
  CHECK(places(placed({}, {}, ranks({"", "1"})).machine) == "0@-1:0 1@-1:0 ");
  CHECK(placed(unknown->machine, {}, {}).machine == unknown->machine);
  // Nodes that a file numbers in its own way are known by their CPUs.
  const FakeHost host;
  two_nodes(host);
  const auto renumbered = from_text("cpu numa=5 cpus=f0f0\ncpu numa=6 cpus=f0f\n", "m");
  REQUIRE(renumbered.ok());
  CHECK(places(placed(renumbered->machine, read(host), ranks({"f0f", "f0f0"})).machine) == "1@5:f0f0 0@6:f0f ");
}

TEST_CASE("this host's cores are found whatever the calling thread's affinity, which limits the machine's masks alone",
          "[unit][topo]") {
  const auto all = detect_cpus("/");
  REQUIRE(all.ok());
  REQUIRE(!all->cores.empty());
  const CpuMask own = calling_thread_affinity();
  CHECK(own.count() == static_cast<int>(std::min(std::thread::hardware_concurrency(), 65536U)));
  // One CPU of those that this thread may use.
  const int cpu = own.list().back();
  std::thread([&] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(cpu), &set);
    REQUIRE(sched_setaffinity(0, sizeof set, &set) == 0);
    CHECK(calling_thread_affinity().list() == std::vector<int>{cpu});
    CHECK(*detect_cpus("/") == *all);
    const Machine narrow = detect("/")->machine;
    const Machine wide = detect("/", {.ignore_affinity = true})->machine;
    CpuMask seen;
    CpuMask whole;
    for (const Numa& numa : narrow.numas) seen = seen | numa.cpus;
    for (const Numa& numa : wide.numas) whole = whole | numa.cpus;
    CHECK(seen.list() == std::vector<int>{cpu});
    CHECK((whole & own) == own);
  }).join();
  const Reading reading = placed(detect("/")->machine, *all, {{0, own}, {1, own}});
  CHECK(reading.machine.device_of_rank(1) != kNone);
  CHECK(reading.machine.cpu_rank(reading.machine.device_of_rank(1)).cores > 0);
}

TEST_CASE("of a machine of several hosts the ranks are on the one that is named", "[unit][topo]") {
  const Machine two = test::read_text("host hash=a { cpu numa=0 cpus=3 }\nhost hash=b { cpu numa=0 cpus=3 }\n").machine;
  HostCpus known;
  known.cores = {{0, cpus("1")}, {0, cpus("2")}};
  for (const HostCpus& some : {known, HostCpus()}) {
    for (const uint64_t identity : {0xa, 0xb}) {
      const Machine m = with_cpu_ranks(two, some, ranks({"3", "3"}), identity).machine;
      CHECK(check(m) == std::vector<std::string>{});
      REQUIRE(m.of_kind(NodeKind::cpu_rank).size() == 2);
      for (const NodeId id : m.of_kind(NodeKind::cpu_rank)) CHECK(m.hosts[static_cast<size_t>(m.node(id).host)].hash == identity);
    }
  }
}

TEST_CASE("where a file cuts a host into nodes of its own, ranks follow the file's CPUs", "[unit][topo]") {
  const Machine cut = test::read_text("cpu numa=0 cpus=1\ncpu numa=1 cpus=2\n").machine;
  HostCpus known;
  known.cores = {{0, cpus("1")}, {0, cpus("2")}};
  CHECK(places(placed(cut, known, ranks({"3", "3"})).machine) == "0@0:1 1@1:2 ");
}
