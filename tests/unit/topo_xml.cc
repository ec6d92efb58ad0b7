// NCCL's topology files: what is odd in files that are about, in small ones made for the purpose.
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/topo.h"

using namespace ronde;
using namespace ronde::topo;
using ronde::test::contains;
using ronde::test::links_text;
using ronde::test::read_machine;

namespace {

using Lines = std::vector<std::string>;

std::string of_system(const std::string& inside) { return "<system version=\"1\">\n" + inside + "</system>\n"; }
std::string amd_cpu(const std::string& inside) {
  return "<cpu numaid=\"0\" affinity=\"ffff\" arch=\"x86_64\" vendor=\"AuthenticAMD\" familyid=\"25\" modelid=\"1\">\n" + inside +
         "</cpu>\n";
}
/// A GPU of that compute capability on 16 lanes of the fourth generation.
std::string gpu(int dev, const std::string& busid, int sm, const std::string& inside = "") {
  return "<pci busid=\"" + busid + "\" class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">\n<gpu dev=\"" +
         std::to_string(dev) + "\" sm=\"" + std::to_string(sm) + "\" rank=\"" + std::to_string(dev) + "\" gdr=\"1\">\n" + inside +
         "</gpu>\n</pci>\n";
}

}  // namespace

TEST_CASE("a two-socket machine with switches, NVLink switches and adapters", "[unit][topo]") {
  const std::string nvlinks = "<nvlink target=\"fffffff:ff:ff.0\" count=\"18\" tclass=\"0x068000\"/>";
  const std::string xml = of_system(
      "<cpu host_hash=\"0x00ab\" numaid=\"0\" affinity=\"ff,ffffffff\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" "
      "modelid=\"143\">\n"
      "<pci busid=\"0000:10:00.0\" class=\"0x060400\" vendor=\"0x1000\" device=\"0xc030\" subsystem_vendor=\"0x1000\" "
      "subsystem_device=\"0x100b\" "
      "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">\n" +
      gpu(0, "0000:11:00.0", 90, nvlinks) +
      "<pci busid=\"0000:12:00.0\" class=\"0x020700\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">\n<nic>\n"
      "<net name=\"mlx5_0\" dev=\"0\" speed=\"400000\" port=\"1\" latency=\"0.000000\" guid=\"0x5eed000000000001\" "
      "maxconn=\"131072\" gdr=\"1\" coll=\"1\"/>\n"
      "</nic>\n</pci>\n</pci>\n</cpu>\n"
      "<cpu host_hash=\"0xab\" numaid=\"1\" affinity=\"\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" "
      "modelid=\"143\">\n" +
      gpu(1, "0000:21:00.0", 90, nvlinks) + "</cpu>\n");
  const Reading read = read_machine(xml);
  CHECK(read.notes == Lines{});
  CHECK(links_text(read.machine) ==
        "switch 0000:10:00.0 - NUMA node 0: PCI x16 48 derived\n"
        "gpu 0 - switch 0000:10:00.0: PCI x16 24 derived\n"
        "nic 0000:12:00.0 - switch 0000:10:00.0: PCI x16 48 derived\n"
        "port mlx5_0 - nic 0000:12:00.0: internal x1 50 given\n"
        "gpu 1 - NUMA node 1: PCI x16 24 derived\n"
        "gpu 0 - NVSwitch: NVLink x18 370.8 table\n"
        "gpu 1 - NVSwitch: NVLink x18 370.8 table\n"
        "NUMA node 0 - NUMA node 1: socket x1 22 table\n"
        "port mlx5_0 - network: network x1 50 given\n");
  const Machine& m = read.machine;
  REQUIRE(m.hosts.size() == 1);
  CHECK(m.hosts[0].hash == 0xab);
  CHECK(m.numas[0].cpus.count() == 40);
  CHECK(m.numas[0].model == 143);
  CHECK(m.numas[1].cpus.empty());
  CHECK(m.device_of_rank(1) == m.of_kind(NodeKind::gpu)[1]);
  CHECK(m.device_of_rank(2) == kNone);
  REQUIRE(m.ports.size() == 1);
  CHECK(m.ports[0].guid == 0x5eed000000000001u);
  CHECK(m.ports[0].maxconn == 131072);
  CHECK(m.ports[0].coll == 1);
  CHECK(m.ports[0].gin == -1);
  CHECK(to_string(m.pci[0].address) == "0000:10:00.0");
  CHECK(m.pci[0].subsystem_device == 0x100b);
}

TEST_CASE("links of a GPU to each NVLink switch of its host count together", "[unit][topo]") {
  const auto targets = [](const char* a, const char* b) {
    return std::string("<nvlink target=\"") + a + "\" count=\"5\" tclass=\"0x068000\"/>\n<nvlink target=\"" + b +
           "\" count=\"4\" tclass=\"0x068000\"/>\n";
  };
  const Reading read = read_machine(of_system(amd_cpu(gpu(0, "01:00.0", 80, targets("0000:c0:00.0", "0000:c1:00.0")) +
                                                      gpu(1, "02:00.0", 80, targets("0000:c1:00.0", "0000:c2:00.0")))));
  CHECK(read.notes == Lines{});
  CHECK(links_text(read.machine) ==
        "gpu 0 - NUMA node 0: PCI x16 24 derived\n"
        "gpu 1 - NUMA node 0: PCI x16 24 derived\n"
        "gpu 0 - NVSwitch: NVLink x9 180 table\n"
        "gpu 1 - NVSwitch: NVLink x9 180 table\n");
}

TEST_CASE("GPUs joined directly: each side's count, a side that does not count, a GPU joined to itself, to one that is not there",
          "[unit][topo]") {
  const auto to = [](const char* target, int count) {
    return std::string("<nvlink target=\"") + target + "\" count=\"" + std::to_string(count) + "\" tclass=\"0x030200\"/>\n";
  };
  const Reading read = read_machine(
      of_system(amd_cpu(gpu(0, "0000:01:00.0", 70, to("0000:02:00.0", 2) + to("0000:03:00.0", 2)) +
                        gpu(1, "0000:02:00.0", 70, to("0000:01:00.0", 2) + to("0000:02:00.0", 6) + to("0000:09:00.0", 1)) +
                        gpu(2, "0000:03:00.0", 60))));
  CHECK(links_text(read.machine) ==
        "gpu 0 - NUMA node 0: PCI x16 24 derived\n"
        "gpu 1 - NUMA node 0: PCI x16 24 derived\n"
        "gpu 2 - NUMA node 0: PCI x16 24 derived\n"
        "gpu 0 - gpu 1: NVLink x2 40 table\n"
        "gpu 0 - gpu 2: NVLink x2 36 table\n");
  CHECK(read.notes == Lines{"NVLink link of a GPU to itself ignored: gpu 1",
                            "NVLink link to a GPU that is not there ignored: gpu 1 to 0000:09:00.0",
                            "NVLink links that the two GPUs count differently, taken as the smaller number above 0: gpu 0 has 2 "
                            "to gpu 2, which has 0"});
}

TEST_CASE("NVLink to the CPU", "[unit][topo]") {
  const Reading read = read_machine(
      of_system("<cpu numaid=\"8\" arch=\"ppc64\">" +
                gpu(0, "0004:04:00.0", 70, "<nvlink target=\"ffff:ff:ff.0\" count=\"3\" tclass=\"0x068001\"/>") + "</cpu>"));
  CHECK(links_text(read.machine) ==
        "gpu 0 - NUMA node 8: PCI x16 24 derived\n"
        "NUMA node 8 - gpu 0: NVLink x3 60 table\n");
}

TEST_CASE("targets may be ranks, and <gpu> and <net> may stand directly under <cpu>", "[unit][topo]") {
  const Reading read =
      read_machine(of_system(amd_cpu("<!-- no bus -->\n<gpu dev=\"0\" sm=\"90\" rank=\"0\" gdr=\"1\"><nvlink target=\"1\" "
                                     "count=\"18\"/><!-- in between --></gpu>\n"
                                     "<gpu dev=\"1\" sm=\"90\" rank=\"1\" gdr=\"1\"><nvlink target=\"0\" count=\"18\"/></gpu>\n"
                                     "<net name=\"mlx5_0\" port=\"1\" speed=\"400000\"/>")));
  CHECK(links_text(read.machine) ==
        "gpu 0 - NUMA node 0: PCI x16 12 assumed\n"
        "gpu 1 - NUMA node 0: PCI x16 12 assumed\n"
        "nic - NUMA node 0: internal x1 50 derived\n"
        "port mlx5_0 - nic: internal x1 50 given\n"
        "gpu 0 - gpu 1: NVLink x18 370.8 table\n"
        "port mlx5_0 - network: network x1 50 given\n");
  CHECK(read.notes == Lines{"PCI link unknown, taken as 8 GT/s x16: gpu 0, gpu 1"});
}

TEST_CASE("RCCL's version 2: xGMI, gcn as number or name, C2C with its attributes in any order", "[unit][topo]") {
  const auto amd_gpu = [](int dev, const char* busid, const char* gcn, const std::string& inside) {
    return std::string("<pci busid=\"") + busid +
           "\" class=\"0x120000\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"" + std::to_string(dev) +
           "\" sm=\"304\" gcn=\"" + gcn + "\" arch=\"38911\" rank=\"" + std::to_string(dev) + "\" gdr=\"1\">" + inside +
           "</gpu></pci>";
  };
  const Reading read = read_machine(
      "<!-- before the root\n over two lines -->\n<system version=\"2\">" +
      amd_cpu(amd_gpu(0, "0000:01:00.0", "gfx942",
                      "<c2c count=\"8\" bw=\"50000\"/><xgmi target=\"0000:02:00.0\" count=\"4\" tclass=\"0x120000\"/>") +
              amd_gpu(1, "0000:02:00.0", "gfx942", "<xgmi target=\"0000:01:00.0\" count=\"4\" tclass=\"0x120000\"/>") +
              amd_gpu(2, "0000:03:00.0", "908", "<xgmi target=\"0000:04:00.0\" count=\"1\" tclass=\"0x038000\"/>") +
              amd_gpu(3, "0000:04:00.0", "910", "<xgmi target=\"0000:03:00.0\" count=\"1\" tclass=\"0x038000\"/>")) +
      "</system>");
  CHECK(read.notes == Lines{});
  CHECK(contains(links_text(read.machine),
                 "gpu 0 - gpu 1: xGMI x4 192 table\n"
                 "gpu 2 - gpu 3: xGMI x1 24 table\n"
                 "gpu 0 - NUMA node 0: C2C x8 400 given\n"));
  CHECK(read.machine.gpus[0].gcn == "gfx942");
  CHECK(contains(to_xml(read.machine), "<system version=\"2\">"));
}

TEST_CASE("one GPU as two: parts share its address, its lanes and its links", "[unit][topo]") {
  const std::string links =
      "<nvlink target=\"fffffff:ff:ff.0\" count=\"36\" tclass=\"0x068000\"/><c2c bw=\"50000\" count=\"7\"/></gpu>";
  const Reading read =
      read_machine(of_system("<cpu numaid=\"0\" arch=\"arm64\"><pci busid=\"0002:81:00.0\" class=\"0x030200\" link_speed=\"64.0 "
                             "GT/s PCIe\" link_width=\"2\">"
                             "<gpu dev=\"0\" sm=\"107\" mlopart=\"0\" rank=\"0\" gdr=\"1\">" +
                             links + "<gpu dev=\"0\" sm=\"107\" mlopart=\"1\" rank=\"1\" gdr=\"1\">" + links + "</pci></cpu>"));
  CHECK(read.notes == Lines{});
  CHECK(links_text(read.machine) ==
        "function 0002:81:00.0 - NUMA node 0: PCI x2 12 derived\n"
        "gpu 0 part 0 - function 0002:81:00.0: internal x1 2618 table\n"
        "gpu 0 part 1 - function 0002:81:00.0: internal x1 2618 table\n"
        "gpu 0 part 0 - NVSwitch: NVLink x36 721.8 table\n"
        "gpu 0 part 1 - NVSwitch: NVLink x36 721.8 table\n"
        "gpu 0 part 0 - NUMA node 0: C2C x7 175 given\n"
        "gpu 0 part 1 - NUMA node 0: C2C x7 175 given\n");
}

TEST_CASE("several hosts in one file: equal addresses, device and NUMA numbers; one NVLink domain, or a switch each",
          "[unit][topo]") {
  const auto host = [](const char* hash, int rank, const char* target) {
    return std::string("<cpu host_hash=\"") + hash +
           "\" numaid=\"0\" arch=\"arm64\"><pci busid=\"0008:06:00.0\" class=\"0x030200\"" +
           " link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"0\" sm=\"103\" rank=\"" + std::to_string(rank) +
           "\"><nvlink target=\"" + target +
           "\" count=\"18\" tclass=\"0x068000\"/></gpu></pci><nic><net name=\"eth0\" dev=\"0\" speed=\"1000\"/></nic></cpu>";
  };
  SECTION("one domain") {
    const Machine m = read_machine(of_system(host("0x1", 0, "fffffff:ff:ff.0") + host("0x2", 1, "fffffff:ff:ff.0"))).machine;
    CHECK(m.hosts.size() == 2);
    CHECK(m.ports.size() == 2);
    REQUIRE(m.of_kind(NodeKind::nv_switch).size() == 1);
    CHECK(m.node(m.of_kind(NodeKind::nv_switch)[0]).host == kNone);
    CHECK(contains(links_text(m),
                   "gpu 0 of host 0 - NVSwitch: NVLink x18 721.8 table\ngpu 0 of host 1 - NVSwitch: NVLink x18 721.8 table\n"));
  }
  SECTION("a switch each") {
    const Machine m = read_machine(of_system(host("0x1", 0, "0000:c0:00.0") + host("0x2", 1, "0000:c0:00.0"))).machine;
    REQUIRE(m.of_kind(NodeKind::nv_switch).size() == 2);
    CHECK(m.node(m.of_kind(NodeKind::nv_switch)[1]).host == 1);
  }
}

TEST_CASE("what is not stated: version, NUMA node, affinity, bus, model, speed", "[unit][topo]") {
  const Reading read = read_machine(
      "<system>\n<cpu arch=\"arm64\">\n<pci busid=\"0000:01:00.0\" link_speed=\"32.0 GT/s PCIe\" link_width=\"4\">\n"
      "<nic><net name=\"roce0\" gdr=\"0\" net=\"1\" gin=\"1\"/></nic></pci>\n"
      "<pci busid=\"0000:02:00.0\">\n<apu dev=\"3\"/></pci>\n<pci busid=\"0000:03:00.0\"/>\n</cpu>\n</system>");
  CHECK(read.notes == Lines{"<system> without version, read as version 1: line 1", "NUMA node of a <cpu> not stated: line 2",
                            "model (sm) of a GPU not stated: line 6",
                            "PCI function without <gpu> or <nic>: only detection on its host can tell what it is: 0000:03:00.0",
                            "port speed unknown, taken as 10 Gbit/s: port roce0",
                            "PCI link unknown, taken as 8 GT/s x16: gpu 3, function 0000:03:00.0"});
  CHECK(links_text(read.machine) ==
        "nic 0000:01:00.0 - NUMA node: PCI x4 12 derived\n"
        "port roce0 - nic 0000:01:00.0: internal x1 1.25 assumed\n"
        "gpu 3 - NUMA node: PCI x16 12 assumed\n"
        "function 0000:03:00.0 - NUMA node: PCI x16 12 assumed\n"
        "port roce0 - network: network x1 1.25 assumed\n");
  CHECK(read.machine.ports[0].gin == 1);
  CHECK(read.machine.ports[0].dev == -1);
}

TEST_CASE("NUMA node -1 is one not stated", "[unit][topo]") {
  const Reading read = read_machine(of_system("<cpu numaid=\"-1\" vendor=\"GenuineIntel\" modelid=\"85\"/>"));
  CHECK(read.notes == Lines{"NUMA node of a <cpu> not stated: line 2"});
  CHECK(read.machine.numas.at(0).id == -1);
}

TEST_CASE("a virtual machine's switch that states 2.5 GT/s x1 is as fast as its devices; a real x1 link stays", "[unit][topo]") {
  const auto below = [](const char* width) {
    return of_system(
        amd_cpu(std::string("<pci busid=\"0000:01:00.0\" class=\"0x060400\" link_speed=\"2.5 GT/s PCIe\" link_width=\"1\">"
                            "<pci busid=\"0000:02:00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" link_width=\"") +
                width + "\"><gpu dev=\"0\" sm=\"90\"/></pci></pci>"));
  };
  const Reading virtual_one = read_machine(below("0"));
  CHECK(links_text(virtual_one.machine) ==
        "switch 0000:01:00.0 - NUMA node 0: PCI x16 48 assumed\n"
        "gpu 0 - switch 0000:01:00.0: PCI x16 48 assumed\n");
  CHECK(virtual_one.notes == Lines{"PCI switch states less than hangs below it, taken to be as fast as its fastest device: "
                                   "switch 0000:01:00.0 (2.5 GT/s x1)",
                                   "PCI width unknown, taken as x16: gpu 0"});
  CHECK(virtual_one.machine.pci[0].speed == 2500);
  CHECK(contains(links_text(read_machine(below("1")).machine), "switch 0000:01:00.0 - NUMA node 0: PCI x1 0.187 derived\n"));
}

TEST_CASE("PCI links: speeds as kernels write them, widths that cannot be, switches that state nothing", "[unit][topo]") {
  const auto link = [](const char* speed, const char* width) {
    return links_text(read_machine(of_system(amd_cpu(std::string("<pci busid=\"0000:02:00.0\" class=\"0x030200\" link_speed=\"") +
                                                     speed + "\" link_width=\"" + width + "\"><gpu dev=\"0\" sm=\"90\"/></pci>")))
                          .machine);
  };
  CHECK(contains(link("16.0 GT/s PCIe", "16"), " x16 24 derived"));
  CHECK(contains(link("16 GT/s", "8"), " x8 12 derived"));
  CHECK(contains(link("5.0 GT/s PCIe", "16"), " x16 6 derived"));
  CHECK(contains(link("2.5 GT/s", "16"), " x16 3 derived"));
  CHECK(contains(link("64.0 GT/s PCIe", "2"), " x2 12 derived"));
  CHECK(contains(link("12.125 GT/s", "16"), " x16 18.187 derived"));
  CHECK(contains(link("Unknown speed", "8"), " x8 6 assumed"));
  CHECK(contains(link("", "0"), " x16 12 assumed"));
  CHECK(contains(link("0 GT/s", "255"), " x16 12 assumed"));
  const Reading silent =
      read_machine(of_system(amd_cpu("<pci busid=\"ffff:ff:01.0\" class=\"0x060400\"><pci busid=\"0000:02:00.0\" "
                                     "class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\"/></pci>"
                                     "<pci busid=\"ffff:ff:02.0\" class=\"0x060400\"/>")));
  CHECK(links_text(silent.machine) ==
        "switch ffff:ff:01.0 - NUMA node 0: PCI x16 24 assumed\n"
        "function 0000:02:00.0 - switch ffff:ff:01.0: PCI x16 24 derived\n"
        "switch ffff:ff:02.0 - NUMA node 0: PCI x16 12 assumed\n");
}

TEST_CASE("a second address for two switches is two switches; links between switches are kept", "[unit][topo]") {
  const std::string twice = "<pci busid=\"0000:05:00.0\" class=\"0x060400\" link_speed=\"16 GT/s\" link_width=\"16\"/>";
  const Reading read = read_machine(of_system(amd_cpu(
      twice + twice +
      "<pci busid=\"0000:06:00.0\" class=\"0x060400\" link_speed=\"16 GT/s\" link_width=\"16\"><pcilink target=\"0000:07:00.0\"/>"
      "<pcilink target=\"0000:05:00.0\"/></pci>"
      "<pci busid=\"0000:07:00.0\" class=\"0x060400\" link_speed=\"8 GT/s\" link_width=\"16\"><pcilink "
      "target=\"0000:06:00.0\"/></pci>")));
  CHECK(contains(links_text(read.machine), "switch 0000:06:00.0 - switch 0000:07:00.0: PCI x1 12 assumed\n"));
  CHECK(read.machine.links.size() == 5);
  CHECK(read.notes ==
        Lines{"bus id stands more than once in a host, taken as different functions: 0000:05:00.0",
              "link between PCI switches of which one is not there, or several, ignored: switch 0000:06:00.0 to 0000:05:00.0",
              "link between PCI switches taken to be as fast as the slower one's way up: switch 0000:06:00.0 to switch "
              "0000:07:00.0"});
}

TEST_CASE("ports: two of one adapter, one under both CPUs, bonds and bridges, kbit/s", "[unit][topo]") {
  const std::string eth = "<nic><net name=\"eth0\" dev=\"0\" speed=\"10000\" port=\"0\" guid=\"0x0\"/></nic>";
  const Reading read = read_machine(
      of_system(amd_cpu("<pci busid=\"0000:01:00.0\" class=\"0x020000\" link_speed=\"8 GT/s\" link_width=\"8\"><nic><net "
                        "name=\"mlx5_bond_0\" dev=\"1\" speed=\"100000\"/>"
                        "<net name=\"cxi1\" dev=\"2\" speed=\"200000000\"/></nic></pci>" +
                        eth) +
                "<cpu numaid=\"1\" vendor=\"AuthenticAMD\">" + eth +
                "<nic><net name=\"br-0\" dev=\"3\" speed=\"1000\"/><net name=\"veth0\" dev=\"4\" speed=\"10\"/></nic></cpu>"));
  CHECK(links_text(read.machine) ==
        "nic 0000:01:00.0 - NUMA node 0: PCI x8 6 derived\n"
        "port mlx5_bond_0 - nic 0000:01:00.0: internal x1 12.5 given\n"
        "port cxi1 - nic 0000:01:00.0: internal x1 25 given\n"
        "nic - NUMA node 0: internal x1 1.25 derived\n"
        "port eth0 - nic: internal x1 1.25 given\n"
        "nic - NUMA node 1: internal x1 0.126 derived\n"
        "port br-0 - nic: internal x1 0.125 given\n"
        "port veth0 - nic: internal x1 0.001 given\n"
        "NUMA node 0 - NUMA node 1: socket x1 16 table\n"
        "port mlx5_bond_0 - network: network x1 12.5 given\n"
        "port cxi1 - network: network x1 25 given\n"
        "port eth0 - network: network x1 1.25 given\n"
        "port br-0 - network: network x1 0.125 given\n"
        "port veth0 - network: network x1 0.001 given\n");
  CHECK(read.notes == Lines{"port speed taken as kbit/s: cxi1 states 200000000 Mbit/s",
                            "port that stands under several CPUs of a host counted once: eth0 in line 4"});
}

TEST_CASE("CPU ranks are written and read", "[unit][topo]") {
  const Reading read =
      read_machine(of_system(amd_cpu("<cpurank rank=\"0\" affinity=\"f\" cores=\"2\" l2=\"1048576\" l3=\"33554432\" "
                                     "bw=\"20000\"/><cpurank rank=\"1\" affinity=\"f0\"/>")));
  CHECK(links_text(read.machine) ==
        "cpu rank 0 - NUMA node 0: memory x1 20 given\n"
        "cpu rank 1 - NUMA node 0: memory x1 10 assumed\n");
  CHECK(read.machine.cpu_ranks[0].l3_bytes == 33554432);
  CHECK(read.machine.device_of_rank(1) == 2);
}

TEST_CASE("text is kept through writing, whatever is in it", "[unit][topo]") {
  const Reading read =
      read_machine(of_system("<cpu numaid=\"0\" vendor=\"  Shanghai  \"><net name=\"a&quot;&lt;b&gt;&amp;&#9;c\xc3\xa9\" "
                             "speed=\"8\" latency=\"0.1\"/></cpu>"));
  CHECK(read.machine.numas[0].vendor == "  Shanghai  ");
  CHECK(read.machine.ports[0].name == "a\"<b>&\tc\xc3\xa9");
  CHECK(read.machine.ports[0].latency == 0.1);
  CHECK(read_machine("<system version=\"1\"><cpu numaid=\"0\"><net name=\"&#27;[31m\"/></cpu></system>").notes ==
        Lines{"port speed unknown, taken as 10 Gbit/s: port ?[31m"});
}

TEST_CASE("unknown elements and attributes are noted once and ignored", "[unit][topo]") {
  const Reading read = read_machine(of_system(
      "<future/>\n" +
      amd_cpu("<pci busid=\"0000:01:00.0\" keep=\"1\" color=\"red\"/>\n<pci busid=\"0000:02:00.0\" color=\"blue\"/>\n")));
  REQUIRE(read.notes.size() == 4);
  CHECK(read.notes[0] == "<future> in <system> is not known and was ignored: line 2");
  CHECK(read.notes[1] == "attribute color of <pci> is not known and was ignored: line 4, line 5");
}

TEST_CASE("an empty machine is one", "[unit][topo]") {
  const Reading read = read_machine("<?xml version=\"1.0\"?><!DOCTYPE system><system version=\"1\"/>");
  CHECK(read.machine == Machine{});
  CHECK(read.notes == Lines{"no <cpu>: the machine is empty: line 1"});
}
