// The Fabric between real processes: data, loans, descriptors.
#include <dirent.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <csignal>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include <fmt/core.h>

#include "base/clock.h"
#include "base/thread.h"
#include "proc/fabric_roles.h"
#include "support/catch.h"

using namespace ronde;
using namespace ronde::test;

namespace {

int open_descriptors() {
  int count = 0;
  DIR* dir = opendir("/proc/self/fd");
  while (readdir(dir) != nullptr) ++count;
  closedir(dir);
  return count - 3;
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
