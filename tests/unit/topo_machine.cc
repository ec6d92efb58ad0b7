// The Machine as data: addresses, CPU masks, and a check that notices each thing that can be wrong.
#include <functional>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/topo.h"
#include "topo/speeds.h"

using namespace ronde;
using namespace ronde::topo;
using ronde::test::contains;
using ronde::test::read_machine;

TEST_CASE("PCI addresses", "[unit][topo]") {
  const auto text = [](const char* from) {
    const auto address = parse_pci_address(from);
    return address ? to_string(*address) : std::string("none");
  };
  CHECK(text("0000:0f:02.0") == "0000:0f:02.0");
  CHECK(text("0f:02.0") == "0000:0f:02.0");
  CHECK(text("fffffff:ff:ff.0") == "fffffff:ff:ff.0");
  CHECK(text("10000:E1:00.f") == "10000:e1:00.f");
  for (const char* bad : {"", ":", ".", "0", "1:2", "1.0", ":0f:02.0", "0000::02.0", "0000:0f:.0", "0000:0f:02.", "0000:0f:02.10",
                          "0000:10f:02.0", "0000:0f:02.0 ", "123456789:0f:02.0", "-1:0f:02.0", "0000:0f:02.g", "0:0:0:0.0"}) {
    INFO(bad);
    CHECK(text(bad) == "none");
  }
  CHECK(*parse_pci_address("0000:02:00.0") < *parse_pci_address("0000:10:00.0"));
}

TEST_CASE("CPU masks", "[unit][topo]") {
  const auto text = [](const char* from) {
    const auto mask = CpuMask::parse(from);
    return mask ? mask->text() : std::string("none");
  };
  CHECK(text("") == "0");
  CHECK(text("0,00000000") == "0");
  CHECK(text("00000000,0000ffff,00000001") == "ffff,00000001");
  CHECK(text("ff") == "ff");
  for (const char* bad : {",", "ff,", ",ff", "g", "0x1", "123456789", "-1", "1 2"}) {
    INFO(bad);
    CHECK(text(bad) == "none");
  }
  std::string longest = "1";
  for (int i = 1; i < CpuMask::kMaxCpus / 32; ++i) longest += ",00000000";
  CHECK(text(longest.c_str()) == longest);
  CHECK(text((longest + ",0").c_str()) == "none");

  CpuMask some;
  some.set(0);
  some.set(95);
  CHECK(some.text() == "80000000,00000000,00000001");
  CHECK(some.count() == 2);
  CHECK(some.test(95));
  CHECK_FALSE(some.test(94));
  CHECK_FALSE(some.test(2000));
  const CpuMask low = *CpuMask::parse("ffffffff,ffffffff");
  CHECK((some & low).text() == "1");
  CHECK((low & some) == (some & low));
  CHECK((low & *CpuMask::parse("ff,00000000,00000000")).empty());
}

TEST_CASE("bandwidths of models", "[unit][topo]") {
  CHECK(pci_rate(16000, 16) == 24000);
  CHECK(pci_rate(2500, 1) == 187);
  CHECK(pci_rate(1, 1) == 1);
  CHECK(nvlink_rate(60).rate == 18000);
  CHECK(nvlink_rate(80).rate == 20000);
  CHECK(nvlink_rate(86).rate == 12000);
  CHECK(nvlink_rate(90).rate == 20600);
  CHECK(nvlink_rate(121).rate == 40100);
  CHECK(nvlink_rate(0).source == Source::assumed);
  CHECK(xgmi_rate("gfx90a").rate == 36000);
  CHECK(xgmi_rate("941").rate == 48000);
  CHECK(xgmi_rate("").source == Source::assumed);
  const auto socket = [](const char* arch, const char* vendor, int model) {
    Numa numa;
    numa.arch = arch;
    numa.vendor = vendor;
    numa.model = model;
    return socket_rate(numa, numa).rate;
  };
  CHECK(socket("x86_64", "GenuineIntel", 79) == 6000);
  CHECK(socket("x86_64", "GenuineIntel", 106) == 10000);
  CHECK(socket("x86_64", "GenuineIntel", 143) == 22000);
  CHECK(socket("x86_64", "GenuineIntel", 207) == 40000);
  CHECK(socket("x86_64", "AuthenticAMD", 1) == 16000);
  CHECK(socket("x86_64", "CentaurHauls", 91) == 9000);
  CHECK(socket("ppc64", "", -1) == 32000);
  Numa unknown;
  Numa amd;
  amd.vendor = "AuthenticAMD";
  CHECK(socket_rate(amd, unknown).rate == 6000);
  CHECK(socket_rate(amd, unknown).source == Source::assumed);
}

TEST_CASE("check notices what is wrong", "[unit][topo]") {
  const Machine sound = read_machine(
                            "<system version=\"1\"><cpu host_hash=\"1\" numaid=\"0\"><pci busid=\"0000:01:00.0\" "
                            "class=\"0x060400\"><pci busid=\"0000:02:00.0\"><gpu dev=\"0\"/></pci>"
                            "<pci busid=\"0000:03:00.0\"><nic><net name=\"a\"/></nic></pci></pci></cpu><cpu host_hash=\"2\" "
                            "numaid=\"0\"/></system>")
                            .machine;
  REQUIRE(sound.nodes.size() == 7);
  const auto faults = [&](const std::function<void(Machine&)>& damage) {
    Machine m = sound;
    damage(m);
    std::string all;
    for (const std::string& fault : check(m)) all += fault + "\n";
    return all;
  };
  CHECK(faults([](Machine&) {}).empty());
  CHECK(contains(faults([](Machine& m) { m.nodes[1].parent = kNone; }), "node 1 (switch) has parent -1"));
  CHECK(contains(faults([](Machine& m) { m.nodes[1].parent = 3; }), "node 1 stands before its parent 3"));
  CHECK(contains(faults([](Machine& m) { m.nodes[1].host = 1; }), "node 1 is on another host than its parent"));
  CHECK(contains(faults([](Machine& m) { m.nodes[0].host = 2; }), "node 0 is on host 2"));
  CHECK(contains(faults([](Machine& m) { m.nodes[0].host = kNone; }), "node 0 is on host -1"));
  CHECK(contains(faults([](Machine& m) { m.nodes[2].pci = 3; }), "node 2 has PCI entry 3"));
  CHECK(contains(faults([](Machine& m) { m.nodes[2].detail = kNone; }), "node 2 (gpu) has detail -1"));
  CHECK(contains(faults([](Machine& m) { m.nodes[4].detail = 1; }), "node 4 (port) has detail 1"));
  CHECK(contains(faults([](Machine& m) { m.links[0].a = 9; }), "link 0 joins 9 and 0"));
  CHECK(contains(faults([](Machine& m) { m.links[0].b = 1; }), "link 0 joins node 1 with itself"));
  CHECK(contains(faults([](Machine& m) { m.links[0].rate = 0; }), "link 0 carries 0 MB/s"));
  CHECK(contains(faults([](Machine& m) { m.links[0].count = 0; }), "link 0 consists of 0 links"));
  CHECK(contains(faults([](Machine& m) { m.links.erase(m.links.begin()); }), "node 1 has 0 links to its parent"));
  CHECK(contains(faults([](Machine& m) { m.links.push_back(m.links[0]); }), "node 1 has 2 links to its parent"));
}
