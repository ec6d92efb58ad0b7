// Every table of this machine against the scalar one, bit for bit.
#include <algorithm>
#include <string>

#include <fmt/core.h>

#include "reduce_support.h"
#include "support/catch.h"

namespace ronde {
namespace {

constexpr size_t kMost = 4099;  // elements
constexpr size_t kCounts[] = {0, 1, 2, 3, 7, 15, 16, 17, 31, 63, 64, 65, 1000, kMost};
constexpr int kSources[] = {1, 2, 3, 5, 8};
constexpr size_t kOffsets[] = {0, 1, 3};
constexpr size_t kGuard = 64;
constexpr uint8_t kGuardByte = 0xa5;

/// An array at an address that is `offset` bytes off alignment, between guards.
struct Guarded {
  explicit Guarded(size_t bytes) : memory(bytes + 2 * kGuard + 64) {}
  void place(size_t offset, const uint8_t* data, size_t bytes) {
    base = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64 + offset;
    size = bytes;
    std::memset(base, kGuardByte, kGuard);
    if (bytes > 0) std::memcpy(begin(), data, bytes);
    std::memset(begin() + bytes, kGuardByte, kGuard - offset);
    tail = kGuard - offset;
  }
  uint8_t* begin() { return base + kGuard; }
  bool intact() {
    const auto is_guard = [](uint8_t byte) { return byte == kGuardByte; };
    return std::all_of(base, base + kGuard, is_guard) && std::all_of(begin() + size, begin() + size + tail, is_guard);
  }
  std::vector<uint8_t> memory;
  uint8_t* base = nullptr;
  size_t size = 0, tail = 0;
};

std::vector<Scale> scales(ReduceOp op, int n, uint64_t factor) {
  if (op == ReduceOp::avg) return {{.divisor = n}, {.divisor = 2 * n + 1}, {.divisor = 1}};
  if (op == ReduceOp::premul_sum) return {{.pre_index = 0, .factor = factor}, {.pre_index = n - 1, .factor = factor}};
  return {{}};
}

struct Bench {
  DataType type;
  std::vector<std::vector<uint8_t>> data;  ///< one array of kMost elements per source
  std::vector<Guarded> memory;             ///< where they stand for a call; the last one is a dst of its own

  explicit Bench(DataType t) : type(t) {
    std::mt19937_64 random(static_cast<uint64_t>(t) + 7);
    for (int s = 0; s < 8; ++s) data.push_back(test::mixed_data(t, kMost * size_of(t), random));
    for (int s = 0; s < 9; ++s) memory.emplace_back(kMost * size_of(t));
  }

  std::vector<uint8_t> expected(ReduceOp op, int n, Scale scale) {
    std::vector<const void*> src;
    for (int s = 0; s < n; ++s) src.push_back(data[static_cast<size_t>(s)].data());
    std::vector<uint8_t> dst(kMost * size_of(type));
    test::function_of(scalar_table, type, op)(dst.data(), src.data(), n, kMost, scale);
    return dst;
  }

  /// Runs one call with dst in place of source `alias` (-1: of its own) and returns what is wrong with it, or nothing.
  std::string run(ReduceFn fn, int n, size_t count, size_t offset, int alias, Scale scale, const std::vector<uint8_t>& expected) {
    const size_t bytes = count * size_of(type);
    std::vector<const void*> src;
    for (int s = 0; s < n; ++s) {
      const size_t place = static_cast<size_t>(s);
      memory[place].place(offset * (place + 1) % 8, data[place].data(), bytes);
      src.push_back(memory[place].begin());
    }
    Guarded& own = memory.back();
    own.place(offset, data[7].data(), bytes);
    Guarded& dst = alias < 0 ? own : memory[static_cast<size_t>(alias)];
    fn(dst.begin(), src.data(), n, count, scale);
    for (size_t at = 0; at < bytes; ++at) {
      if (dst.begin()[at] != expected[at]) return fmt::format("element {} is wrong", at / size_of(type));
    }
    for (size_t s = 0; s < static_cast<size_t>(n); ++s) {
      if (!memory[s].intact()) return fmt::format("wrote around source {}", s);
      const bool kept = bytes == 0 || std::memcmp(memory[s].begin(), data[s].data(), bytes) == 0;
      if (static_cast<int>(s) != alias && !kept) return fmt::format("wrote to source {}", s);
    }
    return own.intact() ? "" : "wrote around dst";
  }

  void check(const ReduceTable& table, ReduceOp op, int n, Scale scale) {
    const std::vector<uint8_t> right = expected(op, n, scale);
    for (size_t count : kCounts) {
      for (size_t offset : kOffsets) {
        for (int alias : {-1, 0, n - 1}) {
          const std::string wrong = run(test::function_of(table, type, op), n, count, offset, alias, scale, right);
          if (wrong.empty()) continue;
          FAIL_CHECK(fmt::format("{} {} {}, {} sources, {} elements, offset {}, dst {}, pre {}, divisor {}: {}", table.isa,
                                 name_of(type), name_of(op), n, count, offset, alias, scale.pre_index, scale.divisor, wrong));
          return;
        }
      }
    }
  }
};

}  // namespace

TEST_CASE("reductions: every table gives the scalar table's bits", "[reduce]") {
  const auto type = static_cast<DataType>(GENERATE(range(0, kDataTypes)));
  Bench bench(type);
  uint64_t factor = 0;
  std::memcpy(&factor, bench.data[3].data() + 40 * size_of(type), size_of(type));
  for (const ReduceTable* table : test::runnable_tables()) {
    for (int op = 0; op < kReduceOps; ++op) {
      for (int n : kSources) {
        for (Scale scale : scales(static_cast<ReduceOp>(op), n, factor)) bench.check(*table, static_cast<ReduceOp>(op), n, scale);
      }
    }
  }
  SUCCEED();
}

TEST_CASE("reductions: 1024 sources", "[reduce]") {
  constexpr int kMany = 1024;
  constexpr size_t kCount = 100;
  std::mt19937_64 random(3);
  for (int type = 0; type < kDataTypes; ++type) {
    std::vector<std::vector<uint8_t>> data;
    std::vector<const void*> src;
    for (int s = 0; s < kMany; ++s) {
      std::vector<uint8_t> bytes(kCount * 8);
      // Any bits would all end in NaN or infinity: only the low half of each byte, which leaves the exponents small.
      for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random() & 0x0f);
      data.push_back(std::move(bytes));
    }
    for (const auto& bytes : data) src.push_back(bytes.data());
    for (ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::max, ReduceOp::min, ReduceOp::avg}) {
      const Scale scale{.divisor = op == ReduceOp::avg ? kMany : 1};
      const auto t = static_cast<DataType>(type);
      std::vector<uint8_t> right(kCount * 8), got(kCount * 8);
      test::function_of(scalar_table, t, op)(right.data(), src.data(), kMany, kCount, scale);
      for (const ReduceTable* table : test::runnable_tables()) {
        test::function_of(*table, t, op)(got.data(), src.data(), kMany, kCount, scale);
        INFO(fmt::format("{} {} {}", table->isa, name_of(t), name_of(op)));
        CHECK(got == right);
      }
    }
  }
}

TEST_CASE("reductions: all pairs of 8-bit floats, and all halves with every table", "[reduce]") {
  for (const ReduceTable* table : test::runnable_tables()) {
    INFO(table->isa);
    for (DataType type : {DataType::float8e4m3, DataType::float8e5m2}) {
      std::vector<uint8_t> a(65536), b(65536), got(65536), right(65536);
      for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<uint8_t>(i), b[i] = static_cast<uint8_t>(i >> 8);
      const void* src[] = {a.data(), b.data()};
      for (ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::max, ReduceOp::min}) {
        test::function_of(*table, type, op)(got.data(), src, 2, a.size(), {});
        test::function_of(scalar_table, type, op)(right.data(), src, 2, a.size(), {});
        CHECK(got == right);
      }
    }
    for (DataType type : {DataType::float16, DataType::bfloat16}) {
      std::vector<uint16_t> a(65536), got(65536), right(65536);
      for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<uint16_t>(i);
      const void* src[] = {a.data()};
      const Scale third{.divisor = 3};  // gives every pattern of dropped bits
      test::function_of(*table, type, ReduceOp::avg)(got.data(), src, 1, a.size(), third);
      test::function_of(scalar_table, type, ReduceOp::avg)(right.data(), src, 1, a.size(), third);
      CHECK(got == right);
    }
  }
}

}  // namespace ronde
