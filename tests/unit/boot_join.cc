// Joining: every way in, every number of ranks.
#include <atomic>
#include <mutex>

#include "base/fd.h"
#include "support/catch.h"
#include "unit/boot_ranks.h"

using namespace ronde;
using namespace ronde::test;

TEST_CASE("ranks of one process join, gather and leave nothing behind", "[boot]") {
  const int n = GENERATE(1, 2, 3, 5, 8, 16, 64);
  CAPTURE(n);
  const int descriptors = open_descriptors();
  const int threads = process_threads();
  std::atomic<int> good{0};
  std::atomic<int> most_descriptors{0};
  const uint64_t start = now_ns();
  const auto errors = run_ranks(n, Path::in_process, [&](Bootstrap& boot) {
    if (gathers(boot) && gathers(boot)) ++good;
    if (boot.describe() != "in process") good = -1000;
    int seen = most_descriptors;
    for (const int now = open_descriptors(); now > seen && !most_descriptors.compare_exchange_weak(seen, now);) continue;
  });
  const double seconds = static_cast<double>(now_ns() - start) / 1e9;
  CHECK(errors == std::vector<std::string>{});
  CHECK(good == n);
  CHECK(seconds < 5);
  CHECK(most_descriptors < descriptors + 80);  // each thread that counts has /proc open itself
  CHECK(settled(open_descriptors, descriptors) == descriptors);
  CHECK(settled(process_threads, threads) == threads);
}

TEST_CASE("ranks of different processes join over unix sockets", "[boot]") {
  const int n = GENERATE(2, 3, 5, 8, 16);
  CAPTURE(n);
  std::atomic<int> good{0};
  const auto errors = run_ranks(n, Path::unix_socket, [&](Bootstrap& boot) {
    if (gathers(boot) && boot.describe() == "unix socket" && gathers(boot)) ++good;
  });
  CHECK(errors == std::vector<std::string>{});
  CHECK(good == n);
}

TEST_CASE("ranks of different hosts join over TCP", "[boot]") {
  const int n = GENERATE(2, 3, 5, 8, 16);
  const std::string family = GENERATE(std::string("any"), std::string("AF_INET"), std::string("AF_INET6"));
  CAPTURE(n, family);
  std::atomic<int> good{0};
  const auto errors = run_ranks(n, Path::tcp,
                                [&](Bootstrap& boot) {
                                  if (gathers(boot) && boot.describe() == "TCP over lo" && gathers(boot)) ++good;
                                },
                                {{"RONDE_SOCKET_FAMILY", family}});
  CHECK(errors == std::vector<std::string>{});
  CHECK(good == n);
}
