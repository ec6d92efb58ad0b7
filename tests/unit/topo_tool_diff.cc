// What ronde-topo says of two machines, what it leaves out of one, and NCCL's figures.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "graph/load.h"
#include "support/catch.h"
#include "support/topo.h"
#include "tools/topo/check.h"
#include "tools/topo/diff.h"
#include "tools/topo/facts.h"
#include "tools/topo/gather.h"
#include "topo/copies.h"
#include "topo/text.h"
#include "topo/xml.h"

using namespace ronde;
using namespace ronde::topo;

namespace {

using Lines = std::vector<std::string>;

Lines diff(const std::string& one, const std::string& other) {
  return tool::differences(test::read_text(one).machine, test::read_text(other).machine, "A", "B");
}

bool one_has(const Lines& lines, const std::string& part) {
  return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

}  // namespace

TEST_CASE("diff: equal machines do not differ, those in another order do", "[unit][topo_tool]") {
  const std::string text = "cpu grace { gpu b200; nic { port 400G } }";
  CHECK(diff(text, text) == Lines{});
  CHECK(diff("cpu { gpu busid=01:00.0 dev=0 rank=0; gpu busid=02:00.0 dev=1 rank=1 }",
             "cpu { gpu busid=02:00.0 dev=1 rank=1; gpu busid=01:00.0 dev=0 rank=0 }") ==
        Lines{"the same nodes and links, in another order"});
}

TEST_CASE("diff: nodes, facts, places and links", "[unit][topo_tool]") {
  const Lines gone = diff("cpu sapphire { 2 gpu h100 }", "cpu sapphire { gpu h100 }");
  CHECK(gone == Lines{"only in A: gpu 0000:02:00.0"});
  const Lines facts = diff("cpu sapphire { gpu h100 gdr=1 }", "cpu sapphire { gpu h100 sm=89 }");
  CHECK(one_has(facts, "gpu 0000:01:00.0: gdr 1 in A, unknown in B"));
  CHECK(one_has(facts, "gpu 0000:01:00.0: sm 90 in A, 89 in B"));
  const Lines slower = diff("cpu sapphire { gpu h100 }", "cpu sapphire { gpu h100 speed=16000 }");
  CHECK(
      one_has(slower, "the link of gpu 0000:01:00.0 upwards: PCI x16, 48 GB/s (derived) in A, PCI x16, 24 GB/s (derived) in B"));
  const Lines moved =
      diff("cpu sapphire { gpu busid=09:00.0 }\ncpu sapphire", "cpu sapphire\ncpu sapphire { gpu busid=09:00.0 }");
  CHECK(one_has(moved, "below NUMA node 0 in A, below NUMA node 1 in B"));
  const Lines links = diff("cpu sapphire { 2 gpu h100 }\nnvlink 0 1 x4", "cpu sapphire { 2 gpu h100 }");
  CHECK(one_has(links, "NVLink between gpu 0000:01:00.0 and gpu 0000:02:00.0: only in A: NVLink x4"));
}

TEST_CASE("diff: hosts go by identity, whatever their order", "[unit][topo_tool]") {
  const std::string one = "host hash=1 { cpu grace { gpu b200 dev=0 rank=0 } }\n";
  const std::string two = "host hash=2 { cpu grace { gpu b200 dev=0 rank=1 } }\n";
  CHECK(diff(one + two, two + one) == Lines{"the same nodes and links, in another order"});
  CHECK(one_has(diff(one + two, one + "host hash=3 { cpu grace { gpu b200 dev=0 rank=1 } }\n"),
                "only in B: NUMA node 0 of host 3"));
}

TEST_CASE("gather: kinds of ports alone, equal things equal", "[unit][topo_tool]") {
  CHECK(tool::kind_of_port("mlx5_bond_3") == "mlx5_bond");
  CHECK(tool::kind_of_port("mlx5_0") == "mlx5");
  CHECK(tool::kind_of_port("rdmap113s0") == "rdmap");
  CHECK(tool::kind_of_port("ethan-lab") == "port");
  CHECK(tool::kind_of_port("my-company0") == "port");
  CHECK(tool::kind_of_port("") == "port");
  const Machine m =
      test::read_text("2 host { cpu { nic { port name=mlx5_7 guid=5555 400G; port name=corp-net guid=5555 400G } } }").machine;
  const Machine anonymous = tool::anonymous(m);
  REQUIRE(anonymous.ports.size() == 4);
  CHECK(anonymous.ports[0].name == "mlx5_0");
  CHECK(anonymous.ports[1].name == "port_0");
  CHECK(anonymous.ports[2].name == "mlx5_0");
  CHECK(anonymous.ports[0].guid == 1);
  CHECK(anonymous.ports[1].guid == 1);
  CHECK(anonymous.hosts[0].hash != anonymous.hosts[1].hash);
  CHECK(anonymous.links == m.links);
  const auto again = from_text(tool::report(m), "report");
  REQUIRE(again.ok());
  CHECK(again->machine == anonymous);
}

TEST_CASE("names that would move a terminal's cursor are shown without", "[unit][topo_tool]") {
  const Machine m = test::read_text("cpu vendor=\"a\x1b[2Jb\" { nic { port name=\"x\x1b[31m\\ny\xff\" 400G } }").machine;
  REQUIRE(m.ports.at(0).name == "x\x1b[31m\ny\xff");
  const NodeId port = m.of_kind(NodeKind::port).at(0);
  CHECK(describe(m, port) == "port x?[31m?y?");
  CHECK(tool::short_name(m, port) == "x?[31m?y?");
  Machine other = m;
  other.numas[0].vendor = "a\x1b[3Jb";
  other.ports[0].speed = 100000;
  CHECK(tool::differences(m, other, "m", "o") == Lines{"NUMA node 0: cpu_vendor a?[2Jb in m, a?[3Jb in o",
                                                       "port x?[31m?y?: speed_Mbps 400000 in m, 100000 in o"});
}

TEST_CASE("a gathered machine has nothing of a file's texts and identities", "[unit][topo_tool]") {
  const auto read = from_xml(
      R"(<system version="1"><cpu host_hash="0xdeadbeefcafe" numaid="0" affinity="f" arch="node17.corp" vendor="/home/jo" familyid="6">
           <pci busid="0000:01:00.0" class="0x030200" vendor="0x10de"><gpu dev="0" sm="100" gcn="GPU-5f3c" domain="0xfeedfacefeed">
             <nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/></gpu></pci>
           <pci busid="0000:02:00.0" class="0x030200" vendor="0x10de"><gpu dev="1" sm="100" gcn="90a" domain="0xfeedfacefeed">
             <nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/></gpu></pci>
           <pci busid="0000:03:00.0" class="0x020000"><nic>
             <net name="enx001122334455" dev="0" port="1" guid="0x1122334455667788"/>
             <net name="ib-node17" dev="1" port="1" guid="0x1122334455667789"/></nic></pci></cpu></system>)",
      "m.xml");
  INFO((read.ok() ? std::string() : read.error().what));
  REQUIRE(read.ok());
  const std::string text = tool::report(read->machine);
  INFO(text);
  for (const char* secret : {"deadbeef", "node17", "corp", "/home", "5f3c", "feedface", "1122", "3344", "7788", "enx"}) {
    CHECK(text.find(secret) == std::string::npos);
  }
  CHECK(text.find("gcn=90a") != std::string::npos);
  const auto again = from_text(text, "report");
  REQUIRE(again.ok());
  CHECK(again->machine.links == read->machine.links);
  CHECK(again->machine.gpus.at(0).domain == 1);
  CHECK(again->machine.gpus.at(1).domain == 1);
}

TEST_CASE("NCCL's figures: lowered until they fit, and none of what is no table", "[unit][topo_tool]") {
  const Machine m = test::read_text("2 cpu sapphire { 2 gpu h100; nic gen5x16 400G }\nnvlink 0-3 switch x18").machine;
  const auto table = [](const std::string& channels, const std::string& kind = "single") {
    return R"({"graphs":[{"file":"f","case":")" + kind +
           R"(","pattern":"RING","crossNic":0,"bwIntra":300,"searchMs":2.5,"channels":)" + channels + "}]}";
  };
  const auto rate = [&](const std::string& text, bool two = false) {
    const auto read = tool::read_reference(text, "t.json");
    REQUIRE(read.ok());
    return tool::figures_of(*read, two ? copies(m, 2) : m, "f", two, graph::Shape::ring).rate;
  };
  CHECK(rate(table(R"([{"ranks":[0,1,2,3]}])")) == 300000);
  CHECK(rate(table(R"([{"ranks":[0,1,2,3]},{"ranks":[0,1,2,3]}])")) == 370800);
  CHECK(rate(table(R"([{"ranks":[0,1,2,9]}])")) == 0);
  CHECK(rate(table(R"([{"ranks":[0,1,2,2147483647],"net":[0,0]}])", "multi"), true) == 0);
  CHECK(rate(table(R"([{"ranks":[0,1,2,3]},{"ranks":[0,1,2,2]}])")) == 0);
  CHECK(rate(table("[]")) == 0);
  for (const std::string bandwidth : {"1e300", "-1"}) {
    const std::string text = table(R"([{"ranks":[0,1,2,3]}])");
    CHECK(rate(text.substr(0, text.find("300")) + bandwidth + text.substr(text.find("300") + 3)) == 0);
  }
  // Over two machines the ports carry what they can.
  CHECK(rate(table(R"([{"ranks":[0,1,2,3],"net":[0,0]}])", "multi"), true) <= 50000);
  CHECK(rate(table(R"([{"ranks":[0,1,2,3],"net":[7,7]}])", "multi"), true) == 0);
  for (const std::string text : {"", "[]", "{}", R"({"graphs":[{}]})", R"({"graphs":[{"pattern":"RING","file":1}]})"}) {
    const auto read = tool::read_reference(text, "t.json");
    REQUIRE_FALSE(read.ok());
    CHECK(read.error().what.rfind("t.json: ", 0) == 0);
  }
}

TEST_CASE("check: what is found fits, and is compared", "[unit][topo_tool]") {
  const Machine m = test::read_text("2 cpu sapphire { 2 gpu h100; nic gen5x16 400G }\nnvlink 0-3 switch x18").machine;
  const auto rows = tool::check_channels(m, "f", {});
  REQUIRE(rows.size() == 4);
  for (const tool::Checked& row : rows) {
    CHECK(row.faults == Lines{});
    CHECK_FALSE(row.below());
    CHECK(row.two == (row.set.devices.size() == 8));
  }
  tool::Checked less = rows[0];
  less.nccl.rate = 2 * graph::total_rate(less.set.channels);
  CHECK(less.below());
  less.set.ms = 11;
  less.nccl.ms = 12;
  CHECK_FALSE(less.slow());
  CHECK(tool::row("f", 4, m, less).find("12.00\n") != std::string::npos);
  less.nccl.ms = 1;
  CHECK(less.slow());
  const std::string row = tool::row("f", 4, m, less);
  CHECK(row.find(" 0.50 ") != std::string::npos);
  CHECK(row.find("1.00 slow\n") != std::string::npos);
  CHECK(tool::check_channels(test::read_text("cpu { gpu h100 }").machine, "f", {}).empty());
}

TEST_CASE("check for programs", "[unit][topo_tool]") {
  const std::string text = "2 cpu sapphire { 2 gpu h100; nic gen5x16 400G }\nnvlink 0-3 switch x18";
  std::vector<tool::FileChecked> files = {{"good \xff", from_text(text, "f"), {}}, {"bad", from_text("2 cat", "bad"), {}}};
  files[0].rows = tool::check_channels(files[0].reading->machine, "f", {});
  REQUIRE(files[0].rows.size() == 4);
  files[0].rows[1].nccl = {1000000, 2};
  files[0].rows[2].faults = {"too much"};
  files[0].rows[3].set.channels.clear();
  files[0].rows[3].set.why_not = "none";
  tool::Tally tally;
  for (const auto& file : files) tally.count(file);
  CHECK(tally.machines == 1);
  CHECK(tally.refused == 1);
  CHECK(tally.wrong == 2);
  const auto json = nlohmann::json::parse(tool::to_json(files, tally));
  CHECK(json["wrong"] == 2);
  const auto& searches = json["files"][0]["searches"];
  CHECK(json["files"][0]["devices"] == 4);
  CHECK(json["files"][0]["nics"] == 2);
  CHECK(searches[0]["shape"] == "ring");
  CHECK(searches[0]["total_MBps"] == graph::total_rate(files[0].rows[0].set.channels));
  CHECK_FALSE(searches[0].contains("nccl_MBps"));
  CHECK(searches[1]["below_nccl"] == true);
  CHECK(searches[1]["nccl_search_ms"] == 2);
  CHECK(searches[2]["faults"][0] == "too much");
  CHECK(searches[2]["hosts"] == "two");
  CHECK(searches[3]["error"] == "none");
  CHECK(json["files"][1]["error"].get<std::string>().rfind("bad:1", 0) == 0);
}
