// verify against small worlds written by hand: what it refuses, in which words, and what it allows.
#include <functional>

#include "plan/text.h"
#include "plan_support.h"
#include "support/catch.h"

using namespace ronde;
using namespace ronde::test;

namespace {

Schedule schedule_of(const std::string& body) {
  Result<Schedule> schedule = from_text("ronde-schedule 1\n" + body);
  INFO((schedule.ok() ? "" : schedule.error().what));
  REQUIRE(schedule.ok());
  return std::move(schedule).value();
}

Verdict verdict_of(const std::string& body, const VerifyOptions& options = {}) {
  const Schedule schedule = schedule_of(body);
  return verify(schedule.spec, schedule.world, options);
}

void refused(const Verdict& verdict, const std::string& part) {
  INFO("expected: " << part);
  INFO("faults: " << faults_of(verdict));
  REQUIRE_FALSE(verdict.ok());
  REQUIRE(contains(faults_of(verdict), part));
}

void accepted(const Verdict& verdict) {
  INFO(faults_of(verdict));
  REQUIRE(verdict.ok());
}

std::vector<Program> world(const char* algorithm, const CollSpec& spec) {
  return world_of(*find_algorithm(algorithm), spec, ordered_ring(spec.ranks));
}

/// Two ranks, one block: each sends its input, then folds.
const char* const kPair =
    "collective AllReduce ranks 2\n"
    "program rank 0 channel 0 blocks 1 scratch 0\nlane\n"
    "  move src input 0 out 1 nolend\n  move in 1 src input 0 dst output 0 final\n"
    "program rank 1 channel 0 blocks 1 scratch 0\nlane\n"
    "  move src input 0 out 0 nolend\n  move in 0 src input 0 at 1 dst output 0 final\n";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

/// Broadcast between two ranks with the Moves given.
std::string broadcast(const std::string& root_moves, const std::string& other_moves, const char* scratch = "0") {
  return std::string("collective Broadcast ranks 2 root 0\nprogram rank 0 channel 0 blocks 2 scratch ") + scratch + "\n" +
         root_moves + "program rank 1 channel 0 blocks 2 scratch " + scratch + "\n" + other_moves;
}

}  // namespace

TEST_CASE("verify: what a rank waits for is named", "[plan]") {
  const std::string both_receive =
      replaced(replaced(kPair, "  move src input 0 out 1 nolend\n  move in 1 src input 0 dst output 0 final\n",
                        "  move in 1 src input 0 dst output 0 final\n  move src input 0 out 1 nolend\n"),
               "  move src input 0 out 0 nolend\n  move in 0 src input 0 at 1 dst output 0 final\n",
               "  move in 0 src input 0 at 1 dst output 0 final\n  move src input 0 out 0 nolend\n");
  const Verdict verdict = verdict_of(both_receive);
  refused(verdict, "no number of slots");
  refused(verdict, "rank 0 lane 0 move 0 waits for data from rank 1 (link 0)");
  REQUIRE(verdict.min_slots == 0);
}

TEST_CASE("verify: the least number of slots is found and demanded", "[plan]") {
  for (int n : {2, 3, 8}) {
    const CollSpec spec{Coll::all_reduce, n, 0};
    const std::vector<Program> ring = world("ring", spec);
    const Verdict verdict = verify(spec, ring, {.slots = 1});
    REQUIRE(verdict.min_slots == 2);
    refused(verdict, "need 2 slots");
    accepted(verify(spec, ring, {.slots = 2}));
    REQUIRE(play(spec, ring, {.slots = 1}) != "");
    REQUIRE(play(spec, ring, {.slots = 2}) == "");
    REQUIRE(verify(spec, world("oneshot", spec)).min_slots == 1);
  }
}

TEST_CASE("verify: an exchange of several blocks in one lane needs as many slots", "[plan]") {
  const std::string text =
      "collective AlltoAll ranks 2\n"
      "program rank 0 channel 0 blocks 2 scratch 5\nlane\n"
      "  move src input 0 dst output 0\n  move src input 1 out 1\n  move in 1 dst output 1\n"
      "  move src input 0 dst scratch 0\n  move src input 0 dst scratch 1\n  move src input 0 dst scratch 2\n"
      "  move src scratch 0 out 1 blocks 3\n  move in 1 dst scratch 0 blocks 3\n"
      "program rank 1 channel 0 blocks 2 scratch 5\nlane\n"
      "  move src input 1 dst output 1\n  move src input 0 out 0\n  move in 0 dst output 0\n"
      "  move src input 0 dst scratch 0\n  move src input 0 dst scratch 1\n  move src input 0 dst scratch 2\n"
      "  move src scratch 0 out 0 blocks 3 nolend\n  move in 0 dst scratch 0 blocks 3\n";
  const std::string copied = replaced(text, "out 1 blocks 3\n", "out 1 blocks 3 nolend\n");
  refused(verdict_of(copied), "need 3 slots per connection to end, but have 2");
  const Verdict enough = verdict_of(copied, {.slots = 3});
  accepted(enough);
  REQUIRE(enough.min_slots == 3);
  refused(verdict_of(text, {.slots = 3}),
          "overwrites scratch block 0 of rank 0 while rank 1 lane 0 move 7 (its block 0) may still read it");
  accepted(verdict_of(text, {.slots = 3, .lending = false}));
}

TEST_CASE("verify: a lent block is overwritten only after its reader", "[plan]") {
  const CollSpec spec{Coll::all_reduce, 3, 0};
  std::vector<Program> oneshot = world("oneshot", spec);
  for (Program& program : oneshot) program.lanes[0][0].flags = 0;
  accepted(verify(spec, oneshot));
  refused(verify(spec, oneshot, {.in_place = true}), "may still read it, lent by rank");
  accepted(verify(spec, oneshot, {.in_place = true, .lending = false}));
  bool seen = false;
  for (uint32_t seed = 1; seed < 60; seed += 2) seen |= play(spec, oneshot, {.in_place = true, .seed = seed}) != "";
  REQUIRE(seen);
}

TEST_CASE("verify: a message does not help a reader whose loan was overwritten before it", "[plan]") {
  // Rank 0 lends scratch, writes it again, and only then lets rank 1 go: ordered, and wrong.
  const std::string text = broadcast(
      "lane\n  move src input 0 dst output 0\n  move src input 1 dst output 1\n  move src input 0 dst scratch 0\n"
      "  move src scratch 0 out 1\n  move src input 1 dst scratch 0\n  move src scratch 0 out 1/1\n",
      "lane\n  move in 0/1 dst output 1\n  move in 0 dst output 0\n", "1");
  refused(verdict_of(text),
          "rank 0 lane 0 move 4 overwrites scratch block 0 of rank 0 while rank 1 lane 0 move 1 may still read it, lent by rank "
          "0 lane 0 move 3");
  accepted(verdict_of(replaced(text, "out 1\n", "out 1 nolend\n")));
}

TEST_CASE("verify: lanes share a written block only in an order that messages make", "[plan]") {
  const std::string free_lanes = broadcast(
      "lane\n  move src input 0 dst output 0\nlane\n  move src input 1 dst output 1 out 1\n"
      "lane\n  move src output 0 out 1/1\n",
      "lane\n  move in 0 dst output 1\nlane\n  move in 0/1 dst output 0\n");
  refused(verdict_of(free_lanes),
          "rank 0 lane 0 move 0 and rank 0 lane 2 move 0 touch output block 0 of rank 0 in no certain order");
  const std::string ordered = broadcast(
      "lane\n  move src input 0 dst output 0\n  move src output 0 out 0\nlane\n  move src input 1 dst output 1 out 1\n"
      "lane\n  move in 0 dst output 0\n  move src output 0 out 1/1\n",
      "lane\n  move in 0 dst output 1\nlane\n  move in 0/1 dst output 0\n");
  accepted(verdict_of(ordered));
}

TEST_CASE("verify: halving and doubling without its hand-over between lanes is refused", "[plan]") {
  const CollSpec spec{Coll::all_reduce, 4, 0};
  std::vector<Program> hd = world("hd", spec);
  for (Program& program : hd) {
    for (auto& lane : program.lanes) {
      std::erase_if(lane, [&](const Move& m) {
        return (m.in_count == 1 && program.peers[m.in_first].rank == program.rank) ||
               (m.out_count == 1 && program.peers[m.out_first].rank == program.rank);
      });
    }
  }
  refused(verify(spec, hd), "in no certain order");
  bool seen = false;
  for (uint32_t seed = 0; seed < 60; ++seed) seen |= play(spec, hd, {.seed = seed}) != "";
  REQUIRE(seen);
}

TEST_CASE("verify: a result is complete, Final once, and where it belongs", "[plan]") {
  accepted(verdict_of(kPair));
  REQUIRE(verdict_of(kPair).canonical);
  const std::string other_order = replaced(kPair, " at 1", "");
  accepted(verdict_of(other_order));
  REQUIRE_FALSE(verdict_of(other_order).canonical);
  refused(verdict_of(replaced(kPair, " final", "")),
          "output block 0 of rank 0 ends with a partial result that no Final Move has passed");
  refused(verdict_of(replaced(kPair, "move in 1 src input 0 dst output 0 final", "move in 1 dst output 0 final")),
          "rank 0 lane 0 move 1 is Final, but of block 0 rank 0 is missing");
  refused(verdict_of(replaced(kPair, "final\nprogram", "final\n  move src output 0 dst output 0 final\nprogram")),
          "combines a result of block 0 again");
  refused(verdict_of(replaced(kPair, "final\nprogram",
                              "final\nlane\n  move src input 0 out 0\n  move in 0 src input 0 dst output 0 final\nprogram")),
          "rank 0 is counted twice");
  refused(verdict_of("collective Broadcast ranks 1 root 0\nprogram rank 0 channel 0 blocks 2 scratch 0\nlane\n"
                     "  move src input 0 dst output 1\n  move src input 1 dst output 0\n"),
          "output block 0 of rank 0 ends with block 1 of rank 0 instead of block 0 of rank 0");
  refused(verdict_of("collective AllGather ranks 1\nprogram rank 0 channel 0 blocks 1 scratch 0\n"), "ends with nothing");
  REQUIRE(verdict_of("collective AllGather ranks 1\nprogram rank 0 channel 0 blocks 1 scratch 0\n", {.in_place = true}).ok());
}

TEST_CASE("verify: blocks and operands that do not belong together are refused", "[plan]") {
  const std::string two_blocks =
      "collective AllReduce ranks 2\n"
      "program rank 0 channel 0 blocks 2 scratch 0\nlane\n  move src input 0 out 1\n  move in 1 src input 1 dst output 0 final\n"
      "program rank 1 channel 0 blocks 2 scratch 0\nlane\n  move src input 0 out 0\n  move in 0 src input 0 dst output 0 final\n";
  refused(verdict_of(two_blocks), "combines block 1 of rank 0 with block 0 of rank 1");
  refused(verdict_of(broadcast("lane\n  move src input 0 dst output 0 out 1\n  move src input 1 dst output 1 out 1\n",
                               "lane\n  move in 0 dst output 0\n  move in 0 src output 0 dst output 1\n")),
          "but nothing is reduced");
  refused(verdict_of(broadcast("lane\n  move src input 0 dst output 0 out 1\n  move src scratch 0 dst output 1 out 1\n",
                               "lane\n  move in 0 dst output 0\n  move in 0 dst output 1\n", "1")),
          "reads scratch block 0 of rank 0, which holds nothing yet");
}

TEST_CASE("verify: user data of a reduction is read as input and only there", "[plan]") {
  // In place, output holds what the user passed; an executor would not scale it when it is read as output.
  const std::string as_output = replaced(kPair, "move src input 0 out 1", "move src output 0 out 1");
  refused(verdict_of(as_output, {.in_place = true}), "reads the user's data in block 0 of rank 0 other than as input");
  refused(verdict_of(as_output), "which holds nothing yet");
  const std::string again = replaced(kPair, "final\nprogram", "final\n  move src input 0 dst output 0\nprogram");
  refused(verdict_of(again, {.in_place = true}), "reads as input what a Move has written to block 0 of rank 0");
}

TEST_CASE("verify: both ends of a connection mean the same", "[plan]") {
  const std::string good =
      broadcast("lane\n  move src input 0 dst output 0 out 1 blocks 2\n", "lane\n  move in 0 dst output 0 blocks 2\n");
  accepted(verdict_of(good));
  refused(verdict_of(replaced(good, "move in 0 dst output 0 blocks 2", "move in 0 dst output 0\n  move in 0 dst output 1")),
          "rank 1 lane 0 move 0 covers 1 blocks, but takes a slot that rank 0 lane 0 move 0 (its block 0) sends as one of 2");
  refused(verdict_of(replaced(good, "move in 0 dst output 0 blocks 2", "move in 0 dst output 0")),
          "rank 0 writes 2 slots a slice to rank 1 on link 0, which reads 1");
  refused(verdict_of(replaced(good, "in 0", "in 0/1")), "rank 0 writes 2 slots a slice to rank 1 on link 0, which reads 0");
  const std::string two_lanes =
      broadcast("lane\n  move src input 0 dst output 0 out 1\nlane\n  move src input 1 dst output 1 out 1\n",
                "lane\n  move in 0 dst output 0\nlane\n  move in 0 dst output 1\n");
  refused(verdict_of(two_lanes), "rank 0 writes to rank 1 on link 0 from more than one lane");
  refused(verdict_of(two_lanes), "rank 1 reads from rank 0 on link 0 in more than one lane");
}

TEST_CASE("verify: buffers that a rank does not have are refused", "[plan]") {
  std::vector<Program> reduce = world("chain", {Coll::reduce, 3, 0});
  reduce[1].lanes[0][0].dst = Buf::output;
  refused(verify({Coll::reduce, 3, 0}, reduce), "has block 0 of output as dst, which rank 1 does not have");
  std::vector<Program> broadcast_world = world("chain", {Coll::broadcast, 3, 0});
  broadcast_world[1].lanes[0].push_back(Move{.src = Buf::input, .dst = Buf::output});
  refused(verify({Coll::broadcast, 3, 0}, broadcast_world), "has block 0 of input as src, which rank 1 does not have");
  std::vector<Program> gather = world("ring", {Coll::all_gather, 3, 0});
  gather[0].lanes[0][0].src_block = 1;
  refused(verify({Coll::all_gather, 3, 0}, gather), "has block 1 of input as src, which rank 0 does not have");
  std::vector<Program> writes = world("oneshot", {Coll::all_reduce, 2, 0});
  writes[0].lanes[0][1].dst = Buf::input;
  refused(verify({Coll::all_reduce, 2, 0}, writes), "writes its input");
  accepted(verify({Coll::all_reduce, 2, 0}, writes, {.in_place = true}));
  const CollSpec all_to_all{Coll::all_to_all, 2, 0};
  refused(verify(all_to_all, world("direct", all_to_all), {.in_place = true}), "AlltoAll has no in-place form");
}

TEST_CASE("verify: each malformed field has its sentence", "[plan]") {
  struct Case {
    const char* part;
    std::function<void(std::vector<Program>&)> spoil;
  };
  const auto move = [](std::vector<Program>& w) -> Move& { return w[1].lanes[0][1]; };
  const std::vector<Case> cases = {
      {"2 Programs for 3 ranks", [](auto& w) { w.pop_back(); }},
      {"Program 1 says that it is of rank 2", [](auto& w) { w[1].rank = 2; }},
      {"rank 1 has channel 7, rank 0 has channel 0", [](auto& w) { w[1].channel = 7; }},
      {"rank 1 has 4 blocks, rank 0 has 3", [](auto& w) { w[1].blocks = 4; }},
      {"there are no blocks",
       [](auto& w) {
         for (auto& p : w) p.blocks = 0;
       }},
      {"rank 1 has a peer 3", [](auto& w) { w[1].peers[0].rank = 3; }},
      {"rank 1 has a peer -1", [](auto& w) { w[1].peers[0].rank = -1; }},
      {"rank 1 uses link 2 of 2", [](auto& w) { w[1].peers[0].link = 2; }},
      {"has in peers 1..65536, but the table ends at 2",
       [&](auto& w) {
         move(w).in_first = 1;
         move(w).in_count = 65535;
       }},
      {"has out peers 4294967295..4294967296, but", [&](auto& w) { move(w).out_first = UINT32_MAX; }},
      {"covers no block", [&](auto& w) { move(w).n_blocks = 0; }},
      {"has neither arrivals nor src",
       [&](auto& w) {
         move(w).in_count = 0;
         move(w).src = Buf::none;
       }},
      {"has neither dst nor peers to send to", [&](auto& w) { move(w).out_count = 0; }},
      {"places a src that it does not have",
       [&](auto& w) {
         move(w).src = Buf::none;
         move(w).src_block = 1;
       }},
      {"places a dst that it does not have", [&](auto& w) { move(w).dst_block = 1; }},
      {"has its src at 2 of 1 arrivals", [&](auto& w) { move(w).src_at = 2; }},
      {"has unknown flags 4", [&](auto& w) { move(w).flags = 4; }},
      {"unknown buffer 9", [&](auto& w) { move(w).src = static_cast<Buf>(9); }},
      {"has blocks 3..4 as src, but there are 3", [&](auto& w) { move(w).src_block = 3; }},
      {"has blocks 0..1 as dst, but there are 0", [&](auto& w) { move(w).dst = Buf::scratch; }},
      {"too large to prove", [&](auto& w) { move(w).n_blocks = UINT32_MAX; }},
      {"too large to prove", [](auto& w) { w[0].scratch_blocks = UINT32_MAX; }},
  };
  const CollSpec spec{Coll::all_reduce, 3, 0};
  for (const Case& one : cases) {
    std::vector<Program> spoilt = world("ring", spec);
    one.spoil(spoilt);
    refused(verify(spec, spoilt), one.part);
  }
  refused(verify({Coll::broadcast, 2, 2}, world("ring", {Coll::broadcast, 2, 0})), "root 2 is none of the 2 ranks");
  refused(verify({Coll::all_reduce, 0, 0}, {}), "0 ranks");
  refused(verify({Coll::send, 2, 0}, {}), "messages have no Programs");
  refused(verify({Coll::all_gather, 3, 0}, world("ring", {Coll::all_gather, 2, 0})), "2 Programs for 3 ranks");
  std::vector<Program> twice = world("direct", spec);
  twice[0].peers.assign(twice[0].peers.size(), Peer{1, 0});
  refused(verify(spec, twice), "names rank 1 twice among its in peers");
  std::vector<Program> few = world("direct", {Coll::all_gather, 3, 0});
  for (Program& program : few) program.blocks = 4;
  refused(verify({Coll::all_gather, 3, 0}, few), "AllGather has a block for each of 3 ranks, not 4");
  std::vector<Program> shifted = world("ring", {Coll::broadcast, 2, 0});
  for (Program& program : shifted) program.blocks = 3;
  shifted[0].lanes[0].push_back(Move{.src_block = 0, .dst_block = 1, .n_blocks = 2, .src = Buf::output, .dst = Buf::output});
  refused(verify({Coll::broadcast, 2, 0}, shifted), "reads and writes overlapping ranges of blocks");
  std::vector<Program> final_copy = world("ring", {Coll::broadcast, 2, 0});
  final_copy[0].lanes[0][0].flags = kMoveFinal;
  refused(verify({Coll::broadcast, 2, 0}, final_copy), "is Final, but nothing is reduced");
}

TEST_CASE("verify: many faults are counted, not all spelt out", "[plan]") {
  const CollSpec spec{Coll::all_reduce, 64, 0};
  std::vector<Program> spoilt = world("ring", spec);
  for (Program& program : spoilt) {
    for (Move& m : program.lanes[0]) m.flags |= 64;
  }
  const Verdict verdict = verify(spec, spoilt);
  REQUIRE(verdict.faults.size() == 33);
  REQUIRE(verdict.faults.back() == "and 8096 more");
}
