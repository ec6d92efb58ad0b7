// The Fabric between real processes: who dies, who leaves, who forks.
#include <sys/prctl.h>
#include <unistd.h>
#include <csignal>
#include <cstdio>

#include <fmt/core.h>

#include "base/clock.h"
#include "proc/fabric_roles.h"
#include "support/catch.h"

using namespace ronde;
using namespace ronde::test;

namespace {

// Watches deaths: answers "die N" with what was told of N, "exchange" by the data, "count" by the number of deaths.
int role_watch(Child& child) {
  static Deaths deaths;
  auto made = make(*child.bootstraps[0], &deaths);
  if (!made) return report(child, made.error().what);
  static Fabric* fabric = made->release();  // some ways out of here do not destroy it: that must be harmless
  auto lease = lease_bell();
  fabric->control(child.rank).bell.store(lease->index());
  child.say("ready");
  for (;;) {
    const std::string line = child.hear();
    int rank = 0;
    if (sscanf(line.c_str(), "death %d", &rank) == 1) {
      // Asleep on its Bell, as in a call: the monitor must wake it.
      const bool woken = await(*lease, [&] { return !fabric->alive(rank); });
      child.say((woken ? "" : "not woken: ") + deaths.await(rank));
    } else if (sscanf(line.c_str(), "gone %d", &rank) == 1) {
      child.say(await(*lease, [&] { return !fabric->alive(rank); }) ? "gone" : "still there");
    } else if (line == "count") {
      child.say(std::to_string(deaths.count()));
    } else if (line == "fork") {
      const pid_t pid = fork();
      if (pid == 0) {
        // A child does what it likes with what it has inherited, and stays.
        auto again = make(*child.bootstraps[0], nullptr);
        const bool refused = !again && again.code() == Code::invalid_usage;
        fabric->close();
        fabric->revoke_loans();
        delete fabric;
        child.say(refused ? fmt::format("forked {}", getpid()) : "not refused");
        prctl(PR_SET_PDEATHSIG, 0);
        for (;;) pause();
      }
    } else if (line == "close") {
      fabric->close();
      child.say("closed");
    } else if (line == "leave") {
      delete fabric;
      return 0;
    } else {
      return line == "exit" ? 7 : 8;  // without destroying anything
    }
  }
}
const RegisterRole r1("watch", role_watch);

// A bootstrap whose process dies at its n-th exchange.
class Dying final : public Bootstrap {
 public:
  Dying(Bootstrap& inner, int at) : inner_(inner), left_(at) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::array<uint64_t, 2> token() const override { return inner_.token(); }
  Result<> all_gather(std::span<std::byte> all) override {
    if (left_-- == 0) kill(getpid(), SIGKILL);
    return inner_.all_gather(all);
  }
  Result<std::vector<std::vector<std::byte>>> all_gather_parts(std::vector<std::byte> mine) override {
    return inner_.all_gather_parts(std::move(mine));
  }
  ChildJob split(int color, int key, const AbortWord* abort, std::function<bool()> stopped) override {
    return inner_.split(color, key, abort, std::move(stopped));
  }
  ChildJob shrink(std::span<const int> survivors, const AbortWord* abort) override { return inner_.shrink(survivors, abort); }
  void set_deadline(std::optional<Deadline> deadline) override { inner_.set_deadline(deadline); }
  std::string describe() const override { return inner_.describe(); }
  void listen_posts(OnPost on_post, OnGone on_gone) override { inner_.listen_posts(std::move(on_post), std::move(on_gone)); }
  Result<> post(int peer, std::span<const std::byte> message) override { return inner_.post(peer, message); }

 private:
  Bootstrap& inner_;
  int left_;
};

int role_dies_in_init(Child& child) {
  Dying dying(*child.bootstraps[0], std::stoi(child.argument));
  auto fabric = make(child.rank == 1 ? static_cast<Bootstrap&>(dying) : *child.bootstraps[0], nullptr);
  child.say(fabric ? "made" : "error");
  return 0;
}
const RegisterRole r2("dies-in-init", role_dies_in_init);

}  // namespace

TEST_CASE("a killed process is named to all survivors at once; a stopped one is not dead", "[fabric]") {
  Children children({.role = "watch", .ranks = 4});
  for (int rank = 0; rank < 4; ++rank) REQUIRE(children.hear(rank) == "ready");
  children.signal(1, SIGSTOP);
  for (const int rank : {0, 3}) children.say(rank, "death 2");
  const uint64_t start = now_ns();
  children.signal(2, SIGKILL);
  for (const int rank : {0, 3}) {
    REQUIRE(contains(children.hear(rank), fmt::format("rank 2 (pid {}) ended", children.pid(2))));
  }
  REQUIRE(now_ns() - start < kSecond);
  for (const int rank : {0, 3}) {
    children.say(rank, "count");
    REQUIRE(children.hear(rank) == "1");
  }
  children.signal(1, SIGCONT);
  children.say(1, "death 2");
  REQUIRE(contains(children.hear(1), "rank 2"));
}

TEST_CASE("who leaves in order is no death, who ends without is", "[fabric]") {
  Children children({.role = "watch", .ranks = 5, .self = true});
  Deaths deaths;
  auto fabric = make(children.own_bootstrap(), &deaths);
  REQUIRE(fabric);
  for (int rank = 1; rank < 5; ++rank) REQUIRE(children.hear(rank) == "ready");
  children.say(1, "leave");
  REQUIRE(children.wait(1) == "exited 0");
  children.say(2, "close");
  REQUIRE(children.hear(2) == "closed");
  children.signal(2, SIGKILL);
  children.say(4, "gone 1");
  REQUIRE(children.hear(4) == "gone");
  children.say(4, "gone 2");
  REQUIRE(children.hear(4) == "gone");
  // The static objects of a program that never destroys are destroyed under the running monitor.
  children.say(3, "exit");
  REQUIRE(children.wait(3) == "exited 7");
  children.say(4, "death 3");
  REQUIRE(contains(children.hear(4), "rank 3 (pid "));
  children.say(4, "count");
  REQUIRE(children.hear(4) == "1");
  REQUIRE(contains(deaths.await(3), "rank 3"));
  REQUIRE(deaths.order == std::vector<int>{3});
}

TEST_CASE("a parent says with which code its child has exited", "[fabric]") {
  Children children({.role = "watch", .ranks = 2, .self = true});
  Deaths deaths;
  auto fabric = make(children.own_bootstrap(), &deaths);
  REQUIRE(fabric);
  REQUIRE(children.hear(1) == "ready");
  children.say(1, "exit");
  INFO(deaths.await(1));
  REQUIRE(contains(deaths.await(1), "exited with code 7"));
  REQUIRE(contains(deaths.await(1), "rank 1 (pid"));
  REQUIRE_FALSE((*fabric)->alive(1));
}

TEST_CASE("a forked child hides no death and harms nobody", "[fabric]") {
  Children children({.role = "watch", .ranks = 3});
  for (int rank = 0; rank < 3; ++rank) REQUIRE(children.hear(rank) == "ready");
  children.say(1, "fork");
  const std::string line = children.hear(1);
  INFO(line);
  int grandchild = 0;
  REQUIRE(sscanf(line.c_str(), "forked %d", &grandchild) == 1);
  // The child has closed, revoked and destroyed its copy: nobody has noticed.
  for (const int rank : {0, 2}) {
    children.say(rank, "count");
    REQUIRE(children.hear(rank) == "0");
    children.say(rank, "death 1");
  }
  const uint64_t start = now_ns();
  children.signal(1, SIGKILL);
  for (const int rank : {0, 2}) REQUIRE(contains(children.hear(rank), "rank 1 (pid "));
  const uint64_t took = now_ns() - start;
  REQUIRE(kill(grandchild, 0) == 0);
  kill(grandchild, SIGKILL);
  REQUIRE(took < kSecond);
}

TEST_CASE("a process that dies while the communicator is made fails it for all, soon", "[fabric]") {
  for (int at = 0; at < 5; ++at) {
    CAPTURE(at);
    Children children({.role = "dies-in-init", .ranks = 3, .argument = std::to_string(at)});
    for (const int rank : {0, 2}) {
      REQUIRE(children.hear(rank) == "error");
      REQUIRE(children.wait(rank) == "exited 0");
    }
  }
}
