// Where a proxy runs, who wakes whom, and how it ends.
#include <fcntl.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <thread>

#include "base/clock.h"
#include "base/fd.h"
#include "base/files.h"
#include "support/catch.h"
#include "support/scratch.h"
#include "transport/death.h"
#include "transport/net/proxy.h"
#include "unit/net_pairs.h"

using namespace ronde;
using topo::CpuMask;

TEST_CASE("a proxy goes to the CPUs near its device, as far as it may", "[net]") {
  const auto allowed = *CpuMask::parse("f0");
  const auto near = [&](const std::string& list) {
    const test::Scratch folder;
    folder.write("local_cpulist", list);
    return net::cpus_near(folder.root(), allowed);
  };
  CHECK(near("0-5\n") == *CpuMask::parse("30"));
  CHECK(near("7") == *CpuMask::parse("80"));
  CHECK(near("0-3\n") == allowed);  // none that it may use
  CHECK(near("\n") == allowed);
  CHECK(near("everywhere\n") == allowed);
  CHECK(net::cpus_near("", allowed) == allowed);
  CHECK(net::cpus_near("/nowhere", allowed) == allowed);
}

namespace {

/// A flow that does what a test says.
struct TestFlow final : net::Flow {
  std::function<Result<bool>()> on_pump = [] { return false; };
  std::function<Result<bool>()> on_arm = [] { return true; };
  std::function<void()> on_broken = [] {};
  UniqueFd event{eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  std::atomic<int> pumps{0}, arms{0}, breaks{0};

  Result<bool> pump() override {
    ++pumps;
    return on_pump();
  }
  bool unfinished() const override { return false; }
  bool settled() const override { return true; }
  std::vector<int> descriptors() const override { return {event.get()}; }
  void signalled() override {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t n = read(event.get(), &count, sizeof count);
  }
  Result<bool> arm() override {
    ++arms;
    return on_arm();
  }
  void broken(Error) override {
    ++breaks;
    on_broken();
  }
  void signal() {
    const uint64_t one = 1;
    REQUIRE(write(event.get(), &one, sizeof one) == sizeof one);
  }
};

Error breakage() { return fail(Code::remote_error, "as ordered by a test"); }

}  // namespace

TEST_CASE("a flow that breaks is told once and not touched again, wherever it breaks", "[net]") {
  const auto proxy = *net::Proxy::of("test:breaks", "");
  const auto flow = std::make_shared<TestFlow>();
  std::atomic<int> pumps{-1};
  flow->on_broken = [&] { pumps = flow->pumps.load(); };
  SECTION("while it is pumped") { flow->on_pump = []() -> Result<bool> { return breakage(); }; }
  SECTION("while it is armed") { flow->on_arm = []() -> Result<bool> { return breakage(); }; }
  proxy->add(flow);
  REQUIRE(test::until([&] { return pumps >= 0; }));
  const auto other = std::make_shared<TestFlow>();
  proxy->add(other);
  REQUIRE(test::until([&] { return other->arms > 2 || (proxy->take_over(), false); }));  // passes enough
  CHECK(flow->breaks == 1);
  CHECK(flow->pumps == pumps);
  proxy->remove(other);
}

TEST_CASE("a proxy may be let go of by its own thread", "[net]") {
  for (int round = 0; round < 20; ++round) {
    auto proxy = *net::Proxy::of("test:orphan", "");
    const std::weak_ptr<net::Proxy> watched = proxy;
    const auto flow = std::make_shared<TestFlow>();
    std::atomic<bool> go{false};
    flow->on_pump = [&]() -> Result<bool> {
      if (go) return breakage();
      return false;
    };
    flow->on_broken = [&] { proxy.reset(); };
    proxy->add(flow);
    go = true;
    flow->signal();
    REQUIRE(test::until([&] { return watched.expired(); }));
    REQUIRE(test::until([&] { return flow.use_count() == 1; }));  // the thread has nothing of ours any more
  }
}

TEST_CASE("a helper says that another thread is inside, whose pass may miss what it wants", "[net]") {
  const auto proxy = *net::Proxy::of("test:busy", "");
  const auto flow = std::make_shared<TestFlow>();
  std::atomic<bool> inside{false}, leave{false};
  flow->on_pump = [&]() -> Result<bool> {
    inside = true;
    while (!leave) std::this_thread::yield();
    return false;
  };
  proxy->add(flow);
  REQUIRE(test::until([&] { return inside.load(); }));
  CHECK(proxy->help() == net::Proxy::Help::busy);
  leave = true;
  CHECK(test::until([&] { return proxy->help() == net::Proxy::Help::still; }));
  proxy->remove(flow);
}

namespace {

/// A flow that says it has work only where it was armed, once, as completion queues do; or never says it.
struct OneShot final : net::Flow {
  std::atomic<int> work{0}, arms{0};
  std::atomic<bool> armed{false};
  std::atomic<pid_t> thread{0};  // that armed it
  UniqueFd in, out;  // of a pipe: that of an eventfd that is read becomes writable, which is news of its own

  OneShot() {
    int ends[2];
    REQUIRE(pipe2(ends, O_NONBLOCK | O_CLOEXEC) == 0);
    out = UniqueFd(ends[0]);
    in = UniqueFd(ends[1]);
  }
  Result<bool> pump() override { return work.exchange(0) != 0; }
  bool unfinished() const override { return false; }
  bool settled() const override { return true; }
  std::vector<int> descriptors() const override { return {out.get()}; }
  void signalled() override {
    char news = 0;
    [[maybe_unused]] const ssize_t n = read(out.get(), &news, 1);
  }
  Result<bool> arm() override {
    armed = true;
    thread = gettid();
    ++arms;
    return work == 0;
  }
  void broken(Error) override {}
  void give() {
    work = 1;
    if (armed.exchange(false)) REQUIRE(write(in.get(), "", 1) == 1);
  }
};

bool sleeps(pid_t thread) {
  constexpr size_t kMost = 4096;
  const Result<std::string> text = read_file("/proc/self/task/" + std::to_string(thread) + "/stat", kMost);
  return text.ok() && test::contains(*text, ") S ");
}

}  // namespace

TEST_CASE("what a helper takes of the descriptors' news is armed anew by the thread", "[net]") {
  const auto proxy = *net::Proxy::of("test:arm", "");
  const auto flow = std::make_shared<OneShot>();
  proxy->add(flow);
  REQUIRE(test::until([&] { return flow->thread != 0; }));
  const sched_param none{};
  REQUIRE(sched_setscheduler(flow->thread, SCHED_BATCH, &none) == 0);  // when it is woken it does not take the CPU from the helper
  for (int round = 0; round < 50; ++round) {
    const int arms = flow->arms;
    proxy->take_over();
    REQUIRE(test::until([&] { return flow->arms > arms && sleeps(flow->thread); }));
    flow->give();
    while (proxy->help() == net::Proxy::Help::busy) continue;  // as a rule before the thread is awake
    REQUIRE(test::until([&] { return flow->work == 0; }));
    flow->give();  // and now nobody helps
    REQUIRE(test::until([&] { return flow->work == 0; }));
  }
  proxy->remove(flow);
}

TEST_CASE("who stops to help has the thread look at once", "[net]") {
  const auto proxy = *net::Proxy::of("test:over", "");
  const auto flow = std::make_shared<OneShot>();
  proxy->add(flow);
  for (int round = 0; round < 40; ++round) {
    const int arms = flow->arms;
    if (round % 2 == 0) proxy->help();
    proxy->take_over();
    REQUIRE(test::until([&] { return flow->arms > arms; }));  // asleep, or about to be
    flow->work = 1;  // nothing shows it
    proxy->take_over();
    REQUIRE(test::until([&] { return flow->work == 0; }));
  }
  proxy->remove(flow);
}

TEST_CASE("whoever waits for a death watch's callbacks waits for all of them", "[net]") {
  std::atomic<int> inside{0};
  std::atomic<bool> leave_first{false}, leave_second{false}, cancelled{false};
  DeathWatch watch([&](int rank, const std::string&) {
    ++inside;
    while (!(rank == 1 ? leave_first : leave_second)) std::this_thread::yield();
    --inside;
  });
  std::thread first([&] { watch.tell(1, "of a test"); });
  std::thread second([&] { watch.tell(2, "of a test"); });
  const bool both = test::until([&] { return inside == 2; });
  std::thread cancel([&] {
    watch.cancel();
    cancelled = true;
  });
  leave_second = true;
  second.join();
  const uint64_t later = now_ns() + 20 * kMillisecond;
  test::until([&] { return now_ns() > later; });
  const bool early = cancelled;
  leave_first = true;
  first.join();
  cancel.join();
  CHECK(both);
  CHECK_FALSE(early);
  CHECK(inside == 0);
}
