// Lanes, warps and blocks: divergence, what they do together, and waiting for each other.
#include <time.h>

#include <thread>

#include "emulator/device.h"

using namespace emu;
using namespace emu::test;
using ronde::test::contains;

namespace {

/// Stores %r9 to the thread's word at p2.
const std::string kStore = "\nmul.wide.u32 %d4, %r1, 4; add.s64 %d5, %d2, %d4; st.global.u32 [%d5], %r9;";

}  // namespace

TEST_CASE("diverged lanes meet again after a branch and after a loop", "[emulator][warps]") {
  const auto out = run_words(R"(
  setp.lt.u32 %p1, %r1, 10;
  @%p1 bra LOW;
  mov.u32 %r9, 0; bra JOIN;
LOW:
  mov.u32 %r9, 100;
JOIN:
  activemask.b32 %r3;
  mov.u32 %r4, 0;
LOOP:
  add.u32 %r4, %r4, 1;
  setp.lt.u32 %p2, %r4, %r1;
  @%p2 bra LOOP;
  activemask.b32 %r5;
  and.b32 %r3, %r3, %r5;
  add.u32 %r9, %r9, %r4;
  popc.b32 %r3, %r3;
  add.u32 %r9, %r9, %r3;)" + kStore,
                             {});
  for (uint32_t i = 0; i < 32; i++) CHECK(out[i] == (i < 10 ? 100 : 0) + std::max(i, 1u) + 32);
}

TEST_CASE("shuffles, votes and matches", "[emulator][warps]") {
  const auto lane = [](const std::string& statements) { return run_words(statements + kStore, {}); };
  auto out = lane("shfl.sync.up.b32 %r9|%p1, %r1, 3, 0x1800, -1; @!%p1 add.u32 %r9, %r9, 100;");
  for (uint32_t i = 0; i < 32; i++) CHECK(out[i] == (i % 8 >= 3 ? i - 3 : i + 100));
  out = lane("shfl.sync.idx.b32 %r9, %r1, 9, 0x181f, -1;");
  for (uint32_t i = 0; i < 32; i++) CHECK(out[i] == (i & 24) + 1);
  out = lane(
      "setp.gt.u32 %p1, %r1, 29; vote.sync.ballot.b32 %r9, %p1, -1; vote.sync.any.pred %p2, %p1, -1; @%p2 add.u32 %r9, %r9, 1;");
  for (uint32_t i = 0; i < 32; i++) CHECK(out[i] == 0xc0000001);
  out = lane("and.b32 %r2, %r1, 3; match.any.sync.b32 %r9, %r2, -1;");
  for (uint32_t i = 0; i < 32; i++) CHECK(out[i] == 0x11111111u << (i & 3));
  out = lane("match.all.sync.b32 %r9|%p1, %r1, -1; @!%p1 mov.u32 %r9, 5;");
  for (uint32_t i = 0; i < 32; i++) CHECK(out[i] == 5);
  out = lane("redux.sync.min.s32 %r9, %r1, -1; redux.sync.add.s32 %r2, %r1, -1; add.u32 %r9, %r9, %r2;");
  for (uint32_t i = 0; i < 32; i++) CHECK(out[i] == 496);
  out = lane("mov.u32 %r9, 0; elect.sync %r2|%p1, -1; @%p1 mov.u32 %r9, 1; add.u32 %r9, %r9, %r2;");
  for (uint32_t i = 0; i < 32; i++) CHECK(out[i] == (i == 0 ? 1 : 0));
}

TEST_CASE("the two sides of a branch may meet at two copies of one instruction", "[emulator][warps]") {
  Device device(entry(R"(
  setp.lt.u32 %p1, %r1, 16;
  @%p1 bra LOW;
  mul.lo.u32 %r2, %r1, 10;
  shfl.sync.bfly.b32 %r9, %r2, 16, 31, -1;
  bra JOIN;
LOW:
  add.u32 %r3, %r1, 1000;
  shfl.sync.bfly.b32 %r9, %r3, 16, 31, -1;
JOIN:)" + kStore));
  const uint64_t out = device.allocate(256);
  for (device.options.seed = 0; device.options.seed < 20; device.options.seed++) {
    device.options.any_order = device.options.seed % 2;
    REQUIRE(device.run("k", 1, 32, out, out, out, 0u) == "");
    for (uint32_t i = 0; i < 32; i++) CHECK(device.at<uint32_t>(out)[i] == (i < 16 ? (i + 16) * 10 : i - 16 + 1000));
  }
}

TEST_CASE("barriers with numbers and counts, and one that is only arrived at", "[emulator][warps]") {
  // Warp 0 makes, warps 1 and 2 take: barrier 3 says that it is made, barrier 4 that it was taken.
  Device device(entry(R"(
  .shared .align 4 .b32 box;
  shr.u32 %r2, %r1, 5;
  setp.eq.u32 %p1, %r2, 0;
  mov.u32 %r4, 0;
  mov.u32 %r9, 0;
  @!%p1 bra TAKE;
MAKE:
  st.shared.u32 [box], %r4;
  bar.arrive 3, 96;
  bar.sync 4, 96;
  add.u32 %r4, %r4, 1;
  setp.lt.u32 %p2, %r4, 20;
  @%p2 bra MAKE;
  bra END;
TAKE:
  bar.sync 3, 96;
  ld.shared.u32 %r5, [box];
  mad.lo.u32 %r9, %r9, 3, %r5;
  bar.sync 4, 96;
  add.u32 %r4, %r4, 1;
  setp.lt.u32 %p2, %r4, 20;
  @%p2 bra TAKE;
END:)" + kStore));
  const uint64_t out = device.allocate(1024);
  uint32_t want = 0;
  for (uint32_t i = 0; i < 20; i++) want = want * 3 + i;
  for (device.options.seed = 0; device.options.seed < 20; device.options.seed++) {
    REQUIRE(device.run("k", 1, 96, out, out, out, 0u) == "");
    for (uint32_t i = 0; i < 96; i++) CHECK(device.at<uint32_t>(out)[i] == (i < 32 ? 0 : want));
  }
}

TEST_CASE("a barrier may count predicates", "[emulator][warps]") {
  const auto out = run_words(R"(
  setp.lt.u32 %p1, %r1, 40;
  bar.red.popc.u32 %r9, 0, %p1;
  barrier.cta.red.and.pred %p2, 0, %p1;
  barrier.cta.red.or.aligned.pred %p3, 0, %p1;
  @%p2 add.u32 %r9, %r9, 1000;
  @%p3 add.u32 %r9, %r9, 2000;)" +
                                 kStore,
                             {}, {}, 64, 64);
  for (const uint32_t r : out) CHECK(r == 2040);
}

TEST_CASE("lanes of one warp that wait for each other get on", "[emulator][warps]") {
  // A lock that each lane takes in turn: the one that has it must run, though the others poll at a lower place.
  Device device(entry(R"(
LOCK:
  atom.global.cas.b32 %r2, [%d0], 0, 1;
  setp.ne.u32 %p1, %r2, 0;
  @%p1 bra LOCK;
  ld.volatile.global.u32 %r3, [%d1];
  add.u32 %r3, %r3, 1;
  st.volatile.global.u32 [%d1], %r3;
  membar.gl;
  atom.global.exch.b32 %r2, [%d0], 0;)"));
  const uint64_t lock = device.allocate(64), count = device.allocate(64);
  for (device.options.seed = 0; device.options.seed < 5; device.options.seed++) {
    device.options.any_order = device.options.seed % 2;
    *device.at<uint32_t>(count) = 0;
    REQUIRE(device.run("k", 3, 64, lock, count, count, 0u) == "");
    CHECK(*device.at<uint32_t>(count) == 192);
  }
}

TEST_CASE("blocks of a grid and grids of several threads run side by side", "[emulator][warps]") {
  // Each block waits for its right neighbour's flag and sets its own.
  const std::string ptx = entry(R"(
  mov.u32 %r2, %ctaid.x;
  add.u32 %r2, %r2, %r0;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra END;
  mul.wide.u32 %d4, %r2, 4;
  add.s64 %d4, %d0, %d4;
WAIT:
  ld.acquire.sys.global.u32 %r3, [%d4+4];
  setp.eq.u32 %p2, %r3, 0;
  @%p2 bra WAIT;
  add.u32 %r3, %r3, 1;
  st.release.sys.global.u32 [%d4], %r3;
END:
  bar.sync 0;)");
  Device device(ptx);
  const uint64_t flags = device.allocate(4096);
  device.at<uint32_t>(flags)[24] = 1;
  std::string wrong[3];
  std::vector<std::thread> threads;
  for (uint32_t g = 0; g < 3; g++)
    threads.emplace_back([&, g] { wrong[g] = device.run("k", 8, 64, flags, flags, flags, 8 * g); });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : wrong) CHECK(text == "");
  CHECK(device.at<uint32_t>(flags)[0] == 25);
}

TEST_CASE("a launch alone is repeatable for a seed, and seeds differ", "[emulator][warps]") {
  // Threads draw numbers: the order is the schedule.
  Device device(entry("atom.global.add.u32 %r9, [%d0], 1; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r1, %r2, 128, %r1;" + kStore));
  const uint64_t counter = device.allocate(64), out = device.allocate(4096);
  const auto order = [&](uint64_t seed) {
    device.options.seed = seed;
    *device.at<uint32_t>(counter) = 0;
    REQUIRE(device.run("k", 4, 128, counter, counter, out, 0u) == "");
    const uint32_t* words = device.at<uint32_t>(out);
    return std::vector<uint32_t>(words, words + 512);
  };
  CHECK(order(3) == order(3));
  CHECK(order(3) != order(4));
}

TEST_CASE("more blocks than are resident at once", "[emulator][warps]") {
  Device device(entry("atom.global.add.u32 %r9, [%d0], 1;"));
  const uint64_t counter = device.allocate(64);
  REQUIRE(device.run("k", 20000, 64, counter, counter, counter, 0u) == "");
  CHECK(*device.at<uint32_t>(counter) == 1280000);
}

TEST_CASE("indirect branches and calls, with lanes that go different ways", "[emulator][warps]") {
  const std::string functions = R"(
.func (.param .b32 r) twice(.param .b32 a) { .reg .b32 %a; ld.param.b32 %a, [a]; shl.b32 %a, %a, 1; st.param.b32 [r], %a; ret; }
.func (.param .b32 r) down(.param .b32 a)
{ .reg .b32 %a<3>; .reg .pred %q; ld.param.b32 %a0, [a]; st.param.b32 [r], 0; setp.eq.u32 %q, %a0, 0; @%q ret; sub.u32 %a0, %a0, 1;
  { .param .b32 x; .param .b32 y; st.param.b32 [x], %a0; call.uni (y), down, (x); ld.param.b32 %a1, [y]; }
  add.u32 %a1, %a1, 3; st.param.b32 [r], %a1; ret; }
.global .align 8 .u64 table[2] = {twice, down};)";
  Device device(entry(R"(
  and.b32 %r2, %r1, 3;
  brx.idx %r2, TARGETS;
TARGETS: .branchtargets A, B, B, C;
A: mov.u32 %r4, 0; bra CALL;
B: mov.u32 %r4, 1; bra CALL;
C: mov.u32 %r9, 77; bra DONE;
CALL:
  mov.u64 %d4, table;
  mul.wide.u32 %d5, %r4, 8;
  add.s64 %d4, %d4, %d5;
  ld.global.u64 %d6, [%d4];
  { .param .b32 x; .param .b32 y; st.param.b32 [x], %r1;
  proto: .callprototype (.param .b32 _) _ (.param .b32 _);
  call (y), %d6, (x), proto;
  ld.param.b32 %r9, [y]; }
DONE:)" + kStore,
                      functions));
  const uint64_t out = device.allocate(1024);
  for (const bool any : {false, true}) {
    device.options.any_order = any;
    REQUIRE(device.run("k", 1, 64, out, out, out, 0u) == "");
    for (uint32_t i = 0; i < 64; i++) CHECK(device.at<uint32_t>(out)[i] == (i % 4 == 0 ? 2 * i : i % 4 == 3 ? 77 : 3 * i));
  }
}

TEST_CASE("polling costs next to nothing", "[emulator][warps]") {
  // 8 blocks of 8 warps wait, in each way that there is, for what never comes.
  const std::string wait = GENERATE(
      std::string("ld.acquire.sys.global.u32 %r3, [%d0];"), std::string("ld.volatile.global.u32 %r3, [%d0];"),
      std::string("atom.global.or.b32 %r3, [%d0], 0;"), std::string("nanosleep.u32 100; mov.u32 %r3, 0;"),
      std::string("ld.relaxed.sys.global.u32 %r3, [%d3]; ld.relaxed.gpu.global.u32 %r4, [%d3+64]; or.b32 %r3, %r3, %r4;"));
  CAPTURE(wait);
  Device device(entry("WAIT: " + wait + " setp.eq.u32 %p1, %r3, 0; @%p1 bra WAIT;"));
  const uint64_t word = device.allocate(4096);
  device.options.limit_ms = 200;
  const auto cpu_ms = [] {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return double(now.tv_sec) * 1e3 + double(now.tv_nsec) * 1e-6;
  };
  const double before = cpu_ms();
  CHECK(contains(device.run("k", 8, 256, word, word, word, 0u), "not at its end after 200 ms"));
  CHECK(cpu_ms() - before < 100);
}
