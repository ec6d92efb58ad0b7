// Broken Programs: verify has to refuse each, or the change must have made no difference, which playing it in many orders then
// shows.
#include <fmt/core.h>
#include <algorithm>
#include <functional>
#include <map>

#include "plan_support.h"
#include "support/catch.h"

using namespace ronde;
using namespace ronde::test;

namespace {

using World = std::vector<Program>;

/// One Move in a world that may be changed.
struct At {
  World& world;
  size_t rank, lane, index;
  Program& program() const { return world[rank]; }
  std::vector<Move>& moves() const { return program().lanes[lane]; }
  Move& move() const { return moves()[index]; }
};

/// A change of one Move. `apply` returns false where it does not apply. `fatal`: no world survives it out of place.
struct Mutation {
  const char* name;
  bool fatal;
  std::function<bool(const At&)> apply;
};

Buf other_buffer(Buf buf, const Program& program) {
  if (buf == Buf::input) return Buf::output;
  if (buf == Buf::output) return program.scratch_blocks > 0 ? Buf::scratch : Buf::input;
  return Buf::output;
}

/// Gives the Move a list of peers of its own, with its first peer changed.
bool change_peer(const At& at, bool out, const std::function<Peer(Peer)>& change) {
  Move& m = at.move();
  const uint16_t count = out ? m.out_count : m.in_count;
  if (count == 0) return false;
  uint32_t& first = out ? m.out_first : m.in_first;
  std::vector<Peer>& peers = at.program().peers;
  std::vector<Peer> list(peers.begin() + first, peers.begin() + first + count);
  list[0] = change(list[0]);
  first = static_cast<uint32_t>(peers.size());
  peers.insert(peers.end(), list.begin(), list.end());
  return true;
}

bool next_block(uint32_t& block, Buf buf, const Program& program, const Move& move) {
  const uint32_t blocks = buf == Buf::scratch ? program.scratch_blocks : program.blocks;
  if (buf == Buf::none || move.n_blocks >= blocks) return false;
  block = (block + 1) % (blocks - move.n_blocks + 1);
  return true;
}

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all = {
      {"drop the Move", true,
       [](const At& at) { return at.moves().erase(at.moves().begin() + static_cast<long>(at.index)), true; }},
      {"do it twice", false,
       [](const At& at) { return at.moves().insert(at.moves().begin() + static_cast<long>(at.index), Move(at.move())), true; }},
      {"swap it with the next", false,
       [](const At& at) {
         if (at.index + 1 == at.moves().size()) return false;
         std::swap(at.moves()[at.index], at.moves()[at.index + 1]);
         return true;
       }},
      {"do it first", false,
       [](const At& at) {
         if (at.index == 0) return false;
         std::rotate(at.moves().begin(), at.moves().begin() + static_cast<long>(at.index),
                     at.moves().begin() + static_cast<long>(at.index) + 1);
         return true;
       }},
      {"do it in a lane of its own", false,
       [](const At& at) {
         if (at.moves().size() == 1) return false;
         const Move m = at.move();
         at.moves().erase(at.moves().begin() + static_cast<long>(at.index));
         at.program().lanes.push_back({m});
         return true;
       }},
      {"receive from another rank", true,
       [](const At& at) {
         const int n = static_cast<int>(at.world.size());
         return change_peer(at, false, [n](Peer p) { return Peer{(p.rank + 1) % n, p.link}; });
       }},
      {"send to another rank", true,
       [](const At& at) {
         const int n = static_cast<int>(at.world.size());
         return change_peer(at, true, [n](Peer p) { return Peer{(p.rank + 1) % n, p.link}; });
       }},
      {"receive on the other link", true,
       [](const At& at) { return change_peer(at, false, [](Peer p) {
                            return Peer{p.rank, 1 - p.link};
                          }); }},
      {"send on the other link", true,
       [](const At& at) { return change_peer(at, true, [](Peer p) {
                            return Peer{p.rank, 1 - p.link};
                          }); }},
      {"forget an arrival", true,
       [](const At& at) {
         Move& m = at.move();
         if (m.in_count < 2 || m.src_at == m.in_count) return false;
         --m.in_count;
         return true;
       }},
      {"forget src", false,
       [](const At& at) {
         Move& m = at.move();
         if (m.src == Buf::none || m.in_count == 0) return false;
         m.src = Buf::none;
         m.src_block = m.src_at = 0;
         return true;
       }},
      {"forget dst", false,
       [](const At& at) {
         Move& m = at.move();
         if (m.dst == Buf::none || m.out_count == 0) return false;
         m.dst = Buf::none;
         m.dst_block = 0;
         return true;
       }},
      {"keep what is sent", false,
       [](const At& at) {
         Move& m = at.move();
         if (m.dst != Buf::none) return false;
         m.dst = Buf::output;
         m.dst_block = m.src_block;
         return true;
       }},
      {"read another block", false,
       [](const At& at) { return next_block(at.move().src_block, at.move().src, at.program(), at.move()); }},
      {"write another block", false,
       [](const At& at) { return next_block(at.move().dst_block, at.move().dst, at.program(), at.move()); }},
      {"read another buffer", false,
       [](const At& at) {
         if (at.move().src == Buf::none) return false;
         at.move().src = other_buffer(at.move().src, at.program());
         return true;
       }},
      {"write another buffer", false,
       [](const At& at) {
         if (at.move().dst == Buf::none) return false;
         at.move().dst = other_buffer(at.move().dst, at.program());
         return true;
       }},
      {"one block less", true, [](const At& at) { return at.move().n_blocks > 1 && (--at.move().n_blocks, true); }},
      {"one block more", false, [](const At& at) { return ++at.move().n_blocks, true; }},
      {"change Final", true, [](const At& at) { return at.move().flags ^= kMoveFinal, true; }},
      {"change NoLend", false, [](const At& at) { return at.move().out_count > 0 && (at.move().flags ^= kMoveNoLend, true); }},
  };
  return all;
}

/// Calls `act` for every Move of every rank.
template <class Act>
void each_move(const World& world, const Act& act) {
  for (size_t r = 0; r < world.size(); ++r) {
    for (size_t lane = 0; lane < world[r].lanes.size(); ++lane) {
      for (size_t i = 0; i < world[r].lanes[lane].size(); ++i) act(r, lane, i);
    }
  }
}

/// Plays a world that verify accepts in many orders; says what went wrong.
std::string play_often(const CollSpec& spec, const World& world, bool in_place, uint32_t plays) {
  for (uint32_t seed = 0; seed < plays; ++seed) {
    const Play how{.in_place = in_place, .merged = seed % 4 < 2, .lend_percent = seed % 7 == 0 ? 50 : 100, .seed = seed};
    const std::string wrong = play(spec, world, how);
    if (!wrong.empty()) return fmt::format("{} (seed {})", wrong, seed);
  }
  return "";
}

/// Of one kind of mutation.
struct Tally {
  int refused = 0;
  int harmless = 0;
};

void try_mutation(const CollSpec& spec, World world, const Mutation& mutation, size_t rank, size_t lane, size_t index,
                  Tally& tally) {
  if (!mutation.apply(At{world, rank, lane, index})) return;
  for (bool in_place : {false, true}) {
    if (in_place && spec.coll == Coll::all_to_all) continue;
    const Verdict verdict = verify(spec, world, {.in_place = in_place});
    ++(verdict.ok() ? tally.harmless : tally.refused);
    if (!verdict.ok()) continue;
    INFO(fmt::format("{}: rank {} lane {} move {} in place {}", mutation.name, rank, lane, index, in_place));
    REQUIRE_FALSE((mutation.fatal && !in_place));  // in place, a copy of a block to itself may go
    REQUIRE(play_often(spec, world, in_place, 16) == "");
  }
}

}  // namespace

TEST_CASE("plan: verify refuses every broken Program", "[plan]") {
  std::map<std::string, Tally> tally;
  for (const Algorithm& algorithm : algorithms()) {
    for (int c = 0; c < static_cast<int>(Coll::send); ++c) {
      for (int n : {2, 3, 5}) {
        const Coll coll = static_cast<Coll>(c);
        const CollSpec spec{coll, n, has_root(coll) ? 1 : 0};
        if (!algorithm.supports(spec)) continue;
        INFO(describe(algorithm, spec));
        const World world = world_of(algorithm, spec, shuffled_ring(n, 3));
        for (const Mutation& mutation : mutations()) {
          each_move(world, [&](size_t r, size_t lane, size_t i) {
            try_mutation(spec, world, mutation, r, lane, i, tally[mutation.name]);
          });
        }
      }
    }
  }
  for (const Mutation& mutation : mutations()) {
    CAPTURE(mutation.name, tally[mutation.name].harmless);
    REQUIRE(tally[mutation.name].refused > 0);
  }
}
