// Algorithms over several nodes: proven for many shapes, and what crosses between the nodes.
#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include "plan/build.h"
#include "plan_support.h"
#include "support/catch.h"

using namespace ronde;
using namespace ronde::test;

namespace {

constexpr Coll kCollectives[] = {Coll::all_reduce, Coll::broadcast, Coll::reduce, Coll::all_gather, Coll::reduce_scatter};

std::string sizes_text(const std::vector<int>& sizes) {
  std::string text;
  for (int size : sizes) text += (text.empty() ? "" : "+") + std::to_string(size);
  return text;
}

void prove(const Algorithm& algorithm, const CollSpec& spec, const Channel& channel) {
  const std::vector<Program> world = world_of(algorithm, spec, channel);
  for (const bool in_place : {false, true}) {
    const Verdict verdict = verify(spec, world, {.in_place = in_place});
    INFO(describe(algorithm, spec) << (in_place ? " in place: " : ": ") << faults_of(verdict));
    REQUIRE(verdict.ok());
    REQUIRE(verdict.min_slots <= 2);
    REQUIRE((verdict.canonical || !algorithm.canonical(spec)));
  }
}

/// Every algorithm that looks at the nodes, and every collective, by these roots.
void prove_all(const Channel& channel, const std::set<int>& roots) {
  for (const char* name : {"hier", "tree"}) {
    const Algorithm& algorithm = *find_algorithm(name);
    for (const Coll coll : kCollectives) {
      if (!algorithm.supports({coll, 2, 0})) continue;
      const int n = static_cast<int>(channel.ring.size());
      for (const int root : has_root(coll) ? roots : std::set<int>{0}) prove(algorithm, {coll, n, root}, channel);
    }
  }
}

const std::vector<std::vector<int>> kUnlike = {
    {1, 2}, {2, 1},       {1, 1, 1, 4},    {2, 3},       {3, 2, 1},       {2, 2, 1}, {4, 1, 3, 1},
    {8, 7}, {5, 2, 2, 5}, {1, 8, 1, 8, 1}, {2, 3, 4, 5}, {6, 3, 6, 3, 6}, {7, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}};

/// What crosses from one node to another in one slice: blocks by (from, to).
std::map<std::pair<int, int>, uint64_t> crossings(const std::vector<Program>& world, const Channel& channel) {
  std::map<std::pair<int, int>, uint64_t> found;
  for (const Program& program : world) {
    for (const auto& lane : program.lanes) {
      for (const Move& move : lane) {
        for (uint32_t i = 0; i < move.out_count; ++i) {
          const int from = channel.node_of[static_cast<size_t>(program.rank)];
          const int to = channel.node_of[static_cast<size_t>(program.peers[move.out_first + i].rank)];
          if (from != to) found[{from, to}] += move.n_blocks;
        }
      }
    }
  }
  return found;
}

}  // namespace

TEST_CASE("plan: hierarchies are proven for 1 to 16 nodes of 1 to 8 ranks", "[plan][nodes]") {
  for (int nodes = 1; nodes <= 16; ++nodes) {
    for (int each = 1; each <= 8; ++each) {
      if (nodes * each > 48 && (nodes + each) % 4 != 0) continue;  // of the large ones a quarter: it is a matter of seconds
      INFO(nodes << " nodes of " << each);
      const uint32_t seed = static_cast<uint32_t>(nodes * each % 3);
      const int n = nodes * each;
      prove_all(channel_of(std::vector<int>(static_cast<size_t>(nodes), each), nodes % 2 == 0, seed), {n / 2, n - 1});
    }
  }
}

TEST_CASE("plan: hierarchies are proven for nodes of unlike size, by every root", "[plan][nodes]") {
  for (const std::vector<int>& sizes : kUnlike) {
    INFO(sizes_text(sizes));
    for (const uint32_t seed : {0u, 5u}) {
      const Channel channel = channel_of(sizes, seed != 0, seed);
      std::set<int> roots;
      for (int r = 0; r<static_cast<int>(channel.ring.size()); r += channel.ring.size()> 12 ? 5 : 1) roots.insert(r);
      prove_all(channel, roots);
    }
  }
}

TEST_CASE("plan: hierarchies of hundreds of ranks are proven", "[plan][nodes]") {
  std::mt19937 random(7);
  for (int round = 0; round < 4; ++round) {
    std::vector<int> sizes;
    for (int left = 200 + static_cast<int>(random() % 100); left > 0; left -= sizes.back()) {
      sizes.push_back(std::min(left, 1 + static_cast<int>(random() % 16)));
    }
    INFO(sizes_text(sizes));
    prove_all(channel_of(sizes, round % 2 == 1, static_cast<uint32_t>(round)), {17});
  }
  const Channel large = channel_of(std::vector<int>(128, 8), true, 3);
  prove(*find_algorithm("tree"), {Coll::all_reduce, 1024, 0}, large);
  for (const Coll coll : {Coll::broadcast, Coll::reduce}) {
    prove(*find_algorithm("hier"), {coll, 1024, 77}, large);
    prove(*find_algorithm("tree"), {coll, 1024, 77}, large);
  }
}

TEST_CASE("plan: played in random orders with three slices in flight, hierarchies bring the right data", "[plan][nodes]") {
  for (const std::vector<int>& sizes :
       std::vector<std::vector<int>>{{1, 1}, {2, 2}, {3, 3}, {2, 2, 2}, {1, 3}, {2, 3, 1}, {4, 2, 3}}) {
    const Channel channel = channel_of(sizes, true, 2);
    for (const char* name : {"hier", "tree"}) {
      for (const Coll coll : kCollectives) {
        const CollSpec spec{coll, static_cast<int>(channel.ring.size()), has_root(coll) ? 1 : 0};
        if (!find_algorithm(name)->supports(spec)) continue;
        const std::vector<Program> world = world_of(*find_algorithm(name), spec, channel);
        INFO(name << " " << name_of(coll) << " " << sizes_text(sizes));
        for (uint32_t seed = 0; seed < 8; ++seed) {
          CAPTURE(seed);
          REQUIRE(play(spec, world,
                       {.in_place = seed % 4 < 2,
                        .slots = 2 + static_cast<int>(seed % 3),
                        .lend_percent = seed % 5 == 0 ? 50 : 100,
                        .seed = seed}) == "");
        }
      }
    }
  }
}

TEST_CASE("plan: between nodes a hierarchy moves no more than it must, on all rails alike", "[plan][nodes]") {
  for (const int nodes : {2, 3, 5}) {
    for (const int each : {1, 2, 4}) {
      CAPTURE(nodes, each);
      const Channel channel = channel_of(std::vector<int>(static_cast<size_t>(nodes), each));
      const int n = nodes * each;
      const auto total = [&](Coll coll) {
        std::vector<Program> world = world_of(*find_algorithm("hier"), {coll, n, 0}, channel);
        uint64_t most = 0;
        for (const auto& [pair, blocks] : crossings(world, channel)) most = std::max(most, blocks);
        return std::pair<uint64_t, uint64_t>(most, world[0].blocks);
      };
      // A ring over nodes: to its successor each node sends 2 (N-1)/N of the data, or (N-1)/N.
      const uint64_t hops = static_cast<uint64_t>(nodes - 1);
      auto [sent, blocks] = total(Coll::all_reduce);
      CHECK(sent * static_cast<uint64_t>(nodes) == 2 * hops * blocks);
      for (const Coll coll : {Coll::all_gather, Coll::reduce_scatter}) {
        std::tie(sent, blocks) = total(coll);
        CHECK(sent * static_cast<uint64_t>(nodes) == hops * blocks);
      }
      for (const Coll coll : {Coll::broadcast, Coll::reduce}) {
        std::tie(sent, blocks) = total(coll);
        CHECK(sent == blocks);
        CHECK(blocks == static_cast<uint64_t>(each));
      }
    }
  }
}

TEST_CASE("plan: trees over nodes enter each node by two ranks, each with half of the data", "[plan][nodes]") {
  const Channel channel = channel_of({4, 4, 4, 4, 4});
  std::vector<std::set<int>> entries(2);
  for (const Program& program : world_of(*find_algorithm("tree"), {Coll::all_reduce, 20, 0}, channel)) {
    for (const Peer& peer : program.peers) {
      if (program.rank / 4 != peer.rank / 4) entries[peer.link].insert(program.rank);
    }
  }
  CHECK(entries[0] == std::set<int>{0, 4, 8, 12, 16});
  CHECK(entries[1] == std::set<int>{1, 5, 9, 13, 17});
}

TEST_CASE("plan: nodes are told in the order of the ring", "[plan][nodes]") {
  const Channel channel{0, {4, 2, 0, 1, 3}, {7, 3, 7, 3, 7}};
  CHECK(nodes_of(channel) == std::vector<std::vector<int>>{{4, 2, 0}, {1, 3}});
  CHECK(node_shape(channel.node_of) == NodeShape{2, 2, 3});
  const Channel one{0, {1, 0}, {}};
  CHECK(nodes_of(one) == std::vector<std::vector<int>>{{1, 0}});
  CHECK(node_shape(one.node_of) == NodeShape{});
  CHECK(node_shape({5, 5}) == NodeShape{});
}
