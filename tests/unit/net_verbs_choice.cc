// Which ports and GIDs the network "IB" uses. Needs neither adapters nor libibverbs.
#include <cstring>

#include <arpa/inet.h>

#include "support/catch.h"
#include "support/scratch.h"
#include "transport/verbs/gid.h"
#include "transport/verbs/hca.h"
#include "unit/boot_ranks.h"

using namespace ronde;
using namespace ronde::net;
using namespace ronde::test;

namespace {

/// "10.0.0.1/24", "fe80::1/64"; a prefix of 0 where it has none.
Gid gid(int index, const std::string& text, uint8_t roce = 2) {
  Gid made;
  made.index = index;
  made.roce = roce;
  const size_t slash = text.find('/');
  const std::string address = text.substr(0, slash);
  in_addr four{};
  const bool mapped = inet_pton(AF_INET, address.c_str(), &four) == 1;
  if (mapped) {
    made.bytes[10] = made.bytes[11] = 0xff;
    std::memcpy(made.bytes.data() + 12, &four, 4);
  } else {
    REQUIRE(inet_pton(AF_INET6, address.c_str(), made.bytes.data()) == 1);
  }
  if (slash != std::string::npos) made.prefix = static_cast<uint8_t>(std::stoi(text.substr(slash + 1)) + (mapped ? 96 : 0));
  return made;
}

GidWishes wishes(const Settings& settings = {}) {
  auto read = gid_wishes(*config_of(settings));
  if (!read.ok()) FAIL(read.error().what);
  return *read;
}

std::vector<Gid> offered(const std::vector<Gid>& table, const Settings& settings = {}) {
  auto list = offered_gids(table, wishes(settings));
  if (!list.ok()) FAIL(list.error().what);
  return *list;
}

/// "index to index: reason" for two tables.
std::string choice(const std::vector<Gid>& from, const std::vector<Gid>& to, const Settings& settings = {}) {
  const auto sender = offered(from, settings), receiver = offered(to, settings);
  const auto pair = choose_gids(sender, receiver);
  if (!pair.has_value()) return "none";
  return std::to_string(sender[pair->sender].index) + " to " + std::to_string(receiver[pair->receiver].index) + ": " +
         pair->reason;
}

}  // namespace

TEST_CASE("IB: NCCL_IB_HCA", "[unit][net][verbs]") {
  CHECK(HcaFilter("").admits("mlx5_0", 1));
  CHECK(HcaFilter("mlx5_1").admits("mlx5_1", 2));
  CHECK(HcaFilter("mlx5_1").admits("mlx5_10", 1));  // a beginning
  CHECK_FALSE(HcaFilter("=mlx5_1").admits("mlx5_10", 1));
  CHECK(HcaFilter("=mlx5_1,mlx5_10").admits("mlx5_10", 1));
  CHECK(HcaFilter("mlx5_0:1").admits("mlx5_0", 1));
  CHECK_FALSE(HcaFilter("mlx5_0:1").admits("mlx5_0", 2));
  CHECK(HcaFilter("mlx5_0:1,mlx5_0:2").admits("mlx5_0", 2));
  CHECK(HcaFilter("=mlx5_0::0:0").admits("mlx5_0", 2));
  CHECK_FALSE(HcaFilter("^mlx5_1").admits("mlx5_10", 1));
  CHECK(HcaFilter("^=mlx5_1").admits("mlx5_10", 1));
  CHECK_FALSE(HcaFilter("^=mlx5_1:2").admits("mlx5_1", 2));
  CHECK(HcaFilter("^=mlx5_1:2").admits("mlx5_1", 1));
  CHECK(HcaFilter("mlx5_0:x,mlx5_1:0").wrong() == std::vector<std::string>{"mlx5_0:x", "mlx5_1:0"});
  CHECK(HcaFilter("mlx5_0::1:2").wrong().empty());
}

TEST_CASE("IB: the GID pair of a connection", "[unit][net][verbs]") {
  const auto link_local = [](int index, int host, uint8_t roce = 2) { return gid(index, "fe80::" + std::to_string(host), roce); };
  const std::vector<Gid> here = {link_local(0, 1, 1), link_local(1, 1), gid(2, "10.0.0.1/24", 1), gid(3, "10.0.0.1/24"),
                                 gid(5, "2001:db8::1/64")};
  const std::vector<Gid> there = {link_local(0, 2, 1), link_local(1, 2), gid(2, "2001:db8::2/64"), gid(6, "10.0.0.2/24")};

  CHECK(choice(here, there) == "3 to 6: RoCE v2, IPv4, one subnet");
  CHECK(choice(there, here) == "6 to 3: RoCE v2, IPv4, one subnet");
  CHECK(choice(here, there, {{"NCCL_IB_ADDR_FAMILY", "AF_INET6"}}) == "5 to 2: RoCE v2, IPv6, one subnet");
  CHECK(choice(here, there, {{"NCCL_IB_ADDR_RANGE", "2001:db8::/32"}}) == "5 to 2: RoCE v2, IPv6, one subnet");
  CHECK(choice(here, here, {{"NCCL_IB_ROCE_VERSION_NUM", "1"}}) == "2 to 2: RoCE v1, IPv4, one subnet");
  CHECK(choice(here, there, {{"NCCL_IB_GID_INDEX", "0"}}) ==
        "0 to 0: RoCE v1, IPv6, link-local, since the two have no routable kind in common");

  SECTION("one subnet before the preferred family, that before none") {
    CHECK(choice({gid(0, "10.0.0.1/24"), gid(1, "2001:db8::1/64")}, {gid(0, "10.0.1.2/24"), gid(1, "2001:db8::2/64")}) ==
          "1 to 1: RoCE v2, IPv6, one subnet");
    CHECK(choice({gid(0, "2001:db8::1/64"), gid(1, "10.0.0.1/24")}, {gid(0, "2001:db8:1::2/64"), gid(1, "10.0.1.2/24")}) ==
          "1 to 1: RoCE v2, IPv4, routable, no subnet in common");
  }
  SECTION("routable before link-local, whatever the order of the table") {
    CHECK(choice({link_local(0, 1), gid(1, "2001:db8::1/64")}, {link_local(0, 2), gid(1, "2001:db9::2/64")}) ==
          "1 to 1: RoCE v2, IPv6, routable, no subnet in common");
    CHECK(choice({gid(0, "169.254.1.1/16"), gid(1, "2001:db8::1/64")}, {gid(0, "169.254.1.2/16"), gid(1, "2001:db8::2/64")}) ==
          "1 to 1: RoCE v2, IPv6, one subnet");
    CHECK(choice({link_local(0, 1), gid(1, "10.0.0.1/24")}, {link_local(0, 2)}) ==
          "0 to 0: RoCE v2, IPv6, link-local, since the two have no routable kind in common");
  }
  SECTION("what does not go together") {
    CHECK(choice({gid(0, "10.0.0.1/24")}, {gid(0, "2001:db8::2/64")}) == "none");
    CHECK(choice({gid(0, "10.0.0.1/24", 1)}, {gid(0, "10.0.0.2/24", 2)}) == "none");
    CHECK(choice({link_local(0, 1)}, {gid(0, "2001:db8::2/64")}) == "none");
  }
  SECTION("several rails: that of the peer's subnet") {
    CHECK(choice({gid(1, "10.1.0.1/16"), gid(3, "10.2.0.1/16")}, {gid(7, "10.2.0.2/16")}) == "3 to 7: RoCE v2, IPv4, one subnet");
  }
  SECTION("InfiniBand, whose subnets are named by the first half") {
    const auto infiniband = [](const char* text) {
      Gid made = gid(0, text, 0);
      made.prefix = 64;
      return made;
    };
    CHECK(choice({infiniband("fe80::1")}, {infiniband("fe80::2")}) == "0 to 0: InfiniBand, one subnet");
    CHECK(choice({infiniband("fe80::1")}, {infiniband("fec0:0:0:7::2")}) == "0 to 0: InfiniBand, routable, no subnet in common");
  }
}

TEST_CASE("IB: what a port offers", "[unit][net][verbs]") {
  const std::vector<Gid> table = {gid(0, "fe80::1"), gid(1, "10.0.0.1/24")};
  const auto refused = [&](const Settings& settings, const std::vector<Gid>& gids) {
    const auto list = offered_gids(gids, wishes(settings));
    return list.ok() ? "" : list.error().what;
  };
  CHECK(refused({}, {}) == "the GID table has no entry to use: it is empty; give its interface an address; it has none");
  CHECK(refused({{"NCCL_IB_GID_INDEX", "7"}}, table) ==
        "the GID table has no entry to use: index 7 (NCCL_IB_GID_INDEX) is empty; it has 0: fe80::1, 1: 10.0.0.1");
  CHECK(refused({{"NCCL_IB_ADDR_RANGE", "10.1.0.0/16"}}, table).find("none lies in NCCL_IB_ADDR_RANGE") != std::string::npos);
  CHECK(refused({{"NCCL_IB_ADDR_RANGE", "10.0.0.0/8"}}, table).empty());
  for (const char* bad : {"10.0.0.0/33", "10.0.0/8", "2001:db8::/129", "10.0.0.0/", "10.0.0.0/8x"}) {
    INFO(bad);
    const auto read = gid_wishes(*config_of({{"NCCL_IB_ADDR_RANGE", bad}}));
    REQUIRE_FALSE(read.ok());
    CHECK(read.error().what.find(std::string("NCCL_IB_ADDR_RANGE=") + bad) == 0);
  }
  std::vector<Gid> many;
  for (int i = 0; i < 40; ++i) many.push_back(gid(i, i == 39 ? "10.0.0.1/24" : "fe80::" + std::to_string(i + 1)));
  const auto list = offered(many);
  REQUIRE(list.size() == kMaxGids);
  CHECK(list[0].index == 39);
  CHECK(list[1].index == 0);
}

TEST_CASE("IB: GID tables as /sys has them", "[unit][net][verbs]") {
  const Scratch host;
  const auto entry = [&](int index, const std::string& text, const std::string& type) {
    const std::string folder = "sys/class/infiniband/rxe0/ports/1/";
    host.write(folder + "gids/" + std::to_string(index), text + "\n");
    if (!type.empty()) host.write(folder + "gid_attrs/types/" + std::to_string(index), type + "\n");
  };
  const std::string layer = "sys/class/infiniband/rxe0/ports/1/link_layer";
  host.write(layer, "Ethernet\n");
  entry(0, "fe80:0000:0000:0000:0000:00ff:fe00:0001", "IB/RoCE v1");
  entry(1, "fe80:0000:0000:0000:0000:00ff:fe00:0001", "RoCE v2");
  entry(2, "0000:0000:0000:0000:0000:0000:0000:0000", "");
  entry(10, "0000:0000:0000:0000:0000:ffff:0a02:0001", "RoCE v2");
  Interface own;
  own.address.family = 4;
  own.address.ip = {10, 2, 0, 1};
  own.prefix = 24;
  const auto files = topo::HostFiles::open(host.root());
  REQUIRE(files.ok());
  std::vector<Gid> table = read_gids(*files, "rxe0", 1, std::vector{own});
  REQUIRE(table.size() == 3);
  CHECK(table[0].roce == 1);
  CHECK(table[1].roce == 2);
  CHECK(table[1].link_local());
  CHECK(table[2] == gid(10, "10.2.0.1/24"));
  CHECK(to_string(table[2]) == "10.2.0.1");
  CHECK(to_string(table[0]) == "fe80::ff:fe00:1");
  host.write(layer, "InfiniBand\n");
  table = read_gids(*files, "rxe0", 1, {});
  CHECK(table[0].roce == 0);
  CHECK(table[0].prefix == 64);
  CHECK(read_gids(*files, "rxe1", 1, {}).empty());
}
