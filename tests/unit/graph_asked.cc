// Channels in orders that a user asks for.
#include <string>
#include <vector>

#include "graph/asked.h"
#include "graph/load.h"
#include "support/catch.h"
#include "topo/copies.h"
#include "unit/graph_support.h"

using namespace ronde;
using namespace ronde::graph;
using namespace ronde::topo;
using namespace ronde::test;

namespace {

Result<Joined> ask(const Machine& m, const std::string& orders, Shape shape = Shape::ring, const Rules& rules = {}) {
  Limits limits;
  limits.rules = rules;
  limits.rules.asked = orders;
  return find_channels(m, gpus(m), shape, limits);
}

Joined given(const Machine& m, const std::string& orders, Shape shape = Shape::ring) {
  auto joined = ask(m, orders, shape);
  INFO((joined.ok() ? std::string() : joined.error().what));
  REQUIRE(joined.ok());
  CHECK(load_of(m, gpus(m), joined->channels).fits());
  for (Channel& channel : joined->channels) ++channel.rate;
  const bool capped = joined->channels[0].rate > Limits().max_rate;
  CHECK((capped || !load_of(m, gpus(m), joined->channels).fits()));
  for (Channel& channel : joined->channels) --channel.rate;
  return std::move(*joined);
}

std::string error(const Machine& m, const std::string& orders, const Rules& rules = {}) {
  const auto joined = ask(m, orders, Shape::ring, rules);
  REQUIRE_FALSE(joined.ok());
  return joined.error().what;
}

Machine host() { return read_text("2 cpu rome { switch gen4x16 { 2 gpu a100; nic gen4x16 100G } }").machine; }

}  // namespace

TEST_CASE("orders asked for are taken as they are", "[unit][graph]") {
  const Machine m = host();
  const Joined two = given(m, "0 1 2 3 | 3 2 1 0");
  REQUIRE(two.channels.size() == 2);
  CHECK(two.channels[0].ring == std::vector<int>{0, 1, 2, 3});
  CHECK(two.channels[1].ring == std::vector<int>{3, 2, 1, 0});
  const Joined chain = given(m, " 2 3 0 1 | ", Shape::chain);
  REQUIRE(chain.channels.size() == 1);
  CHECK(chain.channels[0].parent == std::vector<int>{3, 0, -1, 2});
}

TEST_CASE("orders of the devices of one node are taken in all nodes", "[unit][graph]") {
  const Machine m = copies(host(), 3);
  const Joined rings = given(m, "1 0 2 3 | 3 2 0 1");
  REQUIRE(rings.channels.size() == 2);
  CHECK(rings.channels[0].ring == std::vector<int>{1, 0, 2, 3, 5, 4, 6, 7, 9, 8, 10, 11});
  // Two trees of each order, as there are more than two nodes.
  const Joined trees = given(m, "1 0 2 3", Shape::chain);
  REQUIRE(trees.channels.size() == 2);
  for (const Channel& tree : trees.channels) {
    for (const int rank : {0, 4, 8}) CHECK(tree.parent[static_cast<size_t>(rank)] == rank + 1);
  }
}

TEST_CASE("orders of all ranks may pass nodes in any way", "[unit][graph]") {
  const Machine m = copies(host(), 2);
  CHECK(given(m, "0 4 1 5 2 6 3 7").channels.at(0).ring == std::vector<int>{0, 4, 1, 5, 2, 6, 3, 7});
  CHECK(given(m, "7 0 1 2 3 4 5 6", Shape::chain).channels.at(0).parent == std::vector<int>{7, 0, 1, 2, 3, 4, 5, -1});
}

TEST_CASE("orders that are none are told", "[unit][graph]") {
  const Machine m = host();
  CHECK(error(m, "0 1 2") ==
        "Order 1 asked for, \"0 1 2\", has neither each of 4 ranks once nor each device of the node with gpu 0 once (0 1 2 3); "
        "write either in RONDE_RINGS or RONDE_GRAPH_FILE, or none, so that one is searched.");
  CHECK(contains(error(m, "0 1 2 3 | 0 1 2 2"), "Order 2 asked for"));
  CHECK(error(m, "0 1 x 3") == "The orders of channels \"0 1 x 3\" cannot be read: expected a number at character 5; "
                              "write numbers between blanks, and bars between channels, as \"0 1 2 3 | 3 2 1 0\".");
  CHECK(contains(error(m, "0 -1"), "expected a number at character 3"));
  CHECK(contains(error(m, "| 0 1"), "nothing stands before the bar at character 1"));
  CHECK(contains(error(m, "  "), "there is none"));
  CHECK(contains(error(m, "99999999999999999999"), "expected a number at character 1"));
  std::string many;
  for (int i = 0; i < 33; ++i) many += "0 1 2 3 |";
  CHECK(error(m, many) == "33 channels are asked for, but 32 is the most; name fewer in RONDE_RINGS or RONDE_GRAPH_FILE, or raise "
                           "RONDE_MAX_NCHANNELS.");
  Rules none;
  none.p2p = none.shm = false;
  CHECK(error(read_text("2 cpu rome { 2 gpu a100 }").machine, "0 1 2 3", none) ==
        "The order asked for leads from rank 0 to rank 1, but from gpu 0 to gpu 1 there is no way; name one in RONDE_RINGS or "
        "RONDE_GRAPH_FILE in which they are not neighbours, or none, so that one is searched.");
}

TEST_CASE("orders over links that carry too little are an error", "[unit][graph]") {
  const Machine m = copies(read_text("cpu rome { gpu a100; nic gen4x16 { port mbits=8 } }").machine, 2);
  CHECK(ask(m, "0 1").ok());
  CHECK(error(m, "0 1 | 1 0") == "2 channels in the orders asked for are more than the links carry, at 1 MB/s each (port net0 of host 0 to nic "
                             "0000:02:00.0 of host 0 (internal): 2 of 1 MB/s); name fewer in RONDE_RINGS or RONDE_GRAPH_FILE, or none, so that some are searched.");
}
