// What a made bootstrap does: all-gather, split, shrink, and how its failures reach everybody.
#include <array>
#include <atomic>
#include <numeric>

#include "support/catch.h"
#include "unit/boot_ranks.h"

using namespace ronde;
using namespace ronde::test;

namespace {

using Texts = std::vector<std::string>;

Path any_path() { return GENERATE(Path::in_process, Path::unix_socket, Path::tcp, Path::mixed); }

/// An all-gather with parts of another size than the others'.
Result<> gather_wrongly(Bootstrap& boot) {
  std::vector<std::byte> all(static_cast<size_t>(boot.size()) * 24);
  return boot.all_gather(all);
}

}  // namespace

TEST_CASE("all-gathers follow each other with parts of any size", "[boot]") {
  const Path path = any_path();
  const int n = 5;
  std::atomic<int> good{0};
  CHECK(run_ranks(n, path, [&](Bootstrap& boot) {
          bool right = true;
          for (const size_t part : {1, 0, 1000, 3 << 20, 7}) {  // in elements
            std::vector<uint32_t> all(part * n);
            const auto first = [&](int rank) { return all.begin() + static_cast<ptrdiff_t>(part * static_cast<size_t>(rank)); };
            std::iota(first(boot.rank()), first(boot.rank() + 1), static_cast<uint32_t>(boot.rank()));
            right = right && boot.all_gather(std::as_writable_bytes(std::span(all))).ok();
            for (int rank = 0; rank < n; ++rank) {
              std::vector<uint32_t> want(part);
              std::iota(want.begin(), want.end(), static_cast<uint32_t>(rank));
              right = right && std::equal(want.begin(), want.end(), first(rank));
            }
          }
          good += right;
        }) == Texts{});
  CHECK(good == n);
}

TEST_CASE("parts that cannot be equal are refused", "[boot]") {
  Findings findings;
  CHECK(run_ranks(2, Path::in_process, [&](Bootstrap& boot) {
          std::array<std::byte, 3> three{};
          findings.expect_error(boot.all_gather(three), Code::invalid_argument, "3 bytes over 2 ranks");
        }) == Texts{});
  CHECK(findings.wrong() == Texts{});
}

TEST_CASE("split: colors, keys, no color, and splits of splits", "[boot]") {
  const Path path = any_path();
  const int n = 7;
  std::atomic<int> good{0};
  CHECK(run_ranks(n, path, [&](Bootstrap& boot) {
          const int me = boot.rank();
          // Odd and even, in falling order; rank 6 stays out.
          auto half = boot.split(me == 6 ? -1 : me % 2, -me, nullptr)();
          if (!half.ok()) return;
          if (me == 6) {
            good += *half == nullptr;
          } else {
            bool right = (*half)->size() == 3 && (*half)->rank() == (5 - me) / 2 && gathers(**half);
            right = right && (*half)->token() != boot.token();
            auto again = (*half)->split((*half)->rank() == 0 ? 1 : 0, 0, nullptr)();
            right = right && again.ok() && (*again)->size() == ((*half)->rank() == 0 ? 1 : 2) && gathers(**again);
            good += right && gathers(**half);
          }
          // A second split of the parent is another one.
          auto all = boot.split(0, 0, nullptr)();
          good += all.ok() && (*all)->size() == n && (*all)->rank() == me && gathers(**all) && gathers(boot);
        }) == Texts{});
  CHECK(good == 2 * n);
}

TEST_CASE("a child of split outlives its parent", "[boot]") {
  const Path path = any_path();
  std::array<std::unique_ptr<Bootstrap>, 6> children;
  CHECK(run_ranks(6, path, [&](Bootstrap& boot) {
          auto child = boot.split(boot.rank() % 2, 0, nullptr)();
          if (child.ok()) children[static_cast<size_t>(boot.rank())] = std::move(*child);
        }) == Texts{});
  std::atomic<int> good{0};
  run_threads(6, [&](int i) { good += children[static_cast<size_t>(i)] && gathers(*children[static_cast<size_t>(i)]); });
  CHECK(good == 6);
}

TEST_CASE("splits are matched in the order of the calls, whatever the order of their jobs", "[boot]") {
  const Path path = any_path();
  std::atomic<int> good{0};
  CHECK(run_ranks(4, path, [&](Bootstrap& boot) {
          const int me = boot.rank();
          const ChildJob halves = boot.split(me % 2, 0, nullptr), reversed = boot.split(0, -me, nullptr);
          Result<std::unique_ptr<Bootstrap>> half, all;
          std::thread other([&] { half = halves(); });
          all = reversed();
          other.join();
          good += half.ok() && (*half)->size() == 2 && (*half)->rank() == me / 2 && gathers(**half);
          good += all.ok() && (*all)->size() == 4 && (*all)->rank() == 3 - me && gathers(**all);
          (void)boot.barrier();
        }) == Texts{});
  CHECK(good == 8);
}

TEST_CASE("all ranks that do not come to a split are named, also to those that wait for others", "[boot]") {
  const Path path = GENERATE(Path::tcp, Path::mixed);
  const int n = 7;
  Findings findings;
  std::atomic<int> told{0};
  CHECK(run_ranks(n, path, [&](Bootstrap& boot) {
          const bool comes = boot.rank() != 2 && boot.rank() != 5;
          const ChildJob job = boot.split(0, 0, nullptr);
          if (comes) findings.expect_error(job(), Code::remote_error, "ranks 2, 5 did not come to Split within 1.");
          // The parent and its next split are as they were.
          ++told;
          while (told < n) std::this_thread::yield();
          auto all = boot.split(0, 0, nullptr)();
          findings.expect(all.ok() && gathers(**all) && gathers(boot), "the next split");
        }, {{"RONDE_INIT_TIMEOUT", "1"}}) == Texts{});
  CHECK(findings.wrong() == Texts{});
}

TEST_CASE("a split obeys the abort word of its child", "[boot]") {
  const Path path = any_path();
  Findings findings;
  CHECK(run_ranks(3, path, [&](Bootstrap& boot) {
          AbortWord abort;
          const ChildJob job = boot.split(0, 0, &abort);
          if (boot.rank() == 0) {
            std::thread other([&] { abort.raise(); });
            findings.expect_error(job(), Code::remote_error, "aborted while rank 0 waited");
            other.join();
          } else if (boot.rank() == 1) {
            findings.expect_error(job(), Code::remote_error, "aborted while rank 0 waited");
          }
          findings.expect(boot.barrier().ok(), "the parent");
        }) == Texts{});
  CHECK(findings.wrong() == Texts{});
}

TEST_CASE("parts of unequal size, empty ones too, come to all ranks", "[boot]") {
  const Path path = any_path();
  const int n = 7;
  const auto part_of = [](int rank, int round) {
    // Nothing from some ranks, and from one more than a socket's buffer holds.
    const size_t size = rank % 3 == 0 ? 0 : rank == 5 ? 3000000 : static_cast<size_t>(rank * 10 + round);
    return std::vector<std::byte>(size, static_cast<std::byte>(rank + 16 * round));
  };
  Findings findings;
  CHECK(run_ranks(n, path, [&](Bootstrap& boot) {
          for (int round = 0; round < 3; ++round) {
            const auto parts = boot.all_gather_parts(part_of(boot.rank(), round));
            findings.expect(parts.ok() && parts->size() == n, "all parts");
            for (int rank = 0; parts.ok() && rank < n; ++rank) {
              findings.expect((*parts)[static_cast<size_t>(rank)] == part_of(rank, round), "part of rank " + std::to_string(rank));
            }
            findings.expect(gathers(boot), "equal parts in between");
          }
        }) == Texts{});
  CHECK(findings.wrong() == Texts{});
}

TEST_CASE("ranks that gather parts of any size and equal ones at once are told so", "[boot]") {
  const Path path = any_path();
  Findings findings;
  CHECK(run_ranks(3, path, [&](Bootstrap& boot) {
          Result<> result = boot.barrier();  // nobody is in the init any more; those who are still in here learn it here
          if (result.ok()) {
            if (boot.rank() == 1) {
              const auto parts = boot.all_gather_parts({});
              if (!parts.ok()) result = parts.error();
            } else {
              result = boot.barrier();
            }
          }
          findings.expect_error(result, Code::invalid_usage, "different calls of the bootstrap");
        }) == Texts{});
  CHECK(findings.wrong() == Texts{});
}

TEST_CASE("shrink needs the survivors alone", "[boot]") {
  const Path path = any_path();
  const int n = 6;
  const std::vector<int> survivors{0, 2, 3, 5};
  std::atomic<int> good{0};
  CHECK(run_ranks(n, path, [&](Bootstrap& boot) {
          const auto at = std::find(survivors.begin(), survivors.end(), boot.rank());
          if (at == survivors.end()) return;  // these leave
          for (int round = 0; round < 2; ++round) {
            auto rest = boot.shrink(survivors, nullptr)();
            good += rest.ok() && (*rest)->size() == 4 && (*rest)->rank() == at - survivors.begin() && gathers(**rest);
          }
        }) == Texts{});
  CHECK(good == 2 * 4);
}

TEST_CASE("shrink refuses lists that cannot be", "[boot]") {
  Findings findings;
  CHECK(run_ranks(1, Path::in_process, [&](Bootstrap& boot) {
          for (const std::vector<int>& list : {std::vector<int>{}, {1}, {0, 0}, {0, 1}, {-1, 0}}) {
            findings.expect_error(boot.shrink(list, nullptr)(), Code::invalid_argument, "survivors of a shrink must ascend");
          }
          findings.expect(boot.shrink(std::vector<int>{0}, nullptr)().ok(), "shrink to all");
        }) == Texts{});
  CHECK(findings.wrong() == Texts{});
}

TEST_CASE("ranks in different calls get an error that names them, all of them", "[boot]") {
  const Path path = any_path();
  const int n = 6;
  Findings findings;
  CHECK(run_ranks(n, path, [&](Bootstrap& boot) {
          Result<> result = boot.barrier();  // those who are still in here when it goes wrong learn it here
          if (result.ok()) result = boot.rank() == 4 ? gather_wrongly(boot) : boot.barrier();
          findings.expect_error(result, Code::invalid_usage, "the ranks are in different calls of the bootstrap");
          findings.expect_error(result, Code::invalid_usage, "rank 4");
        }) == Texts{});
  CHECK(findings.wrong() == Texts{});
}

TEST_CASE("a rank that leaves early is named to those that wait for it, and they can shrink", "[boot]") {
  const Path path = any_path();
  const int n = 5;
  const std::vector<int> survivors{0, 1, 3, 4};
  Findings findings;
  std::atomic<int> shrunk{0};
  const uint64_t start = now_ns();
  CHECK(run_ranks(n, path, [&](Bootstrap& boot) {
          Result<> result = boot.barrier();
          if (boot.rank() == 2) return;
          if (result.ok()) result = boot.barrier();
          findings.expect_error(result, Code::remote_error, "rank 2");
          auto rest = boot.shrink(survivors, nullptr)();
          shrunk += rest.ok() && gathers(**rest);
        }) == Texts{});
  CHECK(findings.wrong() == Texts{});
  CHECK(shrunk == n - 1);
  CHECK(now_ns() - start < 4 * kSecond);
}

TEST_CASE("waits end by abort, and by the deadline with the name of the missing rank", "[boot]") {
  const Path path = any_path();
  Findings findings;
  std::atomic<bool> over{false};
  CHECK(run_ranks(2, path, [&](Bootstrap& boot) {
          AbortWord abort;
          auto child = boot.split(0, 0, &abort)();
          findings.expect(child.ok(), "split");
          if (boot.rank() == 0 && child.ok()) {
            boot.set_deadline(Deadline::in(0.2));
            findings.expect_error(boot.barrier(), Code::remote_error, "rank 1 did not come to AllGather within 0.2 s");
            std::thread other([&] { abort.raise(); });
            const uint64_t begin = now_ns();
            findings.expect_error((*child)->barrier(), Code::remote_error, "aborted while rank 0 waited for rank 1");
            findings.expect(now_ns() - begin < kSecond / 2, "the abort took long");
            other.join();
          }
          if (boot.rank() == 0) over = true;
          while (!over) std::this_thread::yield();
          findings.expect_error(boot.barrier(), Code::remote_error, "rank 1 did not come to AllGather");
        }) == Texts{});
  CHECK(findings.wrong() == Texts{});
}
