// The Fabric between real processes: data, deaths, forks, descriptors.
#include <dirent.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include <fmt/core.h>

#include "base/clock.h"
#include "base/thread.h"
#include "support/catch.h"
#include "support/children.h"
#include "support/fabric_world.h"

using namespace ronde;
using namespace ronde::test;

namespace {

// Deaths as on_death tells them, and the Bell of the thread that waits for them.
struct Deaths {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<int, std::string> how;
  std::vector<int> order;

  void tell(int rank, const std::string& text) {
    const std::lock_guard lock(mutex);
    how[rank] = text;
    order.push_back(rank);
    changed.notify_all();
  }
  std::string await(int rank) {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, std::chrono::seconds(30), [&] { return how.count(rank) != 0; });
    return how.count(rank) != 0 ? how[rank] : "(no death)";
  }
  size_t count() {
    const std::lock_guard lock(mutex);
    return order.size();
  }
};

Result<std::unique_ptr<Fabric>> make(Bootstrap& bootstrap, Deaths* deaths,
                                     const std::map<std::string, std::string>& settings = {}) {
  static AbortWord abort;
  FabricRequest request;
  request.bootstrap = &bootstrap;
  request.config = config_of(settings);
  request.abort = &abort;
  if (deaths != nullptr) request.on_death = [deaths](int rank, const std::string& how) { deaths->tell(rank, how); };
  return Fabric::make(std::move(request));
}

int open_descriptors() {
  int count = 0;
  DIR* dir = opendir("/proc/self/fd");
  while (readdir(dir) != nullptr) ++count;
  closedir(dir);
  return count - 3;
}

// Sleeps on `lease` until `done`; false after 30 s.
template <class Done>
bool await(BellLease& lease, Done done) {
  const Deadline deadline = Deadline::in(30);
  while (!done()) {
    if (deadline.passed()) return false;
    const uint32_t prepared = prepare(lease.bell());
    if (done()) {
      cancel(lease.bell());
      return true;
    }
    sleep(lease.bell(), prepared, kSecond);
  }
  return true;
}

uint8_t pattern(int from, int to, uint64_t k) { return static_cast<uint8_t>(from * 31 + to * 7 + static_cast<int>(k)); }

// Every rank sends `count` slots to every rank and checks what comes. Empty, or what went wrong.
std::string exchange(Fabric& fabric, BellLease& lease, uint64_t count) {
  const int n = fabric.size();
  fabric.control(fabric.rank()).bell.store(lease.index());
  std::vector<FifoView> out, in(static_cast<size_t>(n));
  for (int peer = 0; peer < n; ++peer) {
    auto made = fabric.writer(peer, 0);
    if (!made) return made.error().what;
    out.push_back(*made);
    fabric.ring(peer);
  }
  std::vector<uint64_t> sent(static_cast<size_t>(n)), seen(static_cast<size_t>(n));
  const uint64_t base = out[0].header->tail.load();
  const uint64_t total = 2 * count * static_cast<uint64_t>(n);
  std::string wrong;
  for (uint64_t moved = 0; moved < total;) {
    const auto step = [&] {
      uint64_t now = 0;
      for (size_t p = 0; p < static_cast<size_t>(n); ++p) {
        const uint64_t k = base + sent[p];
        if (sent[p] < count && k - out[p].header->head.load() < out[p].slots) {
          std::memset(out[p].data_of(k), pattern(fabric.rank(), static_cast<int>(p), k), out[p].slot_capacity);
          out[p].header->tail.store(k + 1);
          ++sent[p];
          ++now;
          fabric.ring(static_cast<int>(p));
        }
        if (!in[p]) in[p] = fabric.reader(static_cast<int>(p), 0);
        const uint64_t r = base + seen[p];
        if (seen[p] < count && in[p] && in[p].header->tail.load() > r) {
          const auto byte = std::byte{pattern(static_cast<int>(p), fabric.rank(), r)};
          const std::byte* data = in[p].data_of(r);
          for (uint32_t i = 0; i < in[p].slot_capacity; ++i) {
            if (data[i] != byte && wrong.empty()) wrong = fmt::format("from {} slot {} byte {}", p, r, i);
          }
          in[p].header->head.store(r + 1);
          ++seen[p];
          ++now;
          fabric.ring(static_cast<int>(p));
        }
      }
      moved += now;
      return now != 0;
    };
    if (!await(lease, step)) return "no progress";
  }
  return wrong;
}

int report(Child& child, const std::string& text) {
  child.say(text);
  return text == "ok" ? 0 : 1;
}

// ---- roles

int role_exchange(Child& child) {
  auto fabric = make(*child.bootstraps[0], nullptr);
  if (!fabric) return report(child, fabric.error().what);
  auto lease = lease_bell();
  if (!lease) return report(child, lease.error().what);
  for (int peer = 0; peer < child.ranks; ++peer) {
    if ((*fabric)->transport(peer) != (peer == child.rank ? "self" : "shm")) return report(child, (*fabric)->describe(peer));
  }
  const std::string wrong = exchange(**fabric, *lease, 50);
  (*fabric)->close();
  return report(child, wrong.empty() ? "ok" : wrong);
}
const RegisterRole r1("exchange", role_exchange);

// Lends to the test's process (rank 0) by both ways; says the loans.
int role_lender(Child& child) {
  auto fabric = make(*child.bootstraps[0], nullptr);
  if (!fabric) return report(child, fabric.error().what);
  std::vector<uint32_t> data(100000);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint32_t>(i * 3 + 1);
  Loan loan;
  const bool lends = (*fabric)->lend(0, data.data(), data.size() * 4, &loan);
  child.say(fmt::format("{} {}", lends ? 1 : 0, loan.address));
  auto memory = alloc_shareable(400000);
  std::memcpy(*memory, data.data(), 400000);
  const Deadline deadline = Deadline::in(30);
  bool mapped = false;
  while (!mapped && !deadline.passed())
    mapped = (*fabric)->lend(0, static_cast<char*>(*memory) + 4, 4000, &loan) && loan.region != 0;
  child.say(fmt::format("{} {} {}", mapped ? 1 : 0, loan.region, loan.address));
  child.hear();
  return 0;
}
const RegisterRole r2("lender", role_lender);

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
        AbortWord abort;
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
const RegisterRole r3("watch", role_watch);

// Makes and destroys, again and again; as many threads as bootstraps.
int role_cycles(Child& child) {
  std::string wrong;
  std::mutex mutex;
  const auto cycles = static_cast<int>(std::stol(child.argument));
  const auto run = [&](size_t which, int times) {
    for (int i = 0; i < times; ++i) {
      Deaths deaths;
      auto fabric = make(*child.bootstraps[which], &deaths, {{"RONDE_BUFFSIZE", "4096"}});
      std::string trouble = fabric ? "" : fabric.error().what;
      if (fabric) {
        auto lease = lease_bell();
        trouble = exchange(**fabric, *lease, 2);
        fabric->reset();
      }
      if (deaths.count() != 0) trouble = "a death in peace: " + deaths.how.begin()->second;
      const std::lock_guard lock(mutex);
      if (!trouble.empty() && wrong.empty()) wrong = fmt::format("cycle {}: {}", i, trouble);
      if (!wrong.empty()) return;
    }
  };
  for (size_t which = 0; which < child.bootstraps.size(); ++which) run(which, 1);
  const int fds = open_descriptors(), threads = process_threads();
  std::vector<std::thread> all;
  for (size_t which = 0; which < child.bootstraps.size(); ++which) all.emplace_back(run, which, cycles);
  for (std::thread& thread : all) thread.join();
  if (wrong.empty() && open_descriptors() != fds) wrong = fmt::format("{} descriptors became {}", fds, open_descriptors());
  if (wrong.empty() && process_threads() != threads) wrong = fmt::format("{} threads became {}", threads, process_threads());
  if (wrong.empty() && own_threads() != 0) wrong = "own threads are left";
  return report(child, wrong.empty() ? "ok" : wrong);
}
const RegisterRole r4("cycles", role_cycles);

// One rank still holds its end of the communicator before when the next one is made: the link that the other has closed must not
// be used.
int role_overlap(Child& child) {
  auto lease = lease_bell();
  std::string wrong;
  std::unique_ptr<Fabric> kept;
  for (int i = 0; i < 100 && wrong.empty(); ++i) {
    auto fabric = make(*child.bootstraps[0], nullptr);
    wrong = fabric ? exchange(**fabric, *lease, 1) : fabric.error().what;
    if (wrong.empty() && i % 2 == child.rank) kept = std::move(fabric).value();
  }
  return report(child, wrong.empty() ? "ok" : wrong);
}
const RegisterRole r10("overlap", role_overlap);

// All with all, under a limit of 256 descriptors.
int role_many(Child& child) {
  const rlimit limit{256, 256};
  setrlimit(RLIMIT_NOFILE, &limit);
  auto fabric = make(*child.bootstraps[0], nullptr);
  if (!fabric) return report(child, fabric.error().what);
  auto lease = lease_bell();
  const std::string wrong = exchange(**fabric, *lease, 1);
  const int fds = open_descriptors();
  if (fds > child.ranks + 20) return report(child, fmt::format("{} descriptors", fds));
  std::byte all[64] = {};
  if (!child.bootstraps[0]->all_gather(std::span(all, static_cast<size_t>(child.ranks)))) return report(child, "barrier");
  return report(child, wrong.empty() ? "ok" : wrong);
}
const RegisterRole r5("many", role_many);

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
  ChildJob split(int color, int key, const AbortWord* abort, std::function<bool()> stopped) override {
    return inner_.split(color, key, abort, std::move(stopped));
  }
  ChildJob shrink(std::span<const int> survivors, const AbortWord* abort) override { return inner_.shrink(survivors, abort); }
  void set_deadline(std::optional<Deadline> deadline) override { inner_.set_deadline(deadline); }
  std::string describe() const override { return inner_.describe(); }

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
const RegisterRole r6("dies-in-init", role_dies_in_init);

// Forbids this process to use process_vm_readv, as a container's filter may.
bool forbid_vm_readv() {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program{static_cast<unsigned short>(std::size(code)), code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

int role_filtered(Child& child) {
  if (child.rank == 1 && !forbid_vm_readv()) return report(child, "skip");
  auto fabric = make(*child.bootstraps[0], nullptr);
  if (!fabric) return report(child, fabric.error().what);
  std::vector<char> data(100000);
  Loan loan;
  const bool lends = (*fabric)->lend(1 - child.rank, data.data(), data.size(), &loan);
  child.say(fmt::format("{} {}", lends ? "lends" : "does not lend", (*fabric)->describe(1 - child.rank)));
  child.hear();
  return 0;
}
const RegisterRole r7("filtered", role_filtered);

int role_elsewhere(Child& child) {
  if (child.rank == 1 && unshare(CLONE_NEWNET) != 0) {
    child.say("skip");
    return 0;
  }
  auto fabric = make(*child.bootstraps[0], nullptr);
  child.say(fabric ? "made" : fabric.error().what);
  return 0;
}
const RegisterRole r8("elsewhere", role_elsewhere);

int role_short_of_descriptors(Child& child) {
  if (child.rank == 1) {
    const rlimit limit{static_cast<rlim_t>(open_descriptors() + std::stoi(child.argument)), 256};
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  auto fabric = make(*child.bootstraps[0], nullptr);
  child.say(fabric ? "made" : fabric.error().what);
  return 0;
}
const RegisterRole r9("short", role_short_of_descriptors);

void require_all_ok(Children& children, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    CAPTURE(rank);
    REQUIRE(children.hear(rank) == "ok");
    REQUIRE(children.wait(rank) == "exited 0");
  }
}

}  // namespace

TEST_CASE("processes pass slots, all with all", "[fabric]") {
  Children children({.role = "exchange", .ranks = 4});
  require_all_ok(children, 4);
}

TEST_CASE("64 processes connect all with all under 256 descriptors", "[fabric]") {
  Children children({.role = "many", .ranks = 64});
  require_all_ok(children, 64);
}

TEST_CASE("a process lends to another, and what it lends ends with it", "[fabric][loan]") {
  Children children({.role = "lender", .ranks = 2, .self = true});
  Deaths deaths;
  auto fabric = make(children.own_bootstrap(), &deaths);
  INFO((fabric ? std::string() : fabric.error().what));
  REQUIRE(fabric);
  int lends = 0, mapped = 0;
  Loan by_address, by_region;
  REQUIRE(sscanf(children.hear(1).c_str(), "%d %lu", &lends, &by_address.address) == 2);
  REQUIRE(sscanf(children.hear(1).c_str(), "%d %u %lu", &mapped, &by_region.region, &by_region.address) == 3);
  REQUIRE(mapped == 1);
  REQUIRE(by_region.address == 4);
  const auto* seen = reinterpret_cast<const uint32_t*>((*fabric)->reach(1, by_region, 4000));
  REQUIRE(seen != nullptr);
  REQUIRE(seen[0] == 4);
  REQUIRE(seen[999] == 3001);
  std::vector<uint32_t> copy(100000);
  REQUIRE((*fabric)->fetch(1, by_region, copy.data(), 4000));
  REQUIRE(copy[999] == 3001);
  const bool readable = contains((*fabric)->describe(1), "any other");
  if (readable) {
    REQUIRE(lends == 1);
    REQUIRE((*fabric)->fetch(1, by_address, copy.data(), 400000));
    REQUIRE(copy[99999] == 299998);
  }
  children.signal(1, SIGKILL);
  REQUIRE(contains(deaths.await(1), fmt::format("rank 1 (pid {}) was killed by signal 9", children.pid(1))));
  REQUIRE(seen[0] == 4);  // what was mapped stays
  auto gone = (*fabric)->fetch(1, by_region, copy.data(), 4000);
  REQUIRE(gone.code() == Code::remote_error);
  if (readable) REQUIRE_FALSE((*fabric)->fetch(1, by_address, copy.data(), 4));
}

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

TEST_CASE("descriptors and threads return to what they were after many communicators", "[fabric]") {
  Children children({.role = "cycles", .ranks = 2, .argument = "200"});
  require_all_ok(children, 2);
}

TEST_CASE("communicators between the same processes come and go side by side", "[fabric]") {
  Children children({.role = "cycles", .ranks = 3, .argument = "60", .bootstraps = 3});
  require_all_ok(children, 3);
}

TEST_CASE("a link that one side has given up is replaced", "[fabric]") {
  Children children({.role = "overlap", .ranks = 2});
  require_all_ok(children, 2);
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

TEST_CASE("process_vm_readv is used only where the reader has proven that it works", "[fabric][loan]") {
  Children children({.role = "filtered", .ranks = 2});
  const std::string second = children.hear(1);
  if (second == "skip") RONDE_SKIP("no seccomp filters here");
  const std::string first = children.hear(0);
  INFO(first);
  INFO(second);
  REQUIRE(first.rfind("does not lend", 0) == 0);
  REQUIRE(contains(first, "Operation not permitted"));
  if (!contains(second, "any other")) RONDE_SKIP("process_vm_readv is refused here");
  REQUIRE(second.rfind("lends", 0) == 0);
}

TEST_CASE("processes in different network namespaces are told that they cannot meet", "[fabric]") {
  Children children({.role = "elsewhere", .ranks = 2});
  const std::string second = children.hear(1);
  if (second == "skip") RONDE_SKIP("this user may not make network namespaces");
  const std::string first = children.hear(0);
  INFO(first);
  INFO(second);
  REQUIRE(contains(first + second, "network namespace"));
  REQUIRE(contains(first + second, "no network transport yet"));
  for (const std::string& text : {first, second}) {
    REQUIRE(contains(text, "rank 0"));
    REQUIRE(contains(text, "rank 1"));
  }
}

TEST_CASE("too few descriptors are an error that says so, never a hang", "[fabric]") {
#ifdef __SANITIZE_ADDRESS__
  RONDE_SKIP("the sanitizers' checks of virtual tables need descriptors of their own");
#else
  std::set<std::string> kinds;
  for (int more = 0; more < 12; ++more) {
    CAPTURE(more);
    Children children({.role = "short", .ranks = 2, .argument = std::to_string(more)});
    const std::string first = children.hear(0), second = children.hear(1);
    INFO(first);
    INFO(second);
    if (second == "made") {
      REQUIRE(first == "made");
      kinds.insert("made");
      continue;
    }
    kinds.insert("error");
    REQUIRE(first != "made");
    REQUIRE(contains(second, "descriptors"));
  }
  REQUIRE(kinds.size() == 2);
#endif
}
