// The cost model's table against the Programs themselves, and the shape of its estimates.
#include <algorithm>
#include <map>

#include "plan/build.h"
#include "plan_support.h"
#include "support/catch.h"
#include "support/tune.h"
#include "tune/model.h"

using namespace ronde;
using namespace ronde::test;

namespace {

constexpr Coll kAll[] = {Coll::all_reduce,     Coll::broadcast,  Coll::reduce, Coll::all_gather,
                         Coll::reduce_scatter, Coll::all_to_all, Coll::gather, Coll::scatter};

void add_move(const Move& move, Work* work) {
  const uint64_t w = move.n_blocks;
  const bool has_src = move.src != Buf::none;
  if (move.in_count + (has_src ? 1 : 0) > 1) {
    work->reduced += move.in_count * w;
  } else if (move.in_count == 1) {
    work->copied += w;
  }
  // A fold that keeps nothing writes into its first slot: no copy of its own.
  const bool folds_into_slot = move.in_count > 0 && move.dst == Buf::none;
  const uint64_t copies = (move.out_count - (folds_into_slot && move.out_count > 0 ? 1u : 0u)) * w;
  ((move.flags & kMoveNoLend) != 0 ? work->written : work->staged) += copies;
  work->messages += (move.in_count + move.out_count) * w;
  work->merged_messages += move.in_count + move.out_count;
}

void take_largest(const Work& a, Work* b) {
  b->reduced = std::max(a.reduced, b->reduced);
  b->copied = std::max(a.copied, b->copied);
  b->staged = std::max(a.staged, b->staged);
  b->written = std::max(a.written, b->written);
  b->messages = std::max(a.messages, b->messages);
  b->merged_messages = std::max(a.merged_messages, b->merged_messages);
}

void take_sum(const Work& a, Work* b) {
  b->reduced += a.reduced;
  b->copied += a.copied;
  b->staged += a.staged;
  b->written += a.written;
  b->messages += a.messages;
  b->merged_messages += a.merged_messages;
}

/// blocks, widest, busiest and total as the Programs have them.
Footprint measure(const Algorithm& algorithm, const CollSpec& spec, const Channel& channel) {
  Footprint found;
  for (int rank = 0; rank < spec.ranks; ++rank) {
    const Program program = algorithm.build(spec, channel, rank).value();
    Work work;
    for (const auto& lane : program.lanes) {
      for (const Move& move : lane) {
        add_move(move, &work);
        found.widest = std::max<uint64_t>(found.widest, move.n_blocks);
      }
    }
    found.blocks = program.blocks;
    take_largest(work, &found.busiest);
    take_sum(work, &found.total);
  }
  return found;
}

/// What crosses, in blocks.
struct Crossing {
  uint64_t node = 0;                ///< leaves a node, or enters it: of the busiest
  uint64_t near = 0;                ///< arrivals at a rank, or departures, within its node: of the busiest rank
  uint64_t sent = 0, received = 0;  ///< by a rank, to and from other nodes: of the busiest
  uint64_t all = 0;                 ///< of all nodes
};

Crossing measure_levels(const Algorithm& algorithm, const CollSpec& spec, const Channel& channel) {
  std::map<int, uint64_t> out, in;
  Crossing found;
  const auto node = [&](int rank) { return channel.node_of[static_cast<size_t>(rank)]; };
  for (int rank = 0; rank < spec.ranks; ++rank) {
    const Program program = algorithm.build(spec, channel, rank).value();
    uint64_t arrivals = 0, departures = 0, sent = 0, received = 0;
    const auto count = [&](int peer, uint64_t blocks, uint64_t* inside, uint64_t* outside) {
      if (peer != rank) *(node(peer) == node(rank) ? inside : outside) += blocks;
    };
    for (const auto& lane : program.lanes) {
      for (const Move& move : lane) {
        for (uint32_t i = 0; i < move.in_count; ++i) count(program.peers[move.in_first + i].rank, move.n_blocks, &arrivals, &received);
        for (uint32_t i = 0; i < move.out_count; ++i) count(program.peers[move.out_first + i].rank, move.n_blocks, &departures, &sent);
      }
    }
    out[node(rank)] += sent;
    in[node(rank)] += received;
    found.all += sent;
    found.sent = std::max(found.sent, sent);
    found.received = std::max(found.received, received);
    found.near = std::max({found.near, arrivals, departures});
  }
  for (const auto* sums : {&out, &in}) {
    for (const auto& [n, blocks] : *sums) found.node = std::max(found.node, blocks);
  }
  return found;
}

/// The model may say more, but not much more.
void check_bound(uint64_t model, uint64_t real) {
  CHECK(model >= real);
  CHECK(model <= 2 * real + 4);
}

Execution running(size_t block, size_t slice) { return {.block = block, .slice = slice}; }

/// That the model says what the Programs do; for nodes of unlike size (`bound`) that it says no less.
void check_row(const Algorithm& algorithm, const CollSpec& spec, const Channel& channel, bool bound) {
  const Footprint model = footprint(algorithm.name, spec, node_shape(channel.node_of));
  const Footprint real = measure(algorithm, spec, channel);
  REQUIRE(model.known);
  CHECK(model.depth >= 1);
  CHECK(model.turns >= 1);
  CHECK(model.turns <= model.depth);
  CHECK(model.blocks == real.blocks);
  CHECK(model.widest == real.widest);
  CHECK(model.total.reduced == real.total.reduced);
  CHECK(model.total.written == real.total.written);
  if (bound) {
    for (const auto figure : {&Work::copied, &Work::staged, &Work::messages}) {
      CHECK(model.total.*figure >= real.total.*figure);
      CHECK(model.total.*figure <= real.total.*figure + 2 * static_cast<uint64_t>(spec.ranks));
    }
  } else {
    CHECK(model.total.copied == real.total.copied);
    CHECK(model.total.staged == real.total.staged);
    CHECK(model.total.messages == real.total.messages);
  }
  CHECK(model.total.merged_messages >= real.total.merged_messages);
  for (const auto figure : {&Work::reduced, &Work::copied, &Work::staged, &Work::written, &Work::messages, &Work::merged_messages}) {
    if (bound) {
      CHECK(model.busiest.*figure >= real.busiest.*figure);
    } else {
      check_bound(model.busiest.*figure, real.busiest.*figure);
    }
  }
}

void check_rows(const Channel& channel, bool bound = false) {
  const int ranks = static_cast<int>(channel.ring.size());
  for (const Algorithm& algorithm : algorithms()) {
    for (const Coll coll : kAll) {
      const CollSpec spec{coll, ranks, has_root(coll) ? ranks / 2 : 0};
      if (!algorithm.supports(spec)) continue;
      CAPTURE(algorithm.name, name_of(coll), ranks);
      check_row(algorithm, spec, channel, bound);
    }
  }
}

}  // namespace

TEST_CASE("the model has a row for each algorithm, which says what its Programs do") {
  const int ranks = GENERATE(2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 31, 33, 48, 64);
  check_rows({0, ordered_ring(ranks), {}});
}

TEST_CASE("so it has for ranks on several nodes") {
  const int nodes = GENERATE(2, 3, 4, 5, 8, 13);
  const int each = GENERATE(1, 2, 3, 4, 8);
  CAPTURE(nodes, each);
  const Channel channel = channel_of(std::vector<int>(static_cast<size_t>(nodes), each), each % 2 == 0);
  check_rows(channel);
  for (const Algorithm& algorithm : algorithms()) {
    for (const Coll coll : kAll) {
      const CollSpec spec{coll, nodes * each, has_root(coll) ? nodes * each / 2 : 0};
      if (!algorithm.supports(spec)) continue;
      CAPTURE(algorithm.name, name_of(coll));
      const Footprint model = footprint(algorithm.name, spec, node_shape(channel.node_of));
      const Crossing real = measure_levels(algorithm, spec, channel);
      CHECK(model.far_hops >= 1);
      CHECK(model.far_hops <= model.depth);
      CAPTURE(model.crossing, real.node, model.near, real.near, model.busiest.sent, real.sent, real.received, model.total.sent, real.all);
      check_bound(model.crossing, real.node);
      check_bound(model.near, real.near);
      check_bound(model.busiest.sent, real.sent);
      check_bound(model.busiest.received, real.received);
      CHECK(model.total.sent >= real.all);
      CHECK(model.total.sent <= 5 * real.all / 2 + 4);
      CHECK(model.total.received == model.total.sent);
    }
  }
}

TEST_CASE("for nodes of unlike size the model bounds what the Programs do") {
  for (const std::vector<int>& sizes : std::vector<std::vector<int>>{{1, 2}, {3, 1}, {2, 3, 4}, {1, 8, 1, 8}, {5, 5, 2}, {8, 8, 8, 1}, {2, 7, 3, 5, 4}}) {
    CAPTURE(sizes.size(), sizes[0], sizes[1]);
    check_rows(channel_of(sizes), true);
  }
}

TEST_CASE("an algorithm without a row costs more than any other") {
  const Footprint none = footprint("mine", {Coll::all_reduce, 4, 0});
  CHECK_FALSE(none.known);
  CHECK(nanos_of(none, 4, running(64, 64), inputs_of(4)) == UINT64_MAX);
}

TEST_CASE("the largest block covers the data, on lines of 64 bytes") {
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{1000}, size_t{1} << 20, size_t{123456789}}) {
    for (const int channels : {1, 2, 3, 16}) {
      for (const uint64_t blocks : {1u, 2u, 3u, 64u, 1000u}) {
        CAPTURE(bytes, channels, blocks);
        const size_t whole = largest_block(Coll::all_reduce, bytes, channels, blocks);
        const size_t each = largest_block(Coll::all_gather, bytes, channels, blocks);
        CHECK(whole % 64 == 0);
        CHECK(whole * blocks * static_cast<size_t>(channels) >= bytes);
        CHECK(whole * blocks * static_cast<size_t>(channels) < bytes + 64 * static_cast<size_t>(channels) * (blocks + 1));
        CHECK(each % 64 == 0);
        CHECK(each * static_cast<size_t>(channels) >= bytes);
        CHECK(each * static_cast<size_t>(channels) < bytes + 64 * static_cast<size_t>(channels + 1));
      }
    }
  }
}

TEST_CASE("more data, more ranks a core, or no loans never cost less") {
  for (const Algorithm& algorithm : algorithms()) {
    for (const Coll coll : kAll) {
      const CollSpec spec{coll, 8, 0};
      if (!algorithm.supports(spec)) continue;
      CAPTURE(algorithm.name, name_of(coll));
      const Footprint shape = footprint(algorithm.name, spec);
      uint64_t last = 0;
      for (size_t block = 64; block < size_t{1} << 33; block *= 2) {
        const Execution run = running(block, 65536);
        const uint64_t nanos = nanos_of(shape, 8, run, inputs_of(8, 1, false));
        REQUIRE(nanos >= last);
        REQUIRE(nanos_of(shape, 8, run, inputs_of(8, 1, true)) <= nanos);
        REQUIRE(nanos_of(shape, 8, run, inputs_of(8, 4, false)) > nanos);
        last = nanos;
      }
    }
  }
}

TEST_CASE("estimates have the right order of magnitude") {
  const auto nanos = [](const char* algorithm, Coll coll, int ranks, size_t block, const TuneInputs& inputs) {
    return nanos_of(footprint(algorithm, {coll, ranks, 0}), ranks, running(block, 65536), inputs);
  };
  // One hop and two slots between two cores.
  const uint64_t tiny = nanos("oneshot", Coll::all_reduce, 2, 64, inputs_of(2));
  CHECK(tiny > 1000);
  CHECK(tiny < 2000);
  // 1 GiB copied once, at about 10 GB/s, without and with a copy into slots.
  const uint64_t lent = nanos("direct", Coll::broadcast, 2, size_t{1} << 30, inputs_of(2));
  CHECK(lent > 107'000'000);
  CHECK(lent < 125'000'000);
  const uint64_t slots = nanos("direct", Coll::all_gather, 2, size_t{1} << 30, inputs_of(2, 1, false));
  CHECK(slots > 214'000'000);
  CHECK(slots < 290'000'000);
}

TEST_CASE("what no machine can hold is infinite, not small") {
  const Footprint shape = footprint("oneshot", {Coll::all_reduce, 1024, 0});
  const uint64_t nanos = nanos_of(shape, 1024, running(SIZE_MAX / 64 * 64, 64), inputs_of(1024, 1024, false));
  CHECK(nanos > uint64_t{1} << 60);
}
