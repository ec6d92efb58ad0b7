// The algorithms: each proven for every number of ranks, and the promises of each.
#include <algorithm>
#include <set>

#include "plan_support.h"
#include "support/catch.h"

using namespace ronde;
using namespace ronde::test;

namespace {

constexpr Coll kCollectives[] = {Coll::all_reduce,     Coll::broadcast,  Coll::reduce, Coll::all_gather,
                                 Coll::reduce_scatter, Coll::all_to_all, Coll::gather, Coll::scatter};

/// The roots worth trying; 0 alone where there is none.
std::set<int> roots(Coll coll, int n) {
  if (!has_root(coll)) return {0};
  return {0, n / 2, n - 1};
}

void prove(const Algorithm& algorithm, const CollSpec& spec, const std::vector<int>& ring, bool also_in_place = true) {
  INFO(describe(algorithm, spec));
  const std::vector<Program> world = world_of(algorithm, spec, ring);
  for (bool in_place : {false, true}) {
    if (in_place && (spec.coll == Coll::all_to_all || !also_in_place)) continue;
    CAPTURE(in_place);
    const Verdict verdict = verify(spec, world, {.in_place = in_place});
    INFO(faults_of(verdict));
    REQUIRE(verdict.ok());
    REQUIRE(verdict.min_slots <= 2);
    if (!algorithm.several_nodes) REQUIRE(verdict.canonical == algorithm.canonical(spec));  // else it depends on the nodes too
    REQUIRE((verdict.canonical || !algorithm.canonical(spec)));
  }
}

const Algorithm& named(std::string_view name) {
  const Algorithm* found = find_algorithm(name);
  REQUIRE(found != nullptr);
  return *found;
}

}  // namespace

TEST_CASE("plan: every algorithm is proven for 1 to 64 ranks", "[plan]") {
  for (const Algorithm& algorithm : algorithms()) {
    for (Coll coll : kCollectives) {
      if (!algorithm.supports({coll, 1, 0})) continue;
      for (int n = 1; n <= 64; ++n) {
        for (int root : roots(coll, n)) {
          const CollSpec spec{coll, n, root};
          REQUIRE(algorithm.supports(spec));
          prove(algorithm, spec, (n + root) % 2 == 0 ? ordered_ring(n) : shuffled_ring(n, 1));
        }
      }
    }
  }
}

TEST_CASE("plan: algorithms of few Moves are proven for many ranks", "[plan]") {
  for (int n : {127, 128, 129, 500, 777, 1023, 1024}) {
    const int root = n / 3;
    prove(named("tree"), {Coll::all_reduce, n, 0}, shuffled_ring(n, 2));
    prove(named("tree"), {Coll::broadcast, n, root}, shuffled_ring(n, 3));
    prove(named("tree"), {Coll::reduce, n, root}, shuffled_ring(n, 4));
    prove(named("ring"), {Coll::broadcast, n, root}, shuffled_ring(n, 5));
    prove(named("chain"), {Coll::reduce, n, root}, shuffled_ring(n, 6));
    prove(named("direct"), {Coll::gather, n, root}, ordered_ring(n));
  }
}

TEST_CASE("plan: algorithms of many Moves are proven for many ranks", "[plan]") {
  prove(named("ring"), {Coll::all_reduce, 1024, 0}, shuffled_ring(1024, 7), false);  // in place it takes ten times as long
  prove(named("ring"), {Coll::all_reduce, 400, 0}, shuffled_ring(400, 8));
  prove(named("ring"), {Coll::reduce_scatter, 1024, 0}, shuffled_ring(1024, 9));
  prove(named("ring"), {Coll::all_gather, 1023, 0}, shuffled_ring(1023, 10));
  prove(named("hd"), {Coll::all_reduce, 389, 0}, shuffled_ring(389, 11));
  prove(named("hd"), {Coll::all_gather, 511, 0}, shuffled_ring(511, 12));
  prove(named("hd"), {Coll::reduce_scatter, 512, 0}, shuffled_ring(512, 13));
}

TEST_CASE("plan: played in random orders with three slices in flight, every algorithm brings the right data", "[plan]") {
  for (const Algorithm& algorithm : algorithms()) {
    for (Coll coll : kCollectives) {
      for (int n : {1, 2, 3, 4, 5, 7, 8}) {
        const CollSpec spec{coll, n, has_root(coll) ? n / 2 : 0};
        if (!algorithm.supports(spec)) continue;
        INFO(describe(algorithm, spec));
        const std::vector<Program> world = world_of(algorithm, spec, shuffled_ring(n, 11));
        for (uint32_t seed = 0; seed < 8; ++seed) {
          CAPTURE(seed);
          const Play how{.in_place = coll != Coll::all_to_all && seed % 4 < 2,
                         .merged = seed % 8 < 4,
                         .slots = 2 + static_cast<int>(seed % 3),
                         .lend_percent = seed % 5 == 0 ? 50 : 100,
                         .seed = seed};
          REQUIRE(play(spec, world, how) == "");
        }
      }
    }
  }
}

TEST_CASE("plan: algorithms are found by name in any case", "[plan]") {
  for (const char* name : {"ring", "tree", "hd", "direct", "oneshot", "chain", "hier"}) REQUIRE(named(name).name == name);
  REQUIRE(find_algorithm("RiNg") == find_algorithm("ring"));
  for (const char* name : {"", "rin", "rings", "nvls"}) REQUIRE(find_algorithm(name) == nullptr);
  REQUIRE(algorithms().size() == 7);
}

TEST_CASE("plan: every collective has an algorithm, and every reduction a canonical one", "[plan]") {
  for (Coll coll : kCollectives) {
    const CollSpec spec{coll, 5, 0};
    const auto fits = [&](const Algorithm& a) { return a.supports(spec) && a.canonical(spec); };
    INFO(name_of(coll));
    REQUIRE(std::any_of(algorithms().begin(), algorithms().end(), fits));
  }
}

TEST_CASE("plan: in the double tree no rank passes on both halves", "[plan]") {
  for (int n = 3; n <= 65; ++n) {
    CAPTURE(n);
    int inner = 0;
    for (const Program& program : world_of(named("tree"), {Coll::all_reduce, n, 0}, shuffled_ring(n, 1))) {
      int trees = 0;
      for (size_t up : {size_t{0}, size_t{2}}) trees += program.lanes[up][0].in_count > 0;
      REQUIRE(trees <= 1);
      inner += trees;
    }
    REQUIRE(inner > 0);
  }
}

TEST_CASE("plan: halving and doubling takes logarithmic steps and moves no more than it must", "[plan]") {
  const auto sent = [](const Program& program) {
    size_t blocks = 0;
    for (const Move& m : program.lanes[1]) blocks += m.out_count * m.n_blocks;
    return blocks;
  };
  for (int n : {2, 4, 8, 64}) {
    for (const Program& program : world_of(named("hd"), {Coll::all_reduce, n, 0}, ordered_ring(n))) {
      REQUIRE(sent(program) == 2 * static_cast<size_t>(n - 1));
    }
  }
  for (int n : {2, 3, 5, 8, 13, 64}) {
    for (Coll coll : {Coll::all_gather, Coll::reduce_scatter}) {
      for (const Program& program : world_of(named("hd"), {coll, n, 0}, ordered_ring(n))) {
        REQUIRE(sent(program) == static_cast<size_t>(n - 1));
        std::set<int> partners;
        for (const Peer& peer : program.peers) {
          if (peer.rank != program.rank) partners.insert(peer.rank);
        }
        size_t steps = 0;
        while ((1 << steps) < n) ++steps;
        REQUIRE(partners.size() <= 2 * steps);
      }
    }
  }
}

TEST_CASE("plan: a single rank copies its input, in one Move", "[plan]") {
  for (const Algorithm& algorithm : algorithms()) {
    for (Coll coll : kCollectives) {
      if (!algorithm.supports({coll, 1, 0})) continue;
      const std::vector<Program> world = world_of(algorithm, {coll, 1, 0}, ordered_ring(1));
      INFO(describe(algorithm, {coll, 1, 0}));
      REQUIRE(world[0].peers.empty());
      REQUIRE(world[0].lanes.size() == 1);
      REQUIRE(world[0].lanes[0].size() == 1);
    }
  }
}
