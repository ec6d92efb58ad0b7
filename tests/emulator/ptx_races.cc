// Races: unordered ordinary accesses are found, ordered ones are not.
#include <thread>

#include "emulator/device.h"

using namespace emu;
using namespace emu::test;
using ronde::test::contains;

namespace {

/// What is said of the body of entry() with races watched; the same for a few seeds, or else the first that is not empty.
std::string watched(const std::string& statements, unsigned blocks, unsigned threads, const std::string& before = "") {
  Device device(entry(statements, before));
  const uint64_t a = device.allocate(4096), b = device.allocate(4096), c = device.allocate(4096);
  device.options.races = true;
  for (device.options.seed = 1; device.options.seed <= 10; device.options.seed++) {
    std::memset(device.at<char>(a), 0, 4096);
    std::memset(device.at<char>(b), 0, 4096);
    const std::string wrong = device.run("k", blocks, threads, a, b, c, 0u);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

/// Block 0 writes [p0] and sets [p1] by `set`; block 1 waits by `wait` and reads [p0].
std::string passed_on(const std::string& set, const std::string& wait) {
  return watched(R"(
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r9, 1;
  setp.ne.u32 %p1, %r2, 0;
  @%p1 bra WAIT;
  st.global.u32 [%d0], %r9;
)" + set + R"(
  ret;
WAIT:
)" + wait + R"(
  setp.eq.u32 %p2, %r9, 0;
  @%p2 bra WAIT;
  ld.global.u32 %r3, [%d0];)",
                 2, 1);
}

}  // namespace

TEST_CASE("two blocks that write one word race", "[emulator][races]") {
  const std::string wrong = watched("st.global.u32 [%d0], %r1;", 2, 1);
  INFO(wrong);
  CHECK(contains(wrong, "a data race"));
  CHECK(contains(wrong, "ordinary write"));
  CHECK(contains(wrong, "PTX line"));
  CHECK(contains(
      watched("mov.u32 %r2, %ctaid.x; setp.eq.u32 %p1, %r2, 0; @%p1 st.global.u8 [%d0+1], 5; @!%p1 ld.global.u16 %r3, [%d0];", 2,
              1),
      "a data race"));
}

TEST_CASE("neighbouring bytes, reads alone and strong accesses do not race", "[emulator][races]") {
  CHECK(watched("mov.u32 %r2, %ctaid.x; cvt.u64.u32 %d4, %r2; add.s64 %d4, %d0, %d4; st.global.u8 [%d4], 5;", 8, 1) == "");
  CHECK(watched("ld.global.u32 %r2, [%d0];", 4, 64) == "");
  CHECK(watched("st.relaxed.gpu.global.u32 [%d0], %r1; ld.volatile.global.u32 %r2, [%d0]; atom.global.add.u32 %r2, [%d0], 1;", 4,
                64) == "");
  CHECK(contains(watched("st.relaxed.gpu.global.u32 [%d0], %r1; ld.global.u32 %r2, [%d0];", 2, 1), "a data race"));
}

TEST_CASE("releases and acquires order, and what only looks like them does not", "[emulator][races]") {
  const std::string release = "st.release.gpu.global.u32 [%d1], %r9;", acquire = "ld.acquire.gpu.global.u32 %r9, [%d1];";
  CHECK(passed_on(release, acquire) == "");
  CHECK(passed_on("fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%d1], %r9;",
                  "ld.relaxed.gpu.global.u32 %r9, [%d1]; fence.acq_rel.gpu;") == "");
  CHECK(passed_on("membar.gl; atom.global.add.u32 %r8, [%d1], 1;", "ld.volatile.global.u32 %r9, [%d1]; membar.gl;") == "");
  CHECK(passed_on("atom.add.release.gpu.global.u32 %r8, [%d1], 1;", "atom.acquire.gpu.global.or.b32 %r9, [%d1], 0;") == "");
  CHECK(contains(passed_on("st.relaxed.gpu.global.u32 [%d1], %r9;", acquire), "a data race"));
  CHECK(contains(passed_on(release, "ld.relaxed.gpu.global.u32 %r9, [%d1];"), "a data race"));
  CHECK(contains(passed_on("st.release.cta.global.u32 [%d1], %r9;", acquire), "a data race"));
  CHECK(contains(passed_on("st.relaxed.gpu.global.u32 [%d1], %r9; fence.acq_rel.gpu;", acquire), "a data race"));
}

TEST_CASE("barriers order the warps that meet at them", "[emulator][races]") {
  const std::string head = ".shared .align 4 .b32 word; setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [word], %r1;";
  CHECK(watched(head + "bar.sync 0; ld.shared.u32 %r2, [word];", 2, 128) == "");
  CHECK(contains(watched(head + "ld.shared.u32 %r2, [word];", 2, 128), "a data race"));
  // Barrier 1 is of other warps.
  CHECK(contains(watched(head + R"(
  shr.u32 %r2, %r1, 6; add.u32 %r2, %r2, 1;
  bar.sync %r2, 64;
  ld.shared.u32 %r2, [word];)",
                         1, 128),
                 "a data race"));
}

TEST_CASE("a launch is ordered after those that have ended", "[emulator][races]") {
  Device device(entry("st.global.u32 [%d0], %r1;"));
  const uint64_t word = device.allocate(64);
  device.options.races = true;
  for (int i = 0; i < 3; i++) REQUIRE(device.run("k", 1, 1, word, word, word, 0u) == "");
}

TEST_CASE("what the host stores orders, too", "[emulator][races]") {
  // The kernel waits for a word that the host sets after another launch has written the data.
  Device device(entry(R"(
  setp.ne.u32 %p1, %r0, 0;
  @%p1 bra WAIT;
  st.global.u32 [%d0], %r1;
  ret;
WAIT:
  ld.acquire.sys.global.u32 %r9, [%d1];
  setp.eq.u32 %p2, %r9, 0;
  @%p2 bra WAIT;
  ld.global.u32 %r3, [%d0];)"));
  const uint64_t word = device.allocate(64), flag = device.allocate(64);
  device.options.races = true;
  std::string waiting;
  std::thread waits([&] { waiting = device.run("k", 1, 1, word, flag, flag, 1u); });
  CHECK(device.run("k", 1, 1, word, flag, flag, 0u) == "");
  __atomic_store_n(device.at<uint32_t>(flag), 1u, __ATOMIC_RELEASE);
  waits.join();
  CHECK(waiting == "");
}

TEST_CASE("compiled protocols have no races", "[emulator][races][kernels]") {
  const std::vector<int> targets = compiled_targets("sync");
  if (targets.empty()) RONDE_SKIP("no nvcc: its kernels are not compiled");
  Device device(kernels("sync", targets[0]));
  device.options.races = true;
  const int steps = 20;
  const uint64_t head = device.allocate(8), tail = device.allocate(8), slots = device.allocate(2 * 256),
                 out = device.allocate(steps * 1024);
  std::string wrong[2];
  std::thread sender([&] { wrong[0] = device.run("fifo", 1, 64, head, tail, slots, out, 2, steps, 0); });
  wrong[1] = device.run("fifo", 1, 64, head, tail, slots, out, 2, steps, 1);
  sender.join();
  CHECK(wrong[0] == "");
  CHECK(wrong[1] == "");
  CHECK(device.run("named_barriers", 1, 256, out) == "");
  const uint64_t counter = device.allocate(8), generation = device.allocate(8), data = device.allocate(1024);
  CHECK(device.run("grid_barrier", 4, 64, counter, generation, data, out, 5) == "");
}
