// Topology files that are broken: an error that says where, never a crash, never a wrong machine.
#include <random>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/topo.h"

using namespace ronde;
using namespace ronde::topo;
using ronde::test::contains;
using ronde::test::links_text;
using ronde::test::read_error;
using ronde::test::read_machine;

namespace {

/// Everything that a file can hold, in 12 lines.
const std::string kWhole =
    "<system version=\"2\">\n"
    "<cpu host_hash=\"0x1\" numaid=\"0\" affinity=\"ff,ffffffff\" arch=\"x86_64\" vendor=\"AuthenticAMD\" familyid=\"25\" "
    "modelid=\"1\">\n"
    "<pci busid=\"0000:01:00.0\" class=\"0x060400\" vendor=\"0x1000\" device=\"0xc030\" link_speed=\"16.0 GT/s PCIe\" "
    "link_width=\"16\">\n"
    "<pci busid=\"0000:02:00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"8\"><gpu dev=\"0\" sm=\"90\" rank=\"0\" "
    "gdr=\"1\">\n"
    "<nvlink target=\"0000:03:00.0\" count=\"2\" tclass=\"0x030200\"/><nvlink target=\"fffffff:ff:ff.0\" count=\"4\" "
    "tclass=\"0x068000\"/><c2c bw=\"44712\" count=\"5\"/></gpu></pci>\n"
    "<pci busid=\"0000:03:00.0\" class=\"0x030200\"><gpu dev=\"1\" sm=\"90\" rank=\"1\" mlopart=\"0\"><xgmi target=\"0\" "
    "count=\"2\"/></gpu>\n"
    "<gpu dev=\"1\" sm=\"90\" rank=\"2\" mlopart=\"1\"/></pci><pcilink target=\"0000:04:00.0\"/></pci>\n"
    "<pci busid=\"0000:04:00.0\" class=\"0x060400\" link_speed=\"2.5 GT/s\" link_width=\"1\"><pci busid=\"0000:05:00.0\" "
    "class=\"0x020000\"><nic>\n"
    "<net name=\"mlx5_0\" dev=\"0\" speed=\"400000\" port=\"1\" latency=\"0.5\" guid=\"0x5eed\" maxconn=\"8\" gdr=\"1\" "
    "coll=\"0\" gin=\"1\" rail=\"2\"/></nic></pci></pci>\n"
    "<cpurank rank=\"3\" affinity=\"3\" cores=\"2\" l2=\"1024\" l3=\"4096\" bw=\"9000\"/><gpu dev=\"7\" rank=\"7\"/></cpu>\n"
    "<cpu host_hash=\"0x2\" numaid=\"0\"><nic><net name=\"eth0\" dev=\"0\"/></nic></cpu>\n"
    "</system>\n";

std::string with(const std::string& old_part, const std::string& new_part) {
  std::string text = kWhole;
  const size_t at = text.find(old_part);
  REQUIRE(at != std::string::npos);
  return text.replace(at, old_part.size(), new_part);
}

}  // namespace

TEST_CASE("what the errors are tried on is sound", "[unit][topo]") {
  const Reading read = read_machine(kWhole);
  CHECK(read.machine.gpus.size() == 4);
  CHECK(read.machine.hosts.size() == 2);
}

TEST_CASE("a wrong value: file, line, element, attribute, what was expected", "[unit][topo]") {
  CHECK(read_error(with("dev=\"0\" sm", "dev=\"zero\" sm")) ==
        "m.xml:4: <gpu> dev=\"zero\": expected a whole number from -1 to 2147483647");
  CHECK(read_error(with("sm=\"90\"", "sm=\"9.0\"")) == "m.xml:4: <gpu> sm=\"9.0\": expected a whole number from 0 to 2147483647");
  CHECK(read_error(with("rank=\"0\"", "rank=\"99999999999999999999\"")) ==
        "m.xml:4: <gpu> rank=\"99999999999999999999\": expected a whole number from -1 to 2147483647");
  CHECK(read_error(with("gdr=\"1\"", "gdr=\"2\"")) == "m.xml:4: <gpu> gdr=\"2\": expected a whole number from -1 to 1");
  CHECK(read_error(with("numaid=\"0\"", "numaid=\"-2\"")) ==
        "m.xml:2: <cpu> numaid=\"-2\": expected a whole number from -1 to 65535");
  CHECK(read_error(with("affinity=\"ff,", "affinity=\"fg,")) ==
        "m.xml:2: <cpu> affinity=\"fg,ffffffff\": expected hexadecimal words with commas, for at most 65536 CPUs");
  CHECK(read_error(with("host_hash=\"0x1\"", "host_hash=\"0x11223344556677889\"")) ==
        "m.xml:2: <cpu> host_hash=\"0x11223344556677889\": expected a hexadecimal number of at most 64 bits");
  CHECK(read_error(with("busid=\"0000:02:00.0\"", "busid=\"0000:02:00\"")) ==
        "m.xml:4: <pci> busid=\"0000:02:00\": expected domain:bus:device.function");
  CHECK(read_error(with("busid=\"0000:02:00.0\"", "")) == "m.xml:4: <pci> busid=\"\": expected domain:bus:device.function");
  CHECK(read_error(with("class=\"0x060400\"", "class=\"0x-60400\"")) ==
        "m.xml:3: <pci> class=\"0x-60400\": expected a whole number from 0 to 16777215");
  CHECK(read_error(with("16 GT/s", "16 GB/s")) ==
        "m.xml:4: <pci> link_speed=\"16 GB/s\": expected a speed such as \"16.0 GT/s PCIe\"");
  CHECK(contains(read_error(with("16 GT/s", "nan GT/s")), "m.xml:4: <pci> link_speed"));
  CHECK(contains(read_error(with("16 GT/s", "1e99 GT/s")), "m.xml:4: <pci> link_speed"));
  CHECK(read_error(with("link_width=\"8\"", "link_width=\"x8\"")) ==
        "m.xml:4: <pci> link_width=\"x8\": expected a whole number from 0 to 2147483647");
  CHECK(read_error(with("target=\"0000:03:00.0\"", "target=\"\"")) ==
        "m.xml:5: <nvlink> target=\"\": expected the bus id of the other end");
  CHECK(read_error(with("count=\"2\"", "count=\"-2\"")) ==
        "m.xml:5: <nvlink> count=\"-2\": expected a whole number from 0 to 1024");
  CHECK(read_error(with("speed=\"400000\"", "speed=\"fast\"")) ==
        "m.xml:9: <net> speed=\"fast\": expected a whole number from 0 to 9223372036854775807");
  CHECK(read_error(with("latency=\"0.5\"", "latency=\"inf\"")) ==
        "m.xml:9: <net> latency=\"inf\": expected a number, not negative");
  CHECK(read_error(with("version=\"2\"", "version=\"3\"")) ==
        "m.xml:1: <system> version=\"3\": expected a whole number from 1 to 2");
}

TEST_CASE("values are shown safely and in part", "[unit][topo]") {
  const std::string what = read_error(with("dev=\"0\" sm", "dev=\"\x1b[31m" + std::string(5000, 'a') + "\" sm"));
  CHECK(what.size() < 200);
  CHECK(what.find('\x1b') == std::string::npos);
}

TEST_CASE("things that stand twice or in two places", "[unit][topo]") {
  CHECK(read_error(with("rank=\"1\"", "rank=\"0\"")) ==
        "m.xml:6: <gpu> rank=\"0\": a device of this rank stands in line 4 already");
  CHECK(read_error(with("busid=\"0000:03:00.0\" class", "busid=\"0000:02:00.0\" class")) ==
        "m.xml:6: <pci> busid=\"0000:02:00.0\": a GPU's address stands twice, first in line 4");
  CHECK(read_error(with("host_hash=\"0x2\"", "host_hash=\"0x1\"")) ==
        "m.xml:11: <cpu> numaid=\"0\": this NUMA node of the host stands in line 2 already");
  CHECK(read_error(with("count=\"5\"/></gpu>", "count=\"5\"/><c2c bw=\"1\"/></gpu>")) ==
        "m.xml:4: <gpu>: holds more than one <c2c>");
  CHECK(read_error(with("<nic>\n", "<gpu/><nic>\n")) == "m.xml:8: <pci>: one PCI function cannot be a GPU and a NIC");
  CHECK(read_error(with("dev=\"0\" sm", "dev=\"0\" dev=\"1\" sm")) == "m.xml:4: <gpu> dev=\"0\": stands twice in its element");
  CHECK(contains(read_error(kWhole + kWhole), "m.xml:13: <system>: a second outermost element"));
}

TEST_CASE("files that are something else, or nothing", "[unit][topo]") {
  CHECK(contains(read_error("<graphs version=\"1\"><graph id=\"0\"/></graphs>"), "m.xml:1: <graphs>: this is a graph file"));
  CHECK(read_error("<html/>") == "m.xml:1: <html>: expected <system>, the root of a topology file, or <topology>, that of hwloc's files");
  CHECK(contains(read_error(""), "m.xml:1: not well-formed XML"));
  CHECK(contains(read_error("  \n "), "not well-formed XML"));
  CHECK(contains(read_error("{\"a\": 1}"), "not well-formed XML"));
  CHECK(contains(read_error(std::string("\0\0\0\0", 4)), "not well-formed XML"));
  CHECK(contains(read_error("<!-- only a comment -->"), "m.xml:1: "));
  CHECK(contains(read_error(std::string((size_t{16} << 20) + 1, ' ')), "at most 16777216 are read"));
  CHECK(read_error(with("<nic>\n", "<nic>stray\n")) == "m.xml:8: <nic>: holds text (\"stray?\") where only elements may stand");
}

TEST_CASE("bad nesting, and files that are cut off, wherever", "[unit][topo]") {
  CHECK(contains(read_error(with("</nic></pci></pci>", "</pci></nic></pci>")), "m.xml:9: not well-formed XML"));
  const size_t nic = kWhole.find("<nic>\n") + 6;
  const std::string cut = read_error(kWhole.substr(0, nic));
  CHECK(contains(cut, "the last element before it is <nic> in line 8. Is the file cut off?"));
  for (size_t length = 0; length + 2 < kWhole.size(); ++length) {
    INFO(length);
    CHECK(contains(read_error(kWhole.substr(0, length)), "m.xml:"));
  }
}

TEST_CASE("more than any machine has: depth, elements, attributes, NUMA nodes", "[unit][topo]") {
  const auto repeated = [](const std::string& part, int times) {
    std::string text;
    for (int i = 0; i < times; ++i) text += part;
    return text;
  };
  CHECK(contains(read_error(repeated("<system>", 100000) + repeated("</system>", 100000)),
                 "more than 64 elements inside each other"));
  CHECK(contains(read_error("<system>" + repeated("<cpu/>", 60000) + "</system>"), "more than 50000 elements"));
  CHECK(contains(read_error("<system>" + repeated("<cpu/>", 300) + "</system>"), "more than 256 NUMA nodes in one host"));
  std::string attributes;
  for (int i = 0; i < 100; ++i) attributes += " a" + std::to_string(i) + "=\"\"";
  CHECK(contains(read_error("<system" + attributes + "/>"), "more than 64 attributes"));
}

TEST_CASE("a GPU joined to many, in a circle and to itself, ends", "[unit][topo]") {
  std::string gpus;
  for (int i = 0; i < 40; ++i) {
    const auto busid = [](int n) { return "0000:" + std::to_string(10 + n % 40) + ":00.0"; };
    gpus += "<pci busid=\"" + busid(i) + "\"><gpu rank=\"" + std::to_string(i) + "\">";
    for (int j = 0; j < 40; ++j) gpus += "<nvlink target=\"" + busid(i + j) + "\" count=\"1024\"/>";
    gpus += "<nvlink target=\"" + busid(i + 1) + "\" count=\"1024\"/></gpu><pcilink target=\"" + busid(i) + "\"/></pci>";
  }
  const Machine m = read_machine("<system version=\"1\"><cpu numaid=\"0\">" + gpus + "</cpu></system>").machine;
  CHECK(m.links.size() == 40 + 40 * 39 / 2);
}

TEST_CASE("mutated files give a sound machine that survives writing, or an error with its line", "[unit][topo]") {
  std::mt19937 random(20261130);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  const std::string bits[] = {"\"",
                              "<",
                              ">",
                              "/>",
                              "</pci>",
                              "<pci busid=\"0000:02:00.0\">",
                              "<gpu rank=\"5\"/>",
                              "<net/>",
                              "-1",
                              "0",
                              "99999999999",
                              "fffffff:ff:ff.0",
                              "0000:03:00.0",
                              "&#0;",
                              "&#10;",
                              "<!--",
                              "]]>",
                              std::string(1, '\0'),
                              "\xff",
                              "2",
                              "0x068000",
                              "0x068001"};
  int read = 0;
  for (int round = 0; round < 8000; ++round) {
    std::string text = kWhole;
    for (size_t change = 1 + below(3); change > 0; --change) {
      const size_t at = below(text.size());
      const size_t length = std::min(below(20), text.size() - at);
      switch (below(10)) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, length);
          break;
        case 2:
          text.insert(at, text.substr(below(text.size()), below(80)));
          break;
        case 3:
          text.replace(at, length, bits[below(std::size(bits))]);
          break;
        default: {
          // A value for another: mostly still well-formed.
          const size_t open = text.find("=\"", at);
          const size_t other = text.find("=\"", below(text.size()));
          if (open == std::string::npos || other == std::string::npos) break;
          const std::string value = text.substr(other + 2, text.find('"', other + 2) - other - 2);
          text.replace(open + 2, text.find('"', open + 2) - open - 2, below(2) == 0 ? value : bits[8 + below(5)]);
        }
      }
      if (text.empty()) text = " ";
    }
    INFO("round " << round << "\n" << text);
    const auto result = from_xml(text, "m.xml");
    if (!result.ok()) {
      REQUIRE(result.error().what.rfind("m.xml:", 0) == 0);
      continue;
    }
    ++read;
    REQUIRE(check(result->machine).empty());
    const auto again = from_xml(to_xml(result->machine), "again.xml");
    INFO((again.ok() ? links_text(again->machine) : again.error().what));
    REQUIRE(again.ok());
    REQUIRE(again->machine == result->machine);
  }
  CHECK(read > 1000);
  CHECK(read < 7500);
}
