// Wrong programs: each fault is planted, found, and named with its place.
#include <chrono>
#include <thread>

#include "emulator/device.h"

using namespace emu;
using namespace emu::test;
using ronde::test::contains;

namespace {

struct Planted {
  Device device;
  uint64_t small = device.allocate(256);

  explicit Planted(const std::string& statements) : device(entry(".loc 1 17 3\n" + statements) + ".file 1 \"/x/planted.cu\"\n") {}
  /// What is said; its place is checked.
  std::string run(unsigned threads = 32, unsigned blocks = 1) {
    const std::string wrong = device.run("k", blocks, threads, small, small, small, 0u);
    INFO(wrong);
    CHECK(contains(wrong, "kernel k, block ("));
    CHECK(contains(wrong, "PTX line"));
    CHECK(contains(wrong, "planted.cu:17"));
    return wrong;
  }
  /// Waits until the kernel has written to the second word, at most 10 s.
  void await_word() {
    const volatile uint32_t* const word = device.at<uint32_t>(small) + 1;
    const auto start = std::chrono::steady_clock::now();
    while (*word == 0 && std::chrono::steady_clock::now() - start < std::chrono::seconds(10)) std::this_thread::yield();
  }
};

}  // namespace

TEST_CASE("an access outside of any allocation names the thread", "[emulator][faults]") {
  Planted past("setp.eq.u32 %p1, %r1, 5; @%p1 add.s64 %d3, %d3, 0x400000; ld.global.u32 %r2, [%d3];");
  const std::string wrong = past.run();
  CHECK(contains(wrong, "thread (5,0,0)"));
  CHECK(contains(wrong, "outside"));
  CHECK(contains(Planted("st.u32 [%d3+-64], %r1;").run(), "outside"));
  CHECK(contains(Planted("mov.u64 %d4, 0; atom.global.add.u32 %r2, [%d4], 1;").run(), "outside"));
  CHECK(contains(Planted("ld.global.v4.u32 {%r2,%r3,%r4,%r5}, [%d0+248];").run(), "misaligned"));
}

TEST_CASE("the end of an allocation is exact to the byte", "[emulator][faults]") {
  Planted planted("ld.global.u8 %r2, [%d0+255];");
  CHECK(planted.device.run("k", 1, 1, planted.small, planted.small, planted.small, 0u) == "");
  CHECK(contains(Planted("ld.global.u8 %r2, [%d0+256];").run(1), "past the end"));
}

TEST_CASE("memory that was freed is told apart", "[emulator][faults]") {
  Planted planted("ld.global.u32 %r2, [%d3];");
  CHECK(planted.device.run("k", 1, 32, planted.small, planted.small, planted.small, 0u) == "");
  REQUIRE(planted.device.memory->release(planted.small));
  CHECK(contains(planted.run(), "freed"));
}

TEST_CASE("memory may be freed while a kernel runs that has used it", "[emulator][faults]") {
  Planted planted("mov.u32 %r3, 1; st.volatile.global.u32 [%d0+4], %r3; LOOP: ld.volatile.global.u32 %r2, [%d0]; bra LOOP;");
  std::thread free([&] {
    planted.await_word();
    planted.device.memory->release(planted.small);
  });
  CHECK(contains(planted.run(), "freed"));
  free.join();
}

TEST_CASE("another device's memory needs peer access", "[emulator][faults]") {
  Planted planted("ld.global.u32 %r2, [%d3];");
  Device other(entry(""), 1, planted.device.memory);
  planted.small = other.allocate(256);
  CHECK(contains(planted.run(), "device 0 may not reach this memory of device 1"));
}

TEST_CASE("misaligned accesses", "[emulator][faults]") {
  CHECK(contains(Planted("ld.global.u32 %r2, [%d3+2];").run(), "misaligned"));
  CHECK(contains(Planted("st.global.v4.u32 [%d0+8], {%r1,%r1,%r1,%r1};").run(), "misaligned"));
  CHECK(contains(Planted(".shared .align 16 .b8 s[64]; st.shared.v2.u32 [s+4], {%r1,%r1};").run(), "misaligned"));
}

TEST_CASE("shared and local memory have ends", "[emulator][faults]") {
  CHECK(contains(Planted(".shared .align 16 .b8 s[64]; st.shared.u32 [s+64], %r1;").run(), "shared memory"));
  CHECK(contains(Planted("mov.u32 %r2, -4; st.shared.u32 [%r2], %r1;").run(), "shared memory"));
  CHECK(contains(Planted("mov.u32 %r2, 0x100000; st.local.u32 [%r2], %r1;").run(), "local memory"));
}

TEST_CASE("a barrier that only some lanes of a warp reach", "[emulator][faults]") {
  const std::string wrong = Planted("setp.lt.u32 %p1, %r1, 8; @%p1 bra END; bar.sync 0; END: ret;").run();
  CHECK(contains(wrong, "cannot complete: all of the block's threads wait or have ended"));
  const std::string two = Planted("setp.lt.u32 %p1, %r1, 8; @%p1 bra LOW; bar.sync 0; bra END; LOW: bar.sync 0; END: ret;").run();
  CHECK(contains(two, "divergent barrier"));
}

TEST_CASE("a barrier that cannot complete", "[emulator][faults]") {
  const std::string ended = Planted("setp.lt.u32 %p1, %r1, 32; @%p1 bra END; bar.sync 0; END: ret;").run(64);
  CHECK(contains(ended, "cannot complete"));
  CHECK(contains(ended, "warp 1"));
  const std::string crossed = Planted("shr.u32 %r2, %r1, 5; add.u32 %r2, %r2, 1; bar.sync %r2, 64;").run(64);
  CHECK(contains(crossed, "cannot complete"));
  CHECK(contains(Planted("shr.u32 %r2, %r1, 5; add.u32 %r2, %r2, 1; shl.b32 %r2, %r2, 5; bar.sync 1, %r2;").run(128), "threads"));
  CHECK(contains(Planted("bar.sync 1, 32;  bar.sync 16;").run(64), "no barrier 16"));
}

TEST_CASE("a shuffle from a lane that is not there", "[emulator][faults]") {
  const std::string wrong =
      Planted("setp.lt.u32 %p1, %r1, 8; @!%p1 bra END; shfl.sync.idx.b32 %r2, %r1, 9, 31, 0xff; END: ret;").run();
  CHECK(contains(wrong, "absent"));
  CHECK(contains(wrong, "lane 9"));
  CHECK(contains(Planted("shfl.sync.idx.b32 %r2, %r1, 30, 31, -1;").run(16), "lane 30, which is absent"));
  CHECK(contains(Planted("shfl.sync.idx.b32 %r2, %r1, 0, 31, 0xffff;").run(), "not among the members"));
  const std::string apart = Planted(
                                "setp.lt.u32 %p1, %r1, 8; @%p1 bra LOW; shfl.sync.idx.b32 %r2, %r1, 0, 31, -1; bra END; LOW: "
                                "vote.sync.any.pred %p2, %p1, -1; END: ret;")
                                .run();
  CHECK(contains(apart, "cannot come"));
}

TEST_CASE("a hang is told with where each warp stands, when the launch is stopped or late", "[emulator][faults]") {
  const std::string hang = R"(
  mov.u32 %r2, %ctaid.x;
  setp.eq.u32 %p1, %r2, 1;
  @%p1 bra WAIT;
  bar.sync 2;
  ret;
WAIT:
  st.relaxed.sys.global.u32 [%d0+4], %r2;
POLL:
  ld.relaxed.sys.global.u32 %r3, [%d0];
  setp.eq.u32 %p2, %r3, 0;
  @%p2 bra POLL;)";
  Planted late(hang);
  late.device.options.limit_ms = 20;
  const std::string wrong = late.device.run("k", 2, 32, late.small, late.small, late.small, 0u);
  INFO(wrong);
  CHECK(contains(wrong, "after 20 ms"));
  CHECK(contains(wrong, "block (1,0,0) warp 0 lanes ffffffff polls"));
  CHECK(contains(wrong, "planted.cu:17"));

  Planted stopped(hang);
  std::thread stop([&] {
    stopped.await_word();
    stopped.device.stop = true;
  });
  CHECK(contains(stopped.device.run("k", 2, 32, stopped.small, stopped.small, stopped.small, 0u), "stopped"));
  stop.join();
}

TEST_CASE("other ends of a program", "[emulator][faults]") {
  CHECK(contains(Planted("setp.eq.u32 %p1, %r1, 3; @%p1 trap;").run(), "thread (3,0,0): trap"));
  CHECK(contains(Planted("mov.u64 %d4, 5; { .param .b32 a; p: .callprototype _ (); call %d4, (), p; }").run(), "no function"));
  Planted shape("ret;");
  CHECK(contains(shape.device.run("k", 1, 2048, shape.small, shape.small, shape.small, 0u), "2048 threads"));
}
