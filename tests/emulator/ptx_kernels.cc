// Kernels that nvcc compiled, against what they should give.
#include <cmath>
#include <thread>

#include "emulator/device.h"

using namespace emu;
using namespace emu::test;
using ronde::test::contains;

namespace {

template <class T>
void fill(T* to, size_t n, T (*value)(size_t)) {
  for (size_t i = 0; i < n; i++) to[i] = value(i);
}

/// The device with a compiled file, for each target in turn; ends the test case visibly where nothing was compiled.
#define FOR_EACH_TARGET(file)                                               \
  const std::vector<int> targets = compiled_targets(file);                  \
  if (targets.empty()) RONDE_SKIP("no nvcc: its kernels are not compiled"); \
  const int target = GENERATE_COPY(from_range(targets));                    \
  CAPTURE(target);                                                          \
  Device device(kernels(file, target))

template <class T>
T applied(T a, T b, int operation) {
  return static_cast<T>(operation == 0 ? a + b : operation == 1 ? a * b : operation == 2 ? std::min(a, b) : std::max(a, b));
}

template <class T>
void check_reduction(Device& device, const char* kernel, uint64_t to, uint64_t a, uint64_t b) {
  constexpr int n = 300;
  CAPTURE(kernel);
  for (int i = 0; i < n; i++) {
    device.at<T>(a)[i] = static_cast<T>(i - 100);
    device.at<T>(b)[i] = static_cast<T>(7 - i / 3);
  }
  for (int operation = 0; operation < 4; operation++) {
    REQUIRE(device.run(kernel, 2, 64, to, a, b, n, operation) == "");
    int wrong = 0;
    for (int i = 0; i < n; i++) wrong += device.at<T>(to)[i] != applied(device.at<T>(a)[i], device.at<T>(b)[i], operation);
    CHECK(wrong == 0);
  }
}

}  // namespace

TEST_CASE("copies by vectors and by bytes", "[emulator][kernels]") {
  FOR_EACH_TARGET("memory");
  const size_t n = 5000;
  const uint64_t from = device.allocate(n * 16), to = device.allocate(n * 16);
  fill<uint32_t>(device.at<uint32_t>(from), n * 4, [](size_t i) { return uint32_t(i * 2654435761u); });
  REQUIRE(device.run("copy16", 4, 128, to, from, n) == "");
  CHECK(std::memcmp(device.at<char>(to), device.at<char>(from), n * 16) == 0);
  std::memset(device.at<char>(to), 0, n * 16);
  REQUIRE(device.run("copy_bytes", 4, 96, to + 1, from + 3, n - 5) == "");
  CHECK(std::memcmp(device.at<char>(to) + 1, device.at<char>(from) + 3, n - 5) == 0);
  CHECK(device.at<char>(to)[n - 4] == 0);
}

TEST_CASE("reductions of all types", "[emulator][kernels]") {
  FOR_EACH_TARGET("memory");
  const uint64_t a = device.allocate(4096), b = device.allocate(4096), to = device.allocate(4096);
  check_reduction<int8_t>(device, "reduce_int8", to, a, b);
  check_reduction<uint8_t>(device, "reduce_uint8", to, a, b);
  check_reduction<int32_t>(device, "reduce_int32", to, a, b);
  check_reduction<uint32_t>(device, "reduce_uint32", to, a, b);
  check_reduction<int64_t>(device, "reduce_int64", to, a, b);
  check_reduction<uint64_t>(device, "reduce_uint64", to, a, b);
  check_reduction<float>(device, "reduce_float", to, a, b);
  check_reduction<double>(device, "reduce_double", to, a, b);
  // 1 and 2 in each format: sum, product, least, greatest.
  const auto same = [&](const char* kernel, uint16_t one, uint16_t two, int n, int operation, uint16_t result) {
    CAPTURE(kernel, operation);
    std::fill_n(device.at<uint16_t>(a), 64, one);
    std::fill_n(device.at<uint16_t>(b), 64, two);
    REQUIRE(device.run(kernel, 1, 64, to, a, b, n, operation) == "");
    for (int i = 0; i < 64; i++) CHECK(device.at<uint16_t>(to)[i] == result);
  };
  for (const auto& [half, half2] : {std::pair{"reduce_half", 64}, std::pair{"reduce_half2", 32}}) {
    same(half, 0x3c00, 0x4000, half2, 0, 0x4200);
    same(half, 0x3c00, 0x4000, half2, 1, 0x4000);
    same(half, 0x3c00, 0x4000, half2, 2, 0x3c00);
    same(half, 0x3c00, 0x4000, half2, 3, 0x4000);
  }
  for (const auto& [brain, n] : {std::pair{"reduce_bfloat16", 64}, std::pair{"reduce_bfloat162", 32}}) {
    same(brain, 0x3f80, 0x4000, n, 0, 0x4040);
    same(brain, 0x3f80, 0x4000, n, 1, 0x4000);
    same(brain, 0x3f80, 0x4000, n, 2, 0x3f80);
    same(brain, 0x3f80, 0x4000, n, 3, 0x4000);
  }
}

TEST_CASE("sums of small floats in fp32", "[emulator][kernels]") {
  FOR_EACH_TARGET("memory");
  const uint64_t a = device.allocate(4096), b = device.allocate(4096), to = device.allocate(4096);
  const auto words = [&](const char* kernel, uint16_t one, uint16_t two, uint16_t result) {
    CAPTURE(kernel);
    std::fill_n(device.at<uint16_t>(a), 64, one);
    std::fill_n(device.at<uint16_t>(b), 64, two);
    REQUIRE(device.run(kernel, 1, 32, to, a, b, 32) == "");
    for (int i = 0; i < 32; i++) CHECK(device.at<uint16_t>(to)[i] == result);
  };
  words("sum_half_in_float", 0x3c00, 0x4000, 0x4200);
  words("sum_bfloat16_in_float", 0x3f80, 0x4000, 0x4040);
  words("sum_e4m3", 0x3840, 0x4038, 0x4444);
  words("sum_e5m2", 0x3c40, 0x403c, 0x4242);
  words("sum_e4m3", 0x7e7e, 0x7e38, 0x7e7e);  // saturates
  std::fill_n(device.at<uint8_t>(a), 64, uint8_t{0x38});
  std::fill_n(device.at<uint8_t>(b), 64, uint8_t{0x40});
  REQUIRE(device.run("sum_one_e4m3", 1, 64, to, a, b, 64) == "");
  CHECK(device.at<uint8_t>(to)[5] == 0x44);
}

TEST_CASE("divisions and roots", "[emulator][kernels]") {
  FOR_EACH_TARGET("memory");
  const uint64_t d = device.allocate(4096), f = device.allocate(4096), l = device.allocate(4096), u = device.allocate(4096);
  fill<double>(device.at<double>(d), 32, [](size_t i) { return double(i * i); });
  fill<float>(device.at<float>(f), 32, [](size_t i) { return float(i + 1); });
  fill<long long>(device.at<long long>(l), 32, [](size_t i) { return -100 * (long long)i; });
  fill<unsigned>(device.at<unsigned>(u), 32, [](size_t i) { return unsigned(i * 1000); });
  REQUIRE(device.run("divide", 1, 32, d, f, l, u, 32) == "");
  for (int i = 0; i < 32; i++) {
    CHECK(device.at<double>(d)[i] == i * i / 32.0 + i);
    CHECK(device.at<long long>(l)[i] == -100 * i / 32 + -100 * i % 33);
    CHECK(device.at<unsigned>(u)[i] == i * 1000u / 32 + i * 1000u % 33);
  }
}

TEST_CASE("a FIFO between two launches", "[emulator][kernels]") {
  FOR_EACH_TARGET("sync");
  const int steps = 100;
  const uint64_t head = device.allocate(8), tail = device.allocate(8), slots = device.allocate(4 * 256 * 4),
                 out = device.allocate(steps * 1024);
  std::string wrong[2];
  std::thread sender([&] { wrong[0] = device.run("fifo", 1, 256, head, tail, slots, out, 4, steps, 0); });
  wrong[1] = device.run("fifo", 1, 256, head, tail, slots, out, 4, steps, 1);
  sender.join();
  CHECK(wrong[0] == "");
  CHECK(wrong[1] == "");
  int bad = 0;
  for (int i = 0; i < steps * 256; i++) bad += device.at<int>(out)[i] != i;
  CHECK(bad == 0);
}

TEST_CASE("barriers, shuffles and atomics of compiled kernels", "[emulator][kernels]") {
  FOR_EACH_TARGET("sync");
  const uint64_t out = device.allocate(1 << 16), wide = device.allocate(4096);
  auto* words = device.at<uint32_t>(out);
  REQUIRE(device.run("named_barriers", 1, 256, out) == "");
  uint32_t above = 0;
  for (uint32_t i = 0; i < 256; i++) {
    CHECK(words[i] == 6 + 4 * ((i % 128 + 1) % 128));
    above += words[i] > 300;
  }
  CHECK(words[256] == above * 100 + 11);

  REQUIRE(device.run("shuffles", 1, 64, out, wide) == "");
  const auto square = [](uint32_t lane) { return lane * lane; };
  for (uint32_t l = 0; l < 32; l++) {
    CHECK(words[l] == 9 + square(l > 0 ? l - 1 : 0) + square(l % 8 < 6 ? l + 2 : l) + square(l ^ 16));
    CHECK(device.at<uint64_t>(wide)[l] == (uint64_t{square(l ^ 1)} << 32 | (l ^ 1)));
    CHECK(words[64 + l] == 0xaaaaaaaau + 32 + 7);
    CHECK(words[128 + l] == 0xfu << (l / 4 * 4));
    CHECK(words[192 + l] == square(l ^ 1));
    if (target >= 80) CHECK(words[256 + l] == 496u + 31 + 0xffffffffu);
  }

  const uint64_t i = device.allocate(64), u = device.allocate(64), l = device.allocate(64), f = device.allocate(64),
                 d = device.allocate(64);
  *device.at<uint32_t>(u) = ~0u;
  REQUIRE(device.run("atomics", 4, 64, i, u, l, f, d, out) == "");
  const int* ints = device.at<int>(i);
  CHECK(std::vector<int>(ints, ints + 7) == std::vector<int>{256, -512, 63, -63, 256, 0, 256});
  CHECK(device.at<uint32_t>(u)[0] == 0);
  CHECK(device.at<uint32_t>(u)[1] == ~0u);
  CHECK(device.at<uint64_t>(l)[0] == uint64_t{256} << 33);
  CHECK(*device.at<float>(f) == 256);
  CHECK(*device.at<double>(d) == 128);
}

TEST_CASE("a barrier of the whole grid", "[emulator][kernels]") {
  FOR_EACH_TARGET("sync");
  const uint64_t counter = device.allocate(8), generation = device.allocate(8), data = device.allocate(1024),
                 out = device.allocate(1024);
  const unsigned rounds = 20;
  REQUIRE(device.run("grid_barrier", 4, 64, counter, generation, data, out, int(rounds)) == "");
  for (unsigned i = 0; i < 256; i++)
    CHECK(device.at<uint32_t>(out)[i] == rounds * (rounds - 1) / 2 * 1000 + rounds * ((i / 64 + 1) % 4));
  REQUIRE(device.run("cuda_atomics", 2, 64, counter, out) == "");
}

TEST_CASE("tables, calls, local memory and structs of the language", "[emulator][kernels]") {
  FOR_EACH_TARGET("language");
  const uint64_t out = device.allocate(1 << 16), in = device.allocate(4096);
  int* words = device.at<int>(out);
  for (int i = 0; i < 64; i++) device.at<int>(in)[i] = i % 10;
  REQUIRE(device.run("switches", 1, 64, out, in, 60) == "");
  const int table[] = {3, 1, 4, 1, 5, 9, 2, 6}, values[] = {3, -4, 0, 16};
  for (int i = 0; i < 60; i++) {
    uint32_t reversed = 0;
    for (int k = 0; k < 32; k++) reversed |= (uint32_t(i) >> k & 1) << (31 - k);
    const int want[] = {0,
                        std::popcount(uint32_t(i)) + 100,
                        std::countl_zero(uint32_t(i)) ^ 5,
                        i / 3,
                        int(reversed >> 3),
                        std::countr_zero(uint32_t(i)) + 1,
                        table[i & 7],
                        10,
                        values[i & 3],
                        -1};
    CAPTURE(i);
    if (i % 10 != 4) CHECK(words[i] == want[i % 10]);
  }
  REQUIRE(device.run("recursion", 1, 32, out) == "");
  const int fibonacci[] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34};
  for (int i = 0; i < 32; i++) CHECK(words[i] == fibonacci[i % 10]);
  REQUIRE(device.run("pointers", 1, 32, out, 5) == "");
  for (int i = 0; i < 32; i++) CHECK(words[i] == (i & 1 ? 5 * i : 5 + i));
  REQUIRE(device.run("local", 1, 32, out, 40) == "");
  for (int t = 0; t < 32; t++) {
    int stack[32] = {}, sum = 0;
    for (int i = 0; i < 40; i++) stack[(i * 7 + t) & 31] = i;
    for (int i = 0; i < 40; i++) sum += stack[i & 31] * i;
    CHECK(words[t] == sum);
  }
  struct Big {
    int v[64];
    const char* name;
    short s;
  } big{};
  for (int i = 0; i < 64; i++) big.v[i] = i * 3;
  big.s = 7;
  REQUIRE(device.run("structs", 1, 64, out, big) == "");
  for (int i = 0; i < 64; i++) CHECK(words[i] == i * 3 + 7);
  device.dynamic_shared = 64 * 16;
  REQUIRE(device.run("dynamic_shared", 1, 64, out) == "");
  for (int i = 0; i < 64; i++) CHECK(words[i] == 63 - i + 2 + 3 + i % 33 * 2);
  REQUIRE(device.run("specials", 2, 64, out) == "");
  for (int i = 0; i < 64; i++) {
    CHECK(words[8 * i] == i % 32);
    CHECK(words[8 * i + 1] == i / 32);
    CHECK(uint32_t(words[8 * i + 2]) == (uint32_t{1} << i % 32) - 1);
    CHECK(words[8 * i + 5] == 1);
    CHECK(words[8 * i + 6] == 1);
    CHECK(words[8 * i + 7] == 9);
  }
  CHECK(contains(device.run("prints", 1, 32, 3), "vprintf"));
  const std::string trapped = device.run("traps", 1, 32, 3);
  CHECK(contains(trapped, "thread (3,0,0): trap"));
  CHECK(contains(trapped, "language.cu:"));
}

TEST_CASE("bit tricks as the host does them", "[emulator][kernels]") {
  FOR_EACH_TARGET("language");
  const uint64_t u = device.allocate(4096), l = device.allocate(4096), a = device.allocate(4096), b = device.allocate(4096);
  uint64_t random = 12345;
  const auto next = [&] { return random = random * 6364136223846793005ull + 1442695040888963407ull; };
  for (int i = 0; i < 32; i++) {
    device.at<uint32_t>(a)[i] = uint32_t(next() >> 20);
    device.at<uint64_t>(b)[i] = next() ^ next() >> 31;
  }
  REQUIRE(device.run("bits", 1, 32, u, l, a, b) == "");
  for (int i = 0; i < 32; i++) {
    const uint32_t x = device.at<uint32_t>(a)[i], y = device.at<uint32_t>(a)[i ^ 1];
    const uint64_t p = device.at<uint64_t>(b)[i], q = device.at<uint64_t>(b)[i ^ 1];
    const uint64_t both = uint64_t{y} << 32 | x;
    const uint32_t* got = device.at<uint32_t>(u) + 8 * i;
    CAPTURE(i, x, y);
    CHECK(got[1] == uint32_t(both << (y & 31) >> 32) + uint32_t((x & 63) >= 32 ? y : both >> (x & 31)));
    CHECK(got[2] == uint32_t(uint64_t{x} * y >> 32) + uint32_t(int64_t{int32_t(x)} * int32_t(y) >> 32) +
                        (x & 0xffffff) * (y & 0xffffff) + uint32_t((int32_t(x << 8) >> 8) * int64_t{int32_t(y << 8) >> 8}));
    CHECK(got[3] == ((x & y) | ((~x & uint32_t(p)) ^ (x >> (y & 31)))));
    CHECK(got[5] == uint32_t(int8_t(x)) + uint32_t(int16_t(y)) + uint8_t(x >> 8) + (x == y) + (int32_t(x) < int32_t(y)));
    CHECK(got[6] == ((x >> 5 & 0x1ff) | (y & 0x1f) << 20));
    const uint64_t* wide = device.at<uint64_t>(l) + 4 * i;
    CHECK(wide[0] == uint64_t((unsigned __int128)p * q >> 64) + p * q + uint64_t((__int128)int64_t(p) * int64_t(q) >> 64));
    CHECK(wide[2] == (p << (x & 63)) + (q >> (y & 63)) + uint64_t(int64_t(p) >> 7) + p / (q | 1) + p % (q | 1));
  }
}
