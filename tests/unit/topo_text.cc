// The text form of machines: what it can say, what it counts up by itself, and its errors.
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/topo.h"
#include "topo/text.h"
#include "topo/xml.h"

using namespace ronde;
using namespace ronde::topo;
using ronde::test::contains;
using ronde::test::links_text;
using ronde::test::read_machine;
using ronde::test::read_text;

namespace {

std::string error_of(const std::string& text) {
  const auto read = from_text(text, "m");
  REQUIRE_FALSE(read.ok());
  CHECK(read.error().code == Code::invalid_argument);
  return read.error().what;
}

/// Everything that the text form can say.
const std::string kWhole =
    "host hash=c0ffee { # a comment\n"
    "  cpu milan cpus=ff,00000000 numa=3 {\n"
    "    2 switch gen4x16 { gpu a100 gdr=1; nic vendor=0x15b3 100G 200G }\n"
    "    function busid=0000:81:00.0 class=0x030200 gen6x2 {\n"
    "      gpu dev=9 sm=107 part=0 c2c=7 c2crate=50000\n"
    "      gpu dev=9 sm=107 part=1 c2c=7 c2crate=50000\n"
    "    }\n"
    "    function speed=12125 width=4\n"
    "    gpu nobus sm=80 rank=-\n"
    "  }\n"
    "  cpu vendor=\"  Shanghai  \" family=7 model=91 { cpurank rank=40 cpus=f0 cores=4 l2=1024 l3=4096 rate=9000 }\n"
    "}\n"
    "host { cpu { nic nobus { port name=\"a \\\"b\\\"\\\\ {;#}\" mbits=10 port=1 latency=0.25 guid=5eed maxconn=9 gdr=0 coll=1 "
    "net=1 gin=0 rma=1 rail=2 plane=3 } } }\n"
    "nvlink 0-1 switch x12\n"
    "nvlink 0 cpu x3\n"
    "nvlink 0 1 x4\n"
    "xgmi 2 3-4 x1\n"
    "pcilink 0 1\n";

}  // namespace

TEST_CASE("a machine in five lines", "[unit][topo]") {
  const Machine m =
      read_text("2 cpu sapphire {\n 2 switch gen5x16 { 2 gpu h100; nic gen5x16 400G }\n}\nnvlink 0-7 switch x18\n").machine;
  CHECK(m.of_kind(NodeKind::numa).size() == 2);
  CHECK(m.of_kind(NodeKind::pci_switch).size() == 4);
  CHECK(m.gpus.size() == 8);
  CHECK(m.ports.size() == 4);
  CHECK(m.gpus[7].dev == 7);
  CHECK(m.gpus[7].rank == 7);
  CHECK(m.numas[1].id == 1);
  CHECK(m.ports[3].name == "net3");
  CHECK(to_string(m.pci[0].address) == "0000:01:00.0");
  CHECK(contains(links_text(m), "gpu 7 - NVSwitch: NVLink x18 370.8 table\n"));
  CHECK(contains(links_text(m), "NUMA node 0 - NUMA node 1: socket x1 22 table\n"));
}

TEST_CASE("everything that the text form can say", "[unit][topo]") {
  const Machine m = read_text(kWhole).machine;
  CHECK(read_machine(to_xml(m)).machine == m);
  REQUIRE(m.hosts.size() == 2);
  CHECK(m.hosts[0].hash == 0xc0ffee);
  CHECK(m.hosts[1].hash == 2);
  CHECK(m.numas[0].id == 3);
  CHECK(m.numas[0].cpus.count() == 8);
  CHECK(m.numas[1].vendor == "  Shanghai  ");
  CHECK(m.ports[4].name == "a \"b\"\\ {;#}");
  CHECK(m.ports[4].guid == 0x5eedu);
  CHECK(m.ports[4].plane == 3);
  CHECK(m.gpus[4].rank == -1);
  CHECK(m.cpu_ranks[0].rank == 40);
  const std::string links = links_text(m);
  CHECK(contains(links, "gpu 0 of host 0 - gpu 1 of host 0: NVLink x4 80 table\n"));
  CHECK(contains(links, "NUMA node 3 of host 0 - gpu 0 of host 0: NVLink x3 60 table\n"));
  CHECK(contains(links, "gpu 0 of host 0 - NVSwitch of host 0: NVLink x12 240 table\n"));
  CHECK(contains(links, "switch 0000:01:00.0 of host 0 - switch 0000:04:00.0 of host 0: PCI x1 24 assumed\n"));
}

TEST_CASE("each host counts from the start, ranks go on", "[unit][topo]") {
  const Machine m = read_text("3 host { 2 cpu grace { 2 gpu b200 } }\nnvlink 0-11 domain x18\n").machine;
  CHECK(m.hosts.size() == 3);
  CHECK(m.gpus[11].rank == 11);
  CHECK(m.gpus[11].dev == 3);
  CHECK(m.pci[4].address == m.pci[0].address);
  CHECK(m.node(m.of_kind(NodeKind::nv_switch).at(0)).host == kNone);
}

TEST_CASE("links of all pairs, of ranges, and of one pair in several lines", "[unit][topo]") {
  const std::string gpus = "cpu genoa { 4 gpu mi300x }\n";
  CHECK(read_text(gpus + "xgmi 0-3 0-3 x1").machine == read_text(gpus + "xgmi 0 1-3 x1\nxgmi 1 2-3 x1\nxgmi 2 3 x1").machine);
  CHECK(read_text(gpus + "xgmi 0 1 x1\nxgmi 1 0 x2").machine == read_text(gpus + "xgmi 0 1 x3").machine);
  CHECK(read_text(gpus + "xgmi 0 0 x1").machine == read_text(gpus).machine);
}

TEST_CASE("errors of the text form say where and what", "[unit][topo]") {
  CHECK(error_of("cpu {\n\n gpu warm\n}") == "m:3: gpu: 'warm' is no word of this item, or its value cannot be");
  CHECK(error_of("cpu {\n gpu sm=x }") == "m:2: gpu: 'sm=x' is no word of this item, or its value cannot be");
  CHECK(contains(error_of("cpu { gpu sm=99999999999999999999 }"), "m:1: gpu: 'sm=999"));
  CHECK(contains(error_of("cpu { gpu sm=-5 }"), "m:1: gpu: 'sm=-5'"));
  CHECK(contains(error_of("cpu { gpu busid=1 }"), "m:1: gpu: 'busid=1'"));
  CHECK(contains(error_of("cpu { gpu gen8x16 }"), "m:1: gpu: 'gen8x16'"));
  CHECK(contains(error_of("cpu { gpu gen4x }"), "m:1: gpu: 'gen4x'"));
  CHECK(contains(error_of("cpu { nic 0G }"), "m:1: nic: '0G'"));
  CHECK(contains(error_of("cpu { nic { port latency=nan } }"), "m:1: port: 'latency=nan'"));
  CHECK(contains(error_of("cpu cpus=xyz"), "m:1: cpu: 'cpus=xyz'"));
  CHECK(contains(error_of("host hash=xyz"), "m:1: host: 'hash=xyz'"));
  CHECK(error_of("gpu") == "m:1: gpu: expected host, cpu, nvlink, xgmi or pcilink");
  CHECK(error_of("host") == "m:1: host: holds no cpu");
  CHECK(error_of("host { gpu }") == "m:1: gpu: expected cpu in host");
  CHECK(error_of("host { cpu }\ncpu") == "m:2: cpu: expected host, nvlink, xgmi or pcilink");
  CHECK(error_of("cpu { port }") == "m:1: port: nothing that may stand in a NUMA node");
  CHECK(error_of("cpu { cpurank { gpu } }") == "m:1: cpurank: holds nothing");
  CHECK(error_of("cpu { 2 gpu rank=1 }") == "m:1: gpu: a device of rank 1 stands in line 1 already");
  CHECK(contains(error_of("cpu { 2 gpu busid=01:00.0 }"), "a GPU's address 0000:01:00.0 stands twice, first in line 1"));
  CHECK(error_of("2 cpu numa=1") == "m:1: cpu: NUMA node 1 of the host stands in line 1 already");
  CHECK(error_of("cpu { function { gpu } }") == "m:1: function: holds two or more GPUs, its parts, or nothing, and is no bridge");
  CHECK(error_of("cpu { switch class=0 }") == "m:1: switch: neither of a bridge's class nor with anything below it");
  CHECK(error_of("cpu { gpu nobus { nic } }") ==
        "m:1: gpu: without a bus of its own it stands directly in a cpu and holds nothing");
  CHECK(error_of("cpu { nic nobus }") ==
        "m:1: nic: without a bus it stands directly in a cpu and holds one port or more and nothing else");
  CHECK(error_of("cpu { gpu c2c=5 }") == "m:1: gpu: c2c and c2crate belong together");
  CHECK(error_of("cpu { 2 gpu }\nnvlink 0 2 x1") == "m:2: nvlink: '2' is no number, or first-last, below 2");
  CHECK(error_of("cpu { 2 gpu }\nnvlink 1-0 1 x1") == "m:2: nvlink: '1-0' is no number, or first-last, below 2");
  CHECK(error_of("cpu { 2 gpu }\nnvlink 0 1 1") == "m:2: nvlink: expected two ends and xN, N from 1 to 1024");
  CHECK(error_of("cpu { 2 gpu }\nnvlink 0 1 x0") == "m:2: nvlink: expected two ends and xN, N from 1 to 1024");
  CHECK(error_of("nvlink") == "m:1: nvlink: expected two ends and xN, N from 1 to 1024");
  CHECK(error_of("pcilink 0") == "m:1: pcilink: expected two switches");
}

TEST_CASE("as deep as a topology file may be, its machine is a text", "[unit][topo]") {
  const auto file = [](int levels) {
    std::string text;
    for (int i = 0; i < levels; ++i) text += "<pci busid=\"" + to_string(PciAddress{0, static_cast<uint8_t>(i), 0, 0}) + "\" class=\"0x060400\">";
    text += "<pci busid=\"ff:00.0\" class=\"0x030200\"><gpu sm=\"90\"/></pci>";
    for (int i = 0; i < levels; ++i) text += "</pci>";
    return from_xml("<system version=\"1\"><cpu>" + text + "</cpu></system>", "m.xml");
  };
  int levels = 0;
  while (file(levels + 1).ok()) ++levels;
  CHECK(levels >= 32);
  const Machine deepest = file(levels)->machine;
  const auto again = from_text(to_text(deepest), "m");
  INFO((again.ok() ? std::string() : again.error().what));
  REQUIRE(again.ok());
  CHECK(again->machine == deepest);
}

TEST_CASE("errors of braces, quotes and numbers of items", "[unit][topo]") {
  CHECK(error_of("cpu {\n gpu\n") == "m:3: '{' is not closed");
  CHECK(error_of("cpu }") == "m:1: '}' without '{'");
  CHECK(error_of("\n{ cpu }") == "m:2: '{' without an item that it belongs to");
  CHECK(error_of("cpu vendor=\"a\n\"") == "m:1: a quote is not closed in its line");
  CHECK(error_of("cpu vendor=\"a") == "m:1: a quote is not closed");
  CHECK(error_of("0 cpu") == "m:1: an item may stand 1 to 4096 times");
  CHECK(error_of("99999999999 cpu") == "m:1: an item may stand 1 to 4096 times");
  CHECK(error_of("4") == "m:1: a number of items, but not of which");
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "cpu {";
  CHECK(error_of(deep) == "m:1: more than 64 braces inside each other");
  CHECK(contains(error_of("cpu { 4096 switch { 4096 switch { 4096 gpu } } }"), "more than 50000 devices"));
  CHECK(contains(error_of("4096 host { 4096 cpu }"), "m:1: cpu: more than "));
  CHECK(contains(error_of(std::string((size_t{1} << 20) + 1, ' ')), "at most 1048576 are read"));
  CHECK(read_text("").machine == Machine{});
  CHECK(read_text("\n;;# only a comment").machine == Machine{});
}

TEST_CASE("mutated texts give a sound machine that survives writing in both forms, or an error with its line", "[unit][topo]") {
  std::mt19937 random(20261201);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  const std::string bits[] = {"{",  "}", "\n", ";", "\"",      "#",     " gpu ", " switch ", " nic ",
                              "2 ", "9", "-",  "=", " nobus ", " bus ", "port",  "class=-",  "\\"};
  const std::string links[] = {"nvlink 0-1 0-2 x3\n", "xgmi 1 3 x2\n", "nvlink 2-3 domain x1\n", "pcilink 0-1 0-1\n",
                               "host { cpu { 2 gpu } }\n"};
  int read = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string text = kWhole;
    for (size_t change = 1 + below(3); change > 0; --change) {
      const size_t at = below(text.size());
      const size_t digit = text.find_first_of("0123456789", at);
      const size_t line = text.find('\n', at);
      switch (below(12)) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, below(12));
          break;
        case 2:
          text.insert(at, bits[below(std::size(bits))]);
          break;
        case 3:
          text.insert(at, text.substr(below(text.size()), below(60)));
          break;
        case 4:
        case 5:
          if (line != std::string::npos) text.insert(line + 1, links[below(std::size(links))]);
          break;
        default:
          if (digit != std::string::npos) text[digit] = static_cast<char>('0' + below(10));
      }
      if (text.empty()) text = " ";
    }
    INFO("round " << round << "\n" << text);
    const auto result = from_text(text, "m");
    if (!result.ok()) {
      REQUIRE(result.error().what.rfind("m:", 0) == 0);
      continue;
    }
    ++read;
    REQUIRE(check(result->machine).empty());
    const auto again = from_text(to_text(result->machine), "again");
    INFO((again.ok() ? links_text(again->machine) : again.error().what));
    REQUIRE(again.ok());
    REQUIRE(again->machine == result->machine);
    const auto as_xml = from_xml(to_xml(result->machine), "xml");
    INFO((as_xml.ok() ? to_xml(result->machine) : as_xml.error().what));
    REQUIRE(as_xml.ok());
    // Links of GPUs that have neither address nor rank cannot be written there.
    REQUIRE(as_xml->machine.nodes == result->machine.nodes);
  }
  CHECK(read > 600);
  CHECK(read < 1900);
}

TEST_CASE("NVLink domains have names, in both forms", "[unit][topo]") {
  const std::string text =
      "host {\n  cpu numa=0 {\n    gpu domain=ab\n    gpu domain=cd\n  }\n}\nhost {\n  cpu numa=0 {\n    gpu domain=ab\n  }\n}\n"
      "nvlink 0 domain x18\nnvlink 2 domain x18\nnvlink 1 domain x18\n";
  const Reading read = read_text(text);
  CHECK(read.machine.gpus[1].domain == 0xcd);
  CHECK(read.machine.of_kind(NodeKind::nv_switch).size() == 2);
  const Reading again = read_machine(to_xml(read.machine));
  CHECK(again.machine == read.machine);
  CHECK_FALSE(from_text("cpu { gpu domain=x }", "m").ok());
}
