// Machines from hwloc's XML: short ones written here, those of real machines where there are some, and broken ones.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "support/catch.h"
#include "support/fake_host.h"
#include "support/topo.h"
#include "topo/detect.h"
#include "topo/hwloc_parts.h"
#include "topo/xml.h"

using namespace ronde;
using namespace ronde::topo;
using namespace ronde::test;

namespace {

/// Two NUMA nodes; on the first a switch with two GPUs, on the second a card; an NVLink switch; a matrix of it all.
const std::string kWhole =
    "<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">\n"
    "<object type=\"Machine\" os_index=\"0\" cpuset=\"0x000000ff\" allowed_cpuset=\"0x000000fe\" gp_index=\"1\">\n"
    "<info name=\"Architecture\" value=\"x86_64\"/>\n"
    "<object type=\"Package\" cpuset=\"0x0000000f\" gp_index=\"2\"><info name=\"CPUVendor\" value=\"GenuineIntel\"/>"
    "<info name=\"CPUFamilyNumber\" value=\"6\"/><info name=\"CPUModelNumber\" value=\"143\"/>\n"
    "<object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x0000000f\" gp_index=\"3\"/>\n"
    "<object type=\"Bridge\" gp_index=\"10\" bridge_type=\"0-1\" bridge_pci=\"0000:[00-09]\">\n"
    "<object type=\"Bridge\" gp_index=\"11\" bridge_type=\"1-1\" pci_busid=\"0000:00:01.0\" pci_type=\"0604 [8086:2030] "
    "[0000:0000] 04 "
    "00\" pci_link_speed=\"15.753846\">\n"
    "<object type=\"Bridge\" gp_index=\"12\" bridge_type=\"1-1\" pci_busid=\"0000:01:00.0\" pci_type=\"0604 [1000:c030] "
    "[0000:0000] 04 "
    "00\" pci_link_speed=\"15.753846\">\n"
    "<object type=\"PCIDev\" gp_index=\"13\" pci_busid=\"0000:02:00.0\" pci_type=\"0302 [10de:1db8] [10de:131d] a1 00\" "
    "pci_link_speed=\"15.753846\"><object type=\"OSDev\" gp_index=\"20\" name=\"nvml0\" osdev_type=\"5\"><info name=\"GPUModel\" "
    "value=\"Tesla V100-SXM3\"/></object></object>\n"
    "<object type=\"PCIDev\" gp_index=\"14\" pci_busid=\"0000:03:00.0\" pci_type=\"0302 [10de:1db8] [10de:131d] a1 00\" "
    "pci_link_speed=\"7.876923\"><object type=\"OSDev\" gp_index=\"21\" name=\"cuda1\" osdev_type=\"5\"><info name=\"GPUModel\" "
    "value=\"Tesla V100-SXM3\"/></object></object>\n"
    "</object></object></object></object>\n"
    "<object type=\"Package\" cpuset=\"0x000000f0\" gp_index=\"4\">\n"
    "<object type=\"NUMANode\" os_index=\"1\" cpuset=\"0x000000f0\" gp_index=\"5\"/>\n"
    "<object type=\"PCIDev\" gp_index=\"15\" pci_busid=\"0000:84:00.0\" pci_type=\"0680 [10de:1ac2] [10de:0000] a1 00\"/>\n"
    "<object type=\"PCIDev\" gp_index=\"16\" pci_busid=\"0000:85:00.0\" pci_type=\"0207 [15b3:1017] [15b3:0000] 00 00\" "
    "pci_link_speed=\"15.753846\">"
    "<object type=\"OSDev\" name=\"ib0\" osdev_type=\"2\"/><object type=\"OSDev\" name=\"mlx5_0\" osdev_type=\"3\"><info "
    "name=\"NodeGUID\" value=\"0002:c903:00a0:b0c0\"/><info name=\"Port1State\" value=\"4\"/><info name=\"Port2State\" "
    "value=\"1\"/></object></object>\n"
    "</object></object>\n"
    "<distances2hetero nbobjs=\"4\" kind=\"25\" name=\"NVLinkBandwidth\">\n"
    "<indexes length=\"1\">OSDev:20 OSDev:21 </indexes><indexes length=\"1\">PCIDev:15 Package:2</indexes>\n"
    "<u64values length=\"1\">1000000 50000 25000 0 50000 1000000 25000 25000</u64values>\n"
    "<u64values length=\"1\">25000 25000 0 0 0 25000 0 0</u64values>\n</distances2hetero>\n</topology>\n";

std::string with(const std::string& old_part, const std::string& new_part) {
  std::string text = kWhole;
  const size_t at = text.find(old_part);
  REQUIRE(at != std::string::npos);
  return text.replace(at, old_part.size(), new_part);
}

Reading hwloc(const std::string& text) {
  const auto reading = from_xml(text, "h.xml");
  INFO((reading.ok() ? std::string() : reading.error().what));
  REQUIRE(reading.ok());
  CHECK(check(reading->machine) == std::vector<std::string>{});
  CHECK(read_machine(to_xml(reading->machine)).machine == reading->machine);
  return *reading;
}

std::string hwloc_error(const std::string& text) {
  const auto reading = from_xml(text, "h.xml");
  REQUIRE_FALSE(reading.ok());
  CHECK(reading.code() == Code::invalid_argument);
  return reading.error().what;
}

}  // namespace

TEST_CASE("hwloc's XML: NUMA nodes, switches, GPUs with their links, ports", "[unit][topo]") {
  const Reading reading = hwloc(kWhole);
  const Machine& m = reading.machine;
  CHECK(links_text(m) ==
        "switch 0000:01:00.0 - NUMA node 0: PCI x16 12 derived\n"
        "gpu 0 - switch 0000:01:00.0: PCI x16 12 derived\n"
        "gpu 1 - switch 0000:01:00.0: PCI x8 6 derived\n"
        "nic 0000:85:00.0 - NUMA node 1: PCI x16 12 derived\n"
        "port mlx5_0 - nic 0000:85:00.0: internal x1 1.25 assumed\n"
        "NUMA node 0 - gpu 1: NVLink x1 20 table\n"
        "gpu 0 - gpu 1: NVLink x2 40 table\n"
        "gpu 0 - NVSwitch: NVLink x1 20 table\n"
        "gpu 1 - NVSwitch: NVLink x1 20 table\n"
        "NUMA node 0 - NUMA node 1: socket x1 22 table\n"
        "port mlx5_0 - network: network x1 1.25 assumed\n");
  CHECK(m.numas[0].cpus.text() == "e");
  CHECK(m.numas[0].model == 143);
  CHECK(m.gpus[0].sm == 70);
  CHECK(m.ports[0].guid == 0x0002c90300a0b0c0);
  CHECK(reading.notes == std::vector<std::string>{"port that is down left out: mlx5_0:2",
                                                  "network interface shares the wire of an RDMA port, which stands for both: ib0",
                                                  "port speed unknown, taken as 10 Gbit/s: port mlx5_0"});
}

TEST_CASE("hwloc's XML: the kinds of version 3, and what version 1 nests", "[unit][topo]") {
  std::string three = with("version=\"2.0\"", "version=\"3.0\"");
  for (const auto& [two, bits] : {std::pair{"osdev_type=\"5\"", "osdev_type=\"12\""},
                                  {"osdev_type=\"2\"", "osdev_type=\"16\""},
                                  {"osdev_type=\"3\"", "osdev_type=\"48\""}}) {
    for (size_t at = three.find(two); at != std::string::npos; at = three.find(two))
      three.replace(at, std::string(two).size(), bits);
  }
  CHECK(hwloc(three).machine == hwloc(kWhole).machine);
  const Machine one =
      hwloc(
          "<topology><object type=\"Machine\" os_index=\"0\" cpuset=\"0x0000000f\">\n"
          "<object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x00000003\"><object type=\"Socket\" cpuset=\"0x00000003\">"
          "<info name=\"CPUVendor\" value=\"AuthenticAMD\"/></object></object>\n"
          "<object type=\"NUMANode\" os_index=\"3\" cpuset=\"0x0000000c\">"
          "<object type=\"PCIDev\" pci_busid=\"0000:03:00.0\" pci_type=\"0200 [8086:10c9] [003c:003f] 01\" "
          "pci_link_speed=\"0.000000\"><object type=\"OSDev\" name=\"eth0\" osdev_type=\"2\"/></object></object>\n"
          "</object></topology>")
          .machine;
  CHECK(one.numas.size() == 2);
  CHECK(one.numas[1].id == 3);
  CHECK(one.numas[0].arch == "x86_64");
  CHECK(one.numa(one.numa_of(one.of_kind(NodeKind::port)[0])).id == 3);
}

TEST_CASE("hwloc's XML: memory of GPUs is no place to compute at; without NUMA there is one node", "[unit][topo]") {
  const std::string memory = "<object type=\"NUMANode\" os_index=\"255\" cpuset=\"0x0000000f\" subtype=\"GPUMemory\"/>";
  CHECK(hwloc(with("<object type=\"Bridge\" gp_index=\"10\"", memory + "<object type=\"Bridge\" gp_index=\"10\"")).machine ==
        hwloc(kWhole).machine);
  const Machine one = hwloc("<topology version=\"2.0\"><object type=\"Machine\" cpuset=\"0x3,,0xff\"/></topology>").machine;
  REQUIRE(one.numas.size() == 1);
  CHECK(one.numas[0].cpus.text() == "3,00000000,000000ff");
  CHECK(hwloc("<topology/>").notes == std::vector<std::string>{"CPUs not known: node 0"});
}

TEST_CASE("hwloc's XML: PCI links of each generation and width", "[unit][topo]") {
  const auto link = [](double gbps) {
    Pci pci;
    set_hwloc_link(gbps, pci);
    return std::pair(pci.speed, pci.width);
  };
  CHECK(link(15.753846) == std::pair(8000, 16));
  CHECK(link(31.507692) == std::pair(16000, 16));
  CHECK(link(63.015385) == std::pair(32000, 16));
  CHECK(link(121) == std::pair(64000, 16));
  CHECK(link(0.25) == std::pair(2500, 1));
  CHECK(link(4) == std::pair(2500, 16));
  CHECK(link(1.969231) == std::pair(8000, 2));
  CHECK(link(0) == std::pair(0, 0));
  CHECK(link(0.1) == std::pair(0, 0));
  CHECK(link(1e300) == std::pair(0, 0));
}

TEST_CASE("hwloc's XML: a wrong value says where it stands", "[unit][topo]") {
  CHECK(hwloc_error(with("version=\"2.0\"", "version=\"7\"")) ==
        "h.xml:3: <topology> version=\"7\": expected a version from 1.0 to 3.x");
  CHECK(hwloc_error(with("0000:02:00.0", "0000:02")) ==
        "h.xml:11: <object> pci_busid=\"0000:02\": expected domain:bus:device.function");
  CHECK(hwloc_error(with("0000:03:00.0", "0000:02:00.0")) ==
        "h.xml:12: <object> pci_busid=\"0000:02:00.0\": this function stands twice");
  CHECK(
      contains(hwloc_error(with("0302 [10de:1db8]", "GPU")), "h.xml:11: <object> pci_type=\"GPU [10de:131d] a1 00\": expected"));
  CHECK(contains(hwloc_error(with("0x0000000f", "0x0z")), "h.xml:6: <object> cpuset=\"0x0z\": expected hexadecimal words"));
  CHECK(contains(hwloc_error(with("0x000000fe", "fe,x")), "h.xml:4: <object> allowed_cpuset=\"fe,x\": expected"));
  CHECK(hwloc_error(with("os_index=\"1\"", "os_index=\"0\"")) ==
        "h.xml:15: <object> os_index=\"0\": this NUMA node stands in line 7 already");
  CHECK(hwloc_error(with("os_index=\"1\"", "os_index=\"-1\"")) ==
        "h.xml:15: <object> os_index=\"-1\": expected a whole number from 0 to 65535");
  CHECK(contains(hwloc_error(with("pci_link_speed=\"15.753846\"", "pci_link_speed=\"nan\"")),
                 "h.xml:9: <object> pci_link_speed=\"nan\""));
  CHECK(contains(hwloc_error(with("osdev_type=\"5\"", "osdev_type=\"x\"")), "h.xml:11: <object> osdev_type=\"x\""));
  CHECK(hwloc_error(with("nbobjs=\"4\"", "nbobjs=\"3\"")) ==
        "h.xml:19: <distances2hetero>: expected 3 values in <indexes>, found 4");
  CHECK(contains(hwloc_error(with("nbobjs=\"4\"", "nbobjs=\"99999999\"")), "h.xml:19: <distances2hetero> nbobjs=\"99999999\""));
  CHECK(hwloc_error(with("25000</u64values>", "fast</u64values>")) ==
        "h.xml:19: <distances2hetero>: holds a value that is no number");
}

TEST_CASE("hwloc's XML: a matrix that names what is not there, or links that cannot be", "[unit][topo]") {
  const Reading gone = hwloc(with("PCIDev:15 ", "PCIDev:99 "));
  CHECK(std::count(gone.notes.begin(), gone.notes.end(), "object of the NVLink matrix that is not there ignored: 99") == 1);
  CHECK(gone.machine.of_kind(NodeKind::nv_switch).empty());
  const Reading absurd = hwloc(with("1000000 50000", "1000000 9000000000000000000"));
  CHECK(contains(absurd.notes.at(1), "impossible NVLink bandwidth ignored: 9000000000000000000 MB/s of 0000:02:00.0"));
}

TEST_CASE("hwloc's XML, cut off and mutated: a sound machine, or an error with its line", "[unit][topo]") {
  for (size_t length = 0; length + 2 < kWhole.size(); length += 3) {
    INFO(length);
    CHECK(contains(hwloc_error(kWhole.substr(0, length)), "h.xml:"));
  }
  std::mt19937 random(20261130);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  const std::string bits[] = {"\"",          "<",   "/>", "<object/>", "</object>", "-1",  "0",
                              "99999999999", "0x0", ",",  "PCIDev:14", "OSDev",     "\xff"};
  int read = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = kWhole;
    for (size_t change = 1 + below(3); change > 0; --change) {
      const size_t at = below(text.size());
      const size_t open = text.find("=\"", at);
      const size_t other = text.find("=\"", below(text.size()));
      switch (below(6)) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, std::min(below(20), text.size() - at));
          break;
        case 2:
          text.replace(at, std::min(below(9), text.size() - at), bits[below(std::size(bits))]);
          break;
        default:
          // A value for another: mostly still well-formed.
          if (open == std::string::npos || other == std::string::npos) break;
          text.replace(open + 2, text.find('"', open + 2) - open - 2,
                       text.substr(other + 2, text.find('"', other + 2) - other - 2));
      }
    }
    INFO("round " << round << "\n" << text);
    const auto result = from_xml(text, "h.xml");
    if (!result.ok()) {
      REQUIRE(result.error().what.rfind("h.xml:", 0) == 0);
      continue;
    }
    ++read;
    REQUIRE(check(result->machine).empty());
    const auto again = from_xml(to_xml(result->machine), "again.xml");
    INFO((again.ok() ? std::string() : again.error().what));
    REQUIRE(again.ok());
    REQUIRE(again->machine == result->machine);
  }
  CHECK(read > 500);
  CHECK(read < 2900);
}

TEST_CASE("hwloc's XML of real machines", "[unit][topo]") {
  const std::string folder = test::topologies();
  if (!std::filesystem::is_directory(folder + "/hwloc"))
    RONDE_SKIP("TEST_TOPOLOGIES names no folder with hwloc's files");
  const auto machine = [&](const std::string& name) {
    std::ifstream file(std::filesystem::path(folder) / "hwloc" / name);
    REQUIRE(file.good());
    return hwloc({std::istreambuf_iterator<char>(file), {}}).machine;
  };
  const auto count = [](const Machine& m, const std::string& part) {
    const std::string text = links_text(m);
    size_t found = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  const Machine dgx2 = machine("hwloc-nvidia-dgx2h-16gpu.xml");
  CHECK(dgx2.gpus.size() == 16);
  CHECK(count(dgx2, " - NVSwitch: NVLink x6 120 table\n") == 16);
  CHECK(dgx2.numas.size() == 2);
  const Machine power8 = machine("hwloc-power8-4xp100-nvlink.xml");
  CHECK(power8.gpus.size() == 4);
  CHECK(count(power8, "gpu 0 - gpu 1: NVLink x2 36 table\n") == 1);
  CHECK(count(power8, "gpu 2 - gpu 3: NVLink x2 36 table\n") == 1);
  CHECK(count(power8, "NUMA node 0 - gpu 0: NVLink x2 36 table\n") == 1);
  CHECK(count(power8, "NUMA node 1 - gpu 3: NVLink x2 36 table\n") == 1);
  const Machine westmere = machine("hwloc-2numa-24thread-pci.xml");
  CHECK(westmere.numas.size() == 2);
  CHECK(westmere.gpus.size() == 3);
  CHECK(westmere.ports.size() == 3);
  CHECK(machine("hwloc-intel-many-vfs.xml").ports.size() == 6);
  const Machine groups = machine("hwloc-xeon-pci-locality.xml");
  CHECK(groups.numas.size() == 4);
  for (const NodeId port : groups.of_kind(NodeKind::port))
    CHECK(groups.numa(groups.numa_of(port)).id == (groups.port(port).name == "qib0" ? 1 : 0));
}

namespace {

std::string fake_text;  ///< what a library of the test writes

/// The library that is installed; without init where there is none.
const HwlocApi& installed() {
  static const HwlocApi api = load_hwloc();
  return api;
}

bool noted(const Notes& notes, const std::string& part) {
  const auto all = notes.sentences();
  return std::any_of(all.begin(), all.end(), [&](const std::string& note) { return contains(note, part); });
}

}  // namespace

TEST_CASE("hwloc at run time: this host is the same with it and without", "[unit][topo]") {
  if (installed().version == nullptr) RONDE_SKIP("no libhwloc.so.15");
  Notes notes;
  const auto facts = ask_hwloc(installed(), notes);
  REQUIRE(facts.has_value());
  CHECK(notes.sentences().empty());
  const auto root = HostFiles::open("/");
  REQUIRE(root.ok());
  HostFacts files;
  files.cpus = read_cpu_nodes(*root, true, notes);
  files.tree = read_pci(*root);
  files.ports = read_ports(*root, notes);
  CHECK(facts->cpus.all_cpus == files.cpus.all_cpus);
  const Reading alone = machine_from(files, notes);
  add_hwloc(*facts, files);
  const Reading both = machine_from(files, notes);
  CHECK(both.machine == alone.machine);
  CHECK(both.notes == alone.notes);
}

TEST_CASE("hwloc is asked where the host's files leave something open, and there alone", "[unit][topo]") {
  static int asked;
  asked = 0;
  HwlocApi api;
  api.version = [] {
    ++asked;
    return 0x00010000U;
  };
  const FakeHost host;
  host.numa(0, "f");
  host.numa(1, "f0");
  const std::vector<std::string> kGen4 = {"16.0 GT/s PCIe", "16"};
  const std::string card = host.pci("pci0000:00/0000:00:01.0", "0x020000", "0x8086", "1", kGen4);
  const auto times = [&] {
    asked = 0;
    REQUIRE(detect(host.root(), {.hwloc = &api}).ok());
    return asked;
  };
  CHECK(times() == 0);
  SECTION("where a device is") {
    host.file("/sys/devices/" + card + "/numa_node", "-1\n");
    CHECK(times() == 1);
    host.file("/sys/devices/" + card + "/local_cpus", "f0\n");
    CHECK(times() == 0);
  }
  SECTION("how GPUs are linked") {
    host.pci("pci0000:00/0000:00:02.0", "0x030200", "0x10de", "1", kGen4);
    CHECK(times() == 1);
  }
  SECTION("everything on PCI") {
    std::filesystem::remove_all(host.at("/sys/bus/pci"));
    CHECK(times() == 1);
  }
}

TEST_CASE("hwloc at run time: absent, of another version, failing", "[unit][topo]") {
  Notes notes;
  CHECK(load_hwloc("libronde-no-such-hwloc.so").version == nullptr);
  CHECK(!ask_hwloc({}, notes).has_value());
  CHECK(notes.sentences().empty());
  HwlocApi api;
  api.version = [] { return 0x00010b00U; };
  CHECK(!ask_hwloc(api, notes).has_value());
  CHECK(noted(notes, "hwloc is of a version that is not known, and not used: 1.11"));
  api.version = [] { return 0x00030000U; };
  CHECK(!ask_hwloc(api, notes).has_value());
  CHECK(noted(notes, "3.0"));
  // Of the right version, but not whole.
  api.version = [] { return 0x00020800U; };
  CHECK(!ask_hwloc(api, notes).has_value());
  if (installed().version == nullptr) return;
  for (int broken = 0; broken < 5; ++broken) {
    INFO(broken);
    api = installed();
    if (broken == 0) api.init = [](void**) { return -1; };
    if (broken == 1) api.flags = [](void*, unsigned long) { return -1; };
    if (broken == 2) api.io_filter = [](void*, int) { return -1; };
    if (broken == 3) api.load = [](void*) { return -1; };
    if (broken == 4) api.write = [](void*, char**, int*, unsigned long) { return -1; };
    Notes failed;
    CHECK(!ask_hwloc(api, failed).has_value());
    CHECK(noted(failed, "hwloc is not used: it cannot read this host"));
  }
}

TEST_CASE("hwloc at run time: what it writes may be broken, or without end", "[unit][topo]") {
  HwlocApi api;
  api.version = [] { return 0x00020800U; };
  api.init = [](void** topology) {
    *topology = &fake_text;
    return 0;
  };
  api.flags = [](void*, unsigned long) { return 0; };
  api.io_filter = [](void*, int) { return 0; };
  api.load = [](void*) { return 0; };
  api.write = [](void*, char** text, int* length, unsigned long) {
    *text = fake_text.data();
    *length = static_cast<int>(fake_text.size());
    return 0;
  };
  api.free = [](void*, char*) {};
  api.destroy = [](void*) {};
  fake_text = GENERATE(std::string(), std::string("<topology"), std::string("<topology version=\"9\"/>"), std::string("\0<", 2));
  Notes notes;
  CHECK(!ask_hwloc(api, notes).has_value());
  CHECK(noted(notes, "hwloc is not used"));
  fake_text = kWhole;
  CHECK(ask_hwloc(api, notes).has_value());
  fake_text = kWhole + std::string("\0<>", 3);
  const auto facts = ask_hwloc(api, notes);
  REQUIRE(facts.has_value());

  SECTION("it adds what is lacking: functions, where they are, links of GPUs") {
    HostFacts host;
    host.cpus = facts->cpus;
    host.tree[{0, 0x85, 0, 0}].facts.address = {0, 0x85, 0, 0};
    add_hwloc(*facts, host);
    CHECK(host.tree.size() == facts->tree.size());
    CHECK(host.tree.at({0, 0x85, 0, 0}).local_cpus.text() == "f0");
    CHECK(host.tree.at({0, 0x85, 0, 0}).facts.vendor == -1);
    REQUIRE(host.gpus.size() == 2);
    CHECK(host.gpus[0].facts.sm == 70);
    CHECK(host.gpus[0].facts.dev == -1);
    CHECK(host.gpus[0].links.size() == 2);
  }
  SECTION("and nothing of what is there") {
    HostFacts host;
    host.cpus = facts->cpus;
    Gpu known;
    known.dev = 7;
    known.sm = 90;
    host.gpus.push_back({.address = {0, 2, 0, 0}, .facts = known, .links = {{DriverLinks::End::nv_switch, {}, 18}}});
    PciFunction& function = host.tree[{0, 2, 0, 0}];
    function.local_cpus.set(9);
    add_hwloc(*facts, host);
    CHECK(host.tree.at({0, 2, 0, 0}).local_cpus.text() == "200");
    CHECK(host.gpus[0].facts.dev == 7);
    CHECK(host.gpus[0].facts.sm == 90);
    CHECK(host.gpus[0].links.size() == 1);
  }
}
