// Weak memory: planted mistakes are found, right protocols pass, whatever the seed.
#include <thread>

#include "emulator/device.h"

using namespace emu;
using namespace emu::test;

namespace {

/// Block 0 writes 64 words at p0 and then a flag at p1, block 1 waits for the flag and copies the words to p2. Before that it has
/// read them once, as a reader of old data does. `set` writes %r9 to the flag [%d1], `wait` reads it to %r9.
std::string message(const std::string& set, const std::string& wait) {
  return entry(R"(
  mul.wide.u32 %d4, %r1, 4;
  add.s64 %d5, %d2, %d4;
  mov.u32 %r2, %ctaid.x;
  setp.ne.u32 %p1, %r2, 0;
  @%p1 bra TAKE;
  add.u32 %r3, %r1, 1000;
  st.global.u32 [%d3], %r3;
  bar.sync 0;
  setp.ne.u32 %p2, %r1, 0;
  @%p2 ret;
  mov.u32 %r9, 1;
)" + set + R"(
  ret;
TAKE:
  ld.global.u32 %r4, [%d3];
  bar.sync 0;
  setp.ne.u32 %p2, %r1, 0;
  @%p2 bra GOT;
WAIT:
)" + wait + R"(
  setp.eq.u32 %p3, %r9, 0;
  @%p3 bra WAIT;
GOT:
  bar.sync 0;
  ld.global.u32 %r5, [%d3];
  st.global.u32 [%d5], %r5;)");
}

struct Found {
  int stale_words = 0, runs = 0;
};

/// The words that came out wrong over many seeds.
Found stale(const std::string& ptx, bool weak_stores, bool stale_loads) {
  Device device(ptx);
  const uint64_t words = device.allocate(256), flag = device.allocate(8), out = device.allocate(256);
  device.options.weak_stores = weak_stores;
  device.options.stale_loads = stale_loads;
  Found found;
  for (device.options.seed = 1; device.options.seed <= 60; device.options.seed++) {
    std::memset(device.at<char>(words), 0, 256);
    *device.at<uint64_t>(flag) = 0;
    REQUIRE(device.run("k", 2, 64, words, flag, out, 0u) == "");
    for (uint32_t i = 0; i < 64; i++) found.stale_words += device.at<uint32_t>(out)[i] != 1000 + i;
    for (uint32_t i = 0; i < 64; i++) CHECK(device.at<uint32_t>(words)[i] == 1000 + i);  // in the end all is there
    found.runs++;
  }
  return found;
}

const std::string kRelease = "st.release.gpu.global.u32 [%d1], %r9;";
const std::string kAcquire = "ld.acquire.gpu.global.u32 %r9, [%d1];";

}  // namespace

TEST_CASE("right protocols pass with weak stores and stale loads", "[emulator][weak]") {
  const std::string set = GENERATE(std::string(kRelease), std::string("st.release.sys.global.u32 [%d1], %r9;"),
                                   std::string("fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%d1], %r9;"),
                                   std::string("membar.sys; st.volatile.global.u32 [%d1], %r9;"),
                                   std::string("atom.release.gpu.global.exch.b32 %r8, [%d1], %r9;"),
                                   std::string("fence.sc.gpu; red.relaxed.gpu.global.add.u32 [%d1], %r9;"));
  const std::string wait = GENERATE(
      std::string(kAcquire), std::string("ld.relaxed.gpu.global.u32 %r9, [%d1]; fence.acq_rel.gpu;"),
      std::string("ld.volatile.global.u32 %r9, [%d1]; membar.gl;"), std::string("atom.acquire.gpu.global.or.b32 %r9, [%d1], 0;"));
  CAPTURE(set, wait);
  const Found found = stale(message(set, wait), true, true);
  CHECK(found.stale_words == 0);
  CHECK(found.runs == 60);
}

TEST_CASE("a missing release is found", "[emulator][weak]") {
  const std::string set =
      GENERATE(std::string("st.relaxed.gpu.global.u32 [%d1], %r9;"), std::string("st.volatile.global.u32 [%d1], %r9;"),
               std::string("atom.relaxed.gpu.global.exch.b32 %r8, [%d1], %r9;"),
               std::string("fence.acq_rel.cta; st.relaxed.gpu.global.u32 [%d1], %r9;"));
  CAPTURE(set);
  CHECK(stale(message(set, kAcquire), true, false).stale_words > 100);
  CHECK(stale(message(set, kAcquire), false, false).stale_words == 0);  // the host alone hides it
}

TEST_CASE("a missing acquire is found", "[emulator][weak]") {
  const std::string wait =
      GENERATE(std::string("ld.relaxed.gpu.global.u32 %r9, [%d1];"), std::string("ld.volatile.global.u32 %r9, [%d1];"),
               std::string("ld.acquire.cta.global.u32 %r9, [%d1];"));
  CAPTURE(wait);
  CHECK(stale(message(kRelease, wait), false, true).stale_words > 100);
  CHECK(stale(message(kRelease, wait), false, false).stale_words == 0);
}

TEST_CASE("a thread sees its own stores in order", "[emulator][weak]") {
  Device device(entry(R"(
  mul.wide.u32 %d4, %r1, 8; add.s64 %d4, %d0, %d4;
  mov.u32 %r2, 0;
LOOP:
  st.global.u32 [%d4], %r2;
  ld.global.u32 %r3, [%d4];
  setp.ne.u32 %p1, %r3, %r2;
  @%p1 trap;
  st.global.u8 [%d4+1], 7;
  ld.global.u32 %r3, [%d4];
  bfe.u32 %r4, %r3, 8, 8;
  setp.ne.u32 %p1, %r4, 7;
  @%p1 trap;
  atom.global.add.u32 %r5, [%d4], 1;
  ld.global.u32 %r6, [%d4];
  setp.eq.u32 %p1, %r6, %r5;
  @%p1 trap;
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p2, %r2, 40;
  @%p2 bra LOOP;
  st.global.u32 [%d4], %r1;)"));
  const uint64_t words = device.allocate(1024);
  device.options.weak_stores = device.options.stale_loads = true;
  for (device.options.seed = 1; device.options.seed <= 30; device.options.seed++) {
    device.options.harsh_vectors = device.options.seed % 2;
    REQUIRE(device.run("k", 1, 64, words, words, words, 0u) == "");
    for (uint32_t i = 0; i < 64; i++) CHECK(device.at<uint32_t>(words)[2 * i] == i);
  }
}

TEST_CASE("a vector's store stays whole, but for the harsh mode", "[emulator][weak]") {
  // Block 0 writes (i, i, i, i) again and again; block 1 looks until it sees 200, and counts the looks that were torn.
  Device device(entry(R"(
  mov.u32 %r2, %ctaid.x;
  setp.ne.u32 %p1, %r2, 0;
  mov.u32 %r3, 0;
  mov.u32 %r9, 0;
  @%p1 bra LOOK;
MAKE:
  add.u32 %r3, %r3, 1;
  st.volatile.global.v4.u32 [%d0], {%r3, %r3, %r3, %r3};
  setp.lt.u32 %p2, %r3, 200;
  @%p2 bra MAKE;
  ret;
LOOK:
  ld.volatile.global.v4.u32 {%r4, %r5, %r6, %r7}, [%d0];
  setp.ne.u32 %p3, %r4, %r7;
  @%p3 add.u32 %r9, %r9, 1;
  setp.lt.u32 %p2, %r4, 200;
  @%p2 bra LOOK;
  st.global.u32 [%d1], %r9;)"));
  const uint64_t vector = device.allocate(64), count = device.allocate(64);
  device.options.weak_stores = true;
  const auto torn = [&](bool harsh) {
    uint32_t sum = 0;
    device.options.harsh_vectors = harsh;
    for (device.options.seed = 1; device.options.seed <= 20; device.options.seed++) {
      std::memset(device.at<char>(vector), 0, 16);
      REQUIRE(device.run("k", 2, 1, vector, count, count, 0u) == "");
      sum += *device.at<uint32_t>(count);
    }
    return sum;
  };
  CHECK(torn(false) == 0);
  CHECK(torn(true) > 0);
}

TEST_CASE("shared memory needs its barrier, too", "[emulator][weak]") {
  const auto wrong = [](const std::string& between) {
    Device device(entry(R"(
  .shared .align 4 .b8 words[256];
  mov.u32 %r2, words;
  mad.lo.u32 %r3, %r1, 4, %r2;
  st.shared.u32 [%r3], %r1;
)" + between + R"(
  xor.b32 %r4, %r1, 32;
  mad.lo.u32 %r3, %r4, 4, %r2;
  ld.shared.u32 %r5, [%r3];
  setp.eq.u32 %p1, %r5, %r4;
  @!%p1 atom.global.add.u32 %r6, [%d0], 1;)"));
    const uint64_t count = device.allocate(64);
    device.options.weak_stores = true;
    for (device.options.seed = 1; device.options.seed <= 20; device.options.seed++)
      REQUIRE(device.run("k", 1, 64, count, count, count, 0u) == "");
    return *device.at<uint32_t>(count);
  };
  CHECK(wrong("bar.sync 0;") == 0);
  CHECK(wrong("") > 0);
}

TEST_CASE("the FIFO of two launches holds with both modes on", "[emulator][weak][kernels]") {
  const std::vector<int> targets = compiled_targets("sync");
  if (targets.empty()) RONDE_SKIP("no nvcc: its kernels are not compiled");
  Device device(kernels("sync", targets[0]));
  const int steps = 40;
  const uint64_t head = device.allocate(8), tail = device.allocate(8), slots = device.allocate(2 * 256),
                 out = device.allocate(steps * 256);
  for (const uint64_t seed : {1, 2, 3, 4}) {
    *device.at<uint64_t>(head) = *device.at<uint64_t>(tail) = 0;
    device.options.seed = seed;
    device.options.weak_stores = device.options.stale_loads = true;
    device.options.any_order = seed % 2;
    std::string wrong[2];
    std::thread sender([&] { wrong[0] = device.run("fifo", 1, 64, head, tail, slots, out, 2, steps, 0); });
    wrong[1] = device.run("fifo", 1, 64, head, tail, slots, out, 2, steps, 1);
    sender.join();
    REQUIRE(wrong[0] == "");
    REQUIRE(wrong[1] == "");
    int bad = 0;
    for (int i = 0; i < steps * 64; i++) bad += device.at<int>(out)[i] != i;
    CHECK(bad == 0);
  }
}
