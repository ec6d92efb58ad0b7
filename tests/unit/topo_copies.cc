// Machines made of several alike.
#include <string>

#include "support/catch.h"
#include "support/topo.h"
#include "topo/copies.h"
#include "topo/text.h"

using namespace ronde;
using namespace ronde::topo;

namespace {

const char* const kHost = R"(
2 cpu sapphire {
  switch gen5x16 {
    2 gpu h100
    nic gen5x16 400G 400G
  }
}
nvlink 0-3 switch x18
)";

}  // namespace

TEST_CASE("copies are hosts side by side, as if they had been written down so", "[unit][topo]") {
  const Machine one = test::read_text(kHost).machine;
  CHECK(copies(one, 1) == one);
  const Machine three = copies(one, 3);
  CHECK(check(three) == std::vector<std::string>{});
  CHECK(three.hosts.size() == 3);
  CHECK(three.hosts[1].hash != three.hosts[2].hash);
  CHECK(three.of_kind(NodeKind::network).size() == 1);
  CHECK(three.of_kind(NodeKind::nv_switch).size() == 3);
  CHECK(three.links.size() == 3 * one.links.size());
  for (int rank = 0; rank < 12; ++rank) {
    INFO(rank);
    const NodeId device = three.device_of_rank(rank);
    REQUIRE(device != kNone);
    CHECK(three.node(device).host == rank / 4);
    CHECK(three.gpu(device).dev == rank % 4);
  }
  // The text form lists every order that a Machine has to keep.
  CHECK(test::read_text(to_text(three)).machine == three);
}

TEST_CASE("copies of several hosts in one NVLink domain are as many domains", "[unit][topo]") {
  const Machine rack = test::read_text(
                           "host { cpu { 2 gpu b200; nic 400G } }; host { cpu { 2 gpu b200; nic 400G } }\n"
                           "nvlink 0-3 domain x18\n")
                           .machine;
  REQUIRE(rack.hosts.size() == 2);
  const Machine two = copies(rack, 2);
  CHECK(check(two) == std::vector<std::string>{});
  CHECK(two.hosts.size() == 4);
  CHECK(two.of_kind(NodeKind::nv_switch).size() == 2);
  CHECK(two.of_kind(NodeKind::network).size() == 1);
  CHECK(two.device_of_rank(7) != kNone);
}

TEST_CASE("copies of a machine that names its NVLink domain are as many domains, whoever reads them", "[unit][topo]") {
  const Machine one = test::read_text("cpu { 2 gpu b200 domain=d; nic 400G }\nnvlink 0-1 switch x18\n").machine;
  const Machine two = copies(one, 2);
  CHECK(two.of_kind(NodeKind::nv_switch).size() == 2);
  CHECK(two.gpus[0].domain != two.gpus[2].domain);
  CHECK(test::read_text(to_text(two)).machine == two);
}

TEST_CASE("copies of a machine without ports have no network", "[unit][topo]") {
  const Machine two = copies(test::read_text("cpu { 2 gpu a100 }").machine, 2);
  CHECK(check(two) == std::vector<std::string>{});
  CHECK(two.of_kind(NodeKind::network).empty());
}

TEST_CASE("copies of devices whose ranks have no room above them have none", "[unit][topo]") {
  const Machine one = test::read_text("cpu { gpu rank=1073741823; gpu rank=5 }").machine;
  CHECK(copies(one, 2).gpus.at(2).rank == -1);
  CHECK(copies(test::read_text("cpu { gpu rank=1073741822; gpu rank=5 }").machine, 2).gpus.at(2).rank == 2147483645);
  CHECK(copies(test::read_text("cpu { gpu rank=2147483647 }").machine, 3).gpus.at(0).rank == -1);
  CHECK(check(copies(one, 2)) == std::vector<std::string>{});
}
