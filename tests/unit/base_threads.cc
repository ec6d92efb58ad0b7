// Bells, threads, descriptors, results.
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/abort.h"
#include "base/bell.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/result.h"
#include "base/thread.h"
#include "support/catch.h"

using namespace ronde;
using namespace ronde::test;

namespace {

/// Waits on `bell` until `ready`; false if a single sleep lasted its ten seconds: a wake-up was lost.
bool await(Bell& bell, const std::function<bool()>& ready) {
  while (true) {
    if (ready()) return true;
    const uint32_t prepared = prepare(bell);
    if (ready()) {
      cancel(bell);
      return true;
    }
    if (!sleep(bell, prepared, 10 * kSecond)) return ready();
  }
}

Result<int> halves(int value) {
  if (value % 2 != 0) return fail(Code::invalid_argument, "odd");
  return value / 2;
}

Result<int> quarters(int value) {
  RONDE_TRY(const int half, halves(value));
  RONDE_TRY(halves(half));
  return half / 2;
}

}  // namespace

TEST_CASE("a Bell loses no wake-up between two threads that answer each other", "[base]") {
  Bell bells[2];
  std::atomic<int> turn{0};
  const int rounds = 20000;
  std::atomic<int> lost{0};
  std::vector<std::thread> threads;
  for (int me = 0; me < 2; ++me) {
    threads.emplace_back([&, me] {
      for (int i = 0; i < rounds && lost == 0; ++i) {
        if (!await(bells[me], [&] { return turn.load() % 2 == me || lost != 0; })) ++lost;
        turn.fetch_add(1);
        ring(bells[1 - me]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(lost == 0);
  CHECK(turn == 2 * rounds);
}

TEST_CASE("a Bell that many ring loses no wake-up under load", "[base]") {
  Bell bell;
  std::atomic<int> rung{0};
  const int ringers = 4, each = 5000;
  std::atomic<bool> stop{false};
  std::thread load([&] {
    while (!stop) continue;
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < ringers; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < each; ++k) {
        rung.fetch_add(1);
        ring(bell);
        if (k % 64 == 0) std::this_thread::yield();
      }
    });
  }
  bool all = true;
  for (int seen = 0; seen < ringers * each && all;) {
    all = await(bell, [&] { return rung.load() > seen; });
    seen = rung.load();
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  load.join();
  CHECK(all);
}

TEST_CASE("a sleep on a Bell ends after its time, and at once if rung since it was prepared", "[base]") {
  Bell bell;
  const uint32_t prepared = prepare(bell);
  CHECK_FALSE(sleep(bell, prepared, 2 * kMillisecond));
  CHECK(bell.sleeping == 0);
  const uint32_t again = prepare(bell);
  ring(bell);
  const uint64_t start = now_ns();
  CHECK(sleep(bell, again, 10 * kSecond));
  CHECK(now_ns() - start < kSecond);
  prepare(bell);
  cancel(bell);
  const uint32_t word = bell.word;
  ring(bell);
  CHECK(bell.word == word);  // nobody sleeps: a ring costs nothing
}

TEST_CASE("a Bell works between processes", "[base]") {
  struct Shared {
    Bell bell;
    std::atomic<int> value{0};
  };
  UniqueFd memory = *make_memfd("bell-test", sizeof(Shared));
  const Mapping mapping = *Mapping::shared(memory.get(), sizeof(Shared));
  auto* shared = new (mapping.data()) Shared;
  const pid_t child = fork();
  if (child == 0) {
    shared->value.store(1);
    ring(shared->bell);
    _exit(0);
  }
  CHECK(await(shared->bell, [&] { return shared->value.load() == 1; }));
  waitpid(child, nullptr, 0);
}

TEST_CASE("our threads block every signal, and the starter's mask stays as it was", "[base]") {
  sigset_t before, after, inside;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  auto thread = start_thread("a-name-longer-than-fifteen", [&] { pthread_sigmask(SIG_SETMASK, nullptr, &inside); });
  REQUIRE(thread.ok());
  thread->join();
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int number = 1; number < SIGRTMAX; ++number) {
    CHECK(sigismember(&before, number) == sigismember(&after, number));
    if (number == SIGKILL || number == SIGSTOP || (number > SIGSYS && number < SIGRTMIN)) continue;
    INFO(number);
    CHECK(sigismember(&inside, number) == 1);
  }
}

TEST_CASE("a thread that cannot be started for want of memory leaves the starter's mask as it was", "[base]") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  RONDE_SKIP("the sanitizers need address space themselves");
#endif
  const pid_t child = fork();
  if (child == 0) {
    const int counted = own_threads();
    const rlimit none{1, 1};
    setrlimit(RLIMIT_AS, &none);
    // What the heap still has is taken, down to the smallest block.
    for (size_t size = 1 << 20; size >= 16; size /= 2) {
      void* volatile taken = nullptr;  // volatile: else the compiler may leave the loop out
      do taken = malloc(size);
      while (taken != nullptr);
    }
    bool started = true;
    try {
      started = start_thread("none", [] {}).ok();
    } catch (const std::bad_alloc&) {  // not even the error's text had room
      started = false;
    }
    sigset_t after;
    pthread_sigmask(SIG_SETMASK, nullptr, &after);
    _exit(started ? 1 : sigismember(&after, SIGUSR1) == 1 ? 2 : own_threads() != counted ? 3 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("threads have names and are counted", "[base]") {
  const int before = own_threads();
  char name[32] = "";
  int during = 0;
  auto thread = start_thread("a-name-longer-than-fifteen", [&] { during = own_threads(); });
  REQUIRE(thread.ok());
  thread->join();
  CHECK(during == before + 1);
  CHECK(own_threads() == before);
  // The name is given by the starter, so a thread that waits for it can read it.
  std::atomic<bool> named{false};
  auto second = start_thread("a-name-longer-than-fifteen", [&] {
    while (!named) std::this_thread::yield();
    pthread_getname_np(pthread_self(), name, sizeof name);
  });
  REQUIRE(second.ok());
  named = true;
  second->join();
  CHECK(std::string(name) == "a-name-longer-t");
}

TEST_CASE("a child of fork knows that it is one", "[base]") {
  watch_forks();
  watch_forks();
  CHECK_FALSE(forked());
  const pid_t child = fork();
  if (child == 0) _exit(forked() ? 7 : 8);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WEXITSTATUS(status) == 7);
  CHECK_FALSE(forked());
}

TEST_CASE("descriptors close themselves, once", "[base]") {
  const auto is_open = [](int fd) { return fcntl(fd, F_GETFD) >= 0; };
  UniqueFd first(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int number = first.get();
  UniqueFd second(std::move(first));
  CHECK_FALSE(first);
  CHECK((second && is_open(number)));
  second = UniqueFd();
  CHECK_FALSE(is_open(number));
  UniqueFd third(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int kept = third.release();
  third.reset();
  CHECK(is_open(kept));
  close(kept);
}

TEST_CASE("descriptors in use are counted, and when all are, that is said", "[base]") {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit few{20, 20};
    setrlimit(RLIMIT_NOFILE, &few);
    const int used = 1 + open("/dev/null", O_RDONLY | O_CLOEXEC);  // the lowest free number
    for (int fd = used; fd < 4096; ++fd) close(fd);                // beyond it there may be more
    if (descriptor_use() != std::to_string(used) + " of 20 descriptors in use") _exit(1);
    while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0) continue;
    errno = EMFILE;
    const bool right = descriptor_use() == "all 20 descriptors in use" && errno == EMFILE;
    const Result<UniqueFd> refused = make_memfd("one-more", 4096);
    _exit(!right ? 2 : !refused.ok() && contains(refused.error().what, "all 20 descriptors in use") ? 0 : 3);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("shared memory cannot be shrunk under those who mapped it", "[base]") {
  const UniqueFd fd = *make_memfd("seal-test", 8192);
  CHECK(ftruncate(fd.get(), 4096) != 0);
  CHECK(errno == EPERM);
  CHECK((fcntl(fd.get(), F_GETFD) & FD_CLOEXEC) != 0);
  const Mapping mapping = *Mapping::shared(fd.get(), 8192);
  REQUIRE(commit_pages(mapping.data() + 100, 5000).ok());
  mapping.data()[8191] = std::byte{1};
}

TEST_CASE("random bytes differ", "[base]") {
  std::array<std::byte, 64> a{}, b{};
  REQUIRE((fill_random(a).ok() && fill_random(b).ok()));
  CHECK(a != b);
}

TEST_CASE("deadlines", "[base]") {
  CHECK_FALSE(Deadline::in(0).bounded());
  CHECK_FALSE(Deadline::never().passed());
  CHECK(Deadline::never().left_ms(50) == 50);
  CHECK(Deadline::in(3600).left_ms(50) == 50);
  const Deadline soon = Deadline::in(0.000001);
  const uint64_t start = now_ns();
  while (now_ns() - start < kMillisecond) continue;
  CHECK(soon.passed());
  CHECK(soon.left_ms(50) == 0);
  CHECK((Deadline::in(0.0205).left_ms(50) > 1 && Deadline::in(0.0205).left_ms(50) <= 21));  // rounded up, so that no wait spins
}

TEST_CASE("results carry a value or an error through RONDE_TRY", "[base]") {
  CHECK(*quarters(12) == 3);
  CHECK(quarters(6).code() == Code::invalid_argument);
  CHECK(quarters(7).error().what == "odd");
  CHECK(std::string(quarters(7).error().where.file).find("base_threads.cc") != std::string::npos);
  const Error error = system_failure(ENOENT, "opening x", "make it", Scope::process);
  CHECK(error.code == Code::system_error);
  CHECK(error.scope == Scope::process);
  CHECK(error.what == "opening x: No such file or directory (errno 2); make it");
}

TEST_CASE("FNV-1a gives the values of its specification", "[base]") {
  CHECK(fnv1a("") == 0xcbf29ce484222325u);
  CHECK(fnv1a("a") == 0xaf63dc4c8601ec8cu);
  CHECK(fnv1a("foobar") == 0x85944171f73967e8u);
  CHECK(fnv1a_u64(0x61, fnv1a("")) == fnv1a(std::string("a\0\0\0\0\0\0\0", 8)));
}
