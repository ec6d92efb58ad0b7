// Joining: every way in, every number of ranks.
#include <atomic>

#include "boot/interfaces.h"
#include "boot/listen.h"
#include "boot/unique_id.h"
#include "support/catch.h"
#include "unit/boot_ranks.h"

using namespace ronde;
using namespace ronde::test;

namespace {

using Texts = std::vector<std::string>;

std::string free_port() { return std::to_string(listen_tcp("any", {})->port); }

}  // namespace

TEST_CASE("ranks of one process join, gather and leave nothing behind", "[boot]") {
  const int n = GENERATE(1, 2, 3, 5, 8, 16, 64);
  CAPTURE(n);
  const int descriptors = open_descriptors();
  const int threads = process_threads();
  std::atomic<int> good{0};
  std::atomic<int> in_process{0};
  std::atomic<int> alive{0};
  std::atomic<int> sockets{-1};
  const auto errors = run_ranks(n, Path::in_process, [&](Bootstrap& boot) {
    if (gathers(boot) && gathers(boot)) ++good;
    if (boot.describe() == "in process") ++in_process;
    // The last to come counts, while all others wait.
    if (++alive == n) sockets = settled(open_descriptors, descriptors);
    if (!boot.barrier().ok()) good = -1000;
  });
  CHECK(errors == Texts{});
  CHECK(good == n);
  CHECK(in_process == n);
  CHECK((sockets >= 0 && sockets <= descriptors));
  CHECK(settled(process_threads, threads) <= threads);
}

TEST_CASE("64 ranks of one process are initialised in less than a second", "[boot]") {
  const uint64_t start = now_ns();
  CHECK(run_ranks(64, Path::in_process, [](Bootstrap&) {}) == Texts{});
  CHECK(now_ns() - start < kSecond);
}

TEST_CASE("ranks of different processes join over unix sockets", "[boot]") {
  const int n = GENERATE(2, 3, 5, 8, 16);
  CAPTURE(n);
  std::atomic<int> good{0};
  const auto errors = run_ranks(n, Path::unix_socket, [&](Bootstrap& boot) {
    if (gathers(boot) && boot.describe() == "unix socket" && gathers(boot)) ++good;
  });
  CHECK(errors == Texts{});
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
  CHECK(errors == Texts{});
  CHECK(good == n);
}

TEST_CASE("without a setting the best interfaces are found and tried", "[boot]") {
  Findings findings;
  const auto body = [&](Bootstrap& boot) {
    const std::string route = boot.describe();  // while all are still here
    findings.expect(contains(route, "TCP over "), route);
    findings.expect(gathers(boot), "wrong data");
  };
  CHECK(run_ranks(4, Path::tcp, body, {{"RONDE_SOCKET_IFNAME", ""}}) == Texts{});
  CHECK(findings.wrong() == Texts{});
}

TEST_CASE("a root that is known by a link-local address alone is found behind the right interface", "[boot]") {
  std::vector<Address> local;
  for (const Interface& one : list_interfaces()) {
    if (one.up && one.address.link_local()) local.push_back(one.address);
  }
  if (local.empty()) RONDE_SKIP("no interface has a link-local IPv6 address");
  const auto id = make_unique_id(*config_of(settings_of(Path::tcp, 0)), hooks_of(Path::tcp, 0));
  IdInfo info = *decode_id(*id);
  local[0].port = info.root.addresses.at(0).port;
  local[0].scope = 0;
  info.root.addresses = {local[0]};
  Findings findings;
  run_threads(2, [&](int rank) {
    Joined joined =
        join({rank, 2, {*encode_id(info)}}, config_of(settings_of(Path::tcp, rank)), nullptr, hooks_of(Path::tcp, rank));
    findings.expect(joined.ok() && gathers(**joined), joined.ok() ? "wrong data" : joined.error().what);
  });
  CHECK(findings.wrong() == Texts{});
}

TEST_CASE("some ranks share a process, others do not", "[boot]") {
  const int n = GENERATE(3, 5, 8);
  CAPTURE(n);
  std::atomic<int> good{0};
  CHECK(run_ranks(n, Path::mixed, [&](Bootstrap& boot) { good += gathers(boot); }) == Texts{});
  CHECK(good == n);
}

TEST_CASE("two hundred communicators leave no descriptor and no thread", "[boot]") {
  const Path path = GENERATE(Path::in_process, Path::unix_socket, Path::tcp);
  const int descriptors = open_descriptors();
  const int threads = process_threads();
  for (int i = 0; i < 200; ++i) REQUIRE(run_ranks(2, path, [](Bootstrap& boot) { (void)boot.barrier(); }) == Texts{});
  CHECK(settled(open_descriptors, descriptors) <= descriptors);
  CHECK(settled(process_threads, threads) <= threads);
}

TEST_CASE("all ranks of a communicator have one token, another communicator another", "[boot]") {
  std::array<std::array<std::array<uint64_t, 2>, 3>, 2> tokens;
  for (auto& round : tokens) {
    CHECK(run_ranks(3, Path::unix_socket, [&](Bootstrap& boot) { round[static_cast<size_t>(boot.rank())] = boot.token(); }) ==
          Texts{});
    CHECK(round[0] == round[1]);
    CHECK(round[0] == round[2]);
  }
  CHECK(tokens[0][0] != tokens[1][0]);
}

TEST_CASE("several unique ids make one communicator", "[boot]") {
  const int n = 6;
  const int threads = process_threads();
  std::vector<UniqueId> ids;
  for (int i = 0; i < 3; ++i) ids.push_back(*make_unique_id(*config_of(), hooks_of(Path::mixed, 2 * i)));
  std::atomic<int> good{0};
  run_threads(n, [&](int rank) {
    Joined joined = join({rank, n, ids}, config_of(), nullptr, hooks_of(Path::mixed, rank));
    if (joined.ok() && gathers(**joined)) ++good;
  });
  CHECK(good == n);
  CHECK(settled(process_threads, threads) <= threads);  // the roots that were not needed have gone too
}

TEST_CASE("a fixed address serves one communicator after the other, its ids made anywhere", "[boot]") {
  const std::string address = GENERATE(std::string("127.0.0.1:"), std::string("[::1]:"), std::string("localhost:")) + free_port();
  CAPTURE(address);
  const int n = 4;
  const auto config = config_of({{"RONDE_COMM_ID", address}, {"RONDE_INIT_TIMEOUT", "10"}});
  Findings findings;
  run_threads(n, [&](int rank) {
    for (int i = 0; i < 3; ++i) {
      const auto id = make_unique_id(*config, hooks_of(Path::mixed, rank));
      Joined joined = join({rank, n, {*id}}, config, nullptr, hooks_of(Path::mixed, rank));
      findings.expect(joined.ok() && gathers(**joined), joined.ok() ? "wrong data" : joined.error().what);
    }
  });
  CHECK(findings.wrong() == Texts{});
}

TEST_CASE("a fixed address that is not of this host is an error", "[boot]") {
  const auto config = config_of({{"RONDE_COMM_ID", "192.0.2.254:1234"}});
  const auto id = make_unique_id(*config);
  REQUIRE(id.ok());
  const Joined joined = join({0, 2, {*id}}, config, nullptr);
  REQUIRE_FALSE(joined.ok());
  INFO(joined.error().what);
  CHECK(contains(joined.error().what, "rank 0 must run on the host that has this address"));
}

TEST_CASE("listening ports lie in the range that was set", "[boot]") {
  const auto port = std::stoi(free_port());
  const int low = port > 60000 ? port - 200 : port;
  std::atomic<int> good{0};
  CHECK(run_ranks(4, Path::tcp, [&](Bootstrap& boot) { good += gathers(boot); },
                  {{"RONDE_PORT_RANGE", std::to_string(low) + "-" + std::to_string(low + 100)}}) == Texts{});
  CHECK(good == 4);
}
