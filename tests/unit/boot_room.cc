// What a made bootstrap does: messages, split, shrink, and how its failures reach everybody.
#include <atomic>
#include <cstring>
#include <numeric>

#include "support/catch.h"
#include "unit/boot_ranks.h"

using namespace ronde;
using namespace ronde::test;

namespace {

using Texts = std::vector<std::string>;

Path any_path() { return GENERATE(Path::in_process, Path::unix_socket, Path::tcp, Path::mixed); }

template <class T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

/// An all-gather with parts of another size than the others'.
Result<> gather_wrongly(Bootstrap& boot) {
  std::vector<std::byte> all(static_cast<size_t>(boot.size()) * 24);
  return boot.all_gather(all);
}

}  // namespace

TEST_CASE("messages arrive whole, in order by pair and tag, between any two ranks", "[boot]") {
  const Path path = any_path();
  const int n = 5;
  std::atomic<int> good{0};
  CHECK(run_ranks(n, path, [&](Bootstrap& boot) {
          const int me = boot.rank();
          bool right = true;
          for (int peer = 0; peer < n; ++peer) {  // to oneself as well
            for (uint32_t tag = 0; tag < 3; ++tag) {
              for (int i = 0; i < 4; ++i) {
                const std::array<int, 4> message{me, peer, static_cast<int>(tag), i};
                right &= boot.send(peer, tag, std::as_bytes(std::span(message))).ok();
              }
            }
          }
          for (int peer = n - 1; peer >= 0; --peer) {
            for (uint32_t tag = 3; tag-- > 0;) {
              for (int i = 0; i < 4; ++i) {
                std::array<int, 4> message{};
                right &= boot.recv(peer, tag, std::as_writable_bytes(std::span(message))).ok();
                right &= message == std::array<int, 4>{peer, me, static_cast<int>(tag), i};
              }
            }
          }
          good += right;
        }) == Texts{});
  CHECK(good == n);
}

TEST_CASE("large and empty messages pass, both ways at once", "[boot]") {
  const Path path = any_path();
  std::atomic<int> good{0};
  CHECK(run_ranks(4, path, [&](Bootstrap& boot) {
          std::vector<uint32_t> out(3 << 20), in(3 << 20);
          std::iota(out.begin(), out.end(), static_cast<uint32_t>(boot.rank()));
          const int to = (boot.rank() + 1) % 4, from = (boot.rank() + 3) % 4;
          bool right = boot.send(to, 1, {}).ok() && boot.send(to, 1, std::as_bytes(std::span(out))).ok();
          right = right && boot.recv(from, 1, {}).ok() && boot.recv(from, 1, std::as_writable_bytes(std::span(in))).ok();
          std::iota(out.begin(), out.end(), static_cast<uint32_t>(from));
          good += right && in == out;
        }) == Texts{});
  CHECK(good == 4);
}

TEST_CASE("a message of another size is an error that names both", "[boot]") {
  Findings findings;
  CHECK(run_ranks(2, Path::in_process, [&](Bootstrap& boot) {
          uint64_t value = 0;
          if (boot.rank() == 0) {
            findings.expect(boot.send(1, 0, bytes_of(value)).ok(), "send");
          } else {
            const Result<> got = boot.recv(0, 0, bytes_of(value).first(4));
            findings.expect_error(got, Code::invalid_usage, "expected 4 bytes from rank 0");
            findings.expect_error(got, Code::invalid_usage, "sent 8");
          }
          findings.expect_error(boot.send(2, 0, bytes_of(value)), Code::invalid_argument, "no rank 2 among 2 ranks");
          findings.expect_error(boot.recv(-1, 0, bytes_of(value)), Code::invalid_argument, "no rank -1 among 2 ranks");
          (void)boot.barrier();
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
  CHECK(run_ranks(2, path, [&](Bootstrap& boot) {
          uint64_t value = 0;
          if (boot.rank() == 0) {
            boot.set_deadline(Deadline::in(0.2));
            findings.expect_error(boot.recv(1, 0, bytes_of(value)), Code::remote_error, "for rank 1");
            AbortWord abort;
            boot.set_abort(&abort);
            boot.set_deadline(Deadline::never());
            std::thread other([&] { abort.raise(); });
            const uint64_t begin = now_ns();
            findings.expect_error(boot.recv(1, 0, bytes_of(value)), Code::remote_error, "aborted while rank 0 waited for rank 1");
            findings.expect(now_ns() - begin < kSecond / 2, "the abort took long");
            other.join();
            boot.set_abort(nullptr);
          }
          findings.expect(boot.barrier().ok(), "neither has done harm to the room");
        }) == Texts{});
  CHECK(findings.wrong() == Texts{});
}
