// The bootstrap between real processes: many of them, and some that are killed.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <atomic>
#include <csignal>
#include <cstring>
#include <functional>

#include "support/catch.h"
#include "unit/boot_ranks.h"

using namespace ronde;
using namespace ronde::test;

namespace {

using Texts = std::vector<std::string>;

/// Processes forked by the test, with a line of text from each.
class Crew {
 public:
  explicit Crew(int n) : n_(n) {
    void* at = mmap(nullptr, sizeof(Line) * static_cast<size_t>(n), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    lines_ = static_cast<Line*>(at);
  }
  ~Crew() { munmap(lines_, sizeof(Line) * static_cast<size_t>(n_)); }

  /// Runs body(i) in process i and waits for all; what each returned ("" if it was killed).
  Texts run(const std::function<std::string(int)>& body) {
    std::vector<pid_t> pids;
    for (int i = 0; i < n_; ++i) {
      const pid_t pid = fork();
      REQUIRE(pid >= 0);
      if (pid == 0) {
        alarm(60);
        const std::string text = body(i);
        strncpy(lines_[i].text, text.c_str(), sizeof(Line) - 1);
        _exit(0);
      }
      pids.push_back(pid);
    }
    Texts texts;
    for (int i = 0; i < n_; ++i) {
      waitpid(pids[static_cast<size_t>(i)], nullptr, 0);
      texts.emplace_back(lines_[i].text);
    }
    return texts;
  }

 private:
  struct Line {
    char text[1024];
  };
  const int n_;
  Line* lines_;
};

/// How a crew's ranks find each other: all on this host, or each on a host of its own.
Settings host_of(bool tcp, int rank) {
  return settings_of(tcp ? Path::tcp : Path::in_process, rank, {{"RONDE_INIT_TIMEOUT", "30"}});
}

Joined join_crew(const UniqueId& id, int rank, int n, bool tcp, void (*asked)() = nullptr) {
  JoinHooks hooks;
  hooks.asked = asked;
  return join({rank, n, {id}}, config_of(host_of(tcp, rank)), nullptr, hooks);
}

void die() { kill(getpid(), SIGKILL); }

int asked_pipe[2];

std::string text_of(const Result<>& result) { return result.ok() ? "success" : result.error().what; }

/// An id made by the test itself: its root is no rank's process.
UniqueId id_here(bool tcp) { return *make_unique_id(*config_of(host_of(tcp, -1))); }

}  // namespace

TEST_CASE("thirty-two processes join, with few descriptors each", "[boot][proc]") {
  const bool tcp = GENERATE(false, true);
  const int n = 32;
  CAPTURE(tcp);
  const UniqueId id = id_here(tcp);
  const uint64_t start = now_ns();
  const Texts texts = Crew(n).run([&](int rank) -> std::string {
    const int before = open_descriptors();
    Joined joined = join_crew(id, rank, n, tcp);
    if (!joined.ok()) return joined.error().what;
    if (!gathers(**joined) || !gathers(**joined)) return "wrong data";
    if (open_descriptors() - before > 30) return "too many descriptors: " + std::to_string(open_descriptors() - before);
    auto half = (*joined)->split(rank % 2, 0, nullptr)();
    if (!half.ok() || !gathers(**half)) return "split failed";
    const std::string route = tcp ? "TCP over lo" : "unix socket";
    if ((*joined)->describe() != route) return "went by " + (*joined)->describe();
    if (!(*joined)->barrier().ok()) return "barrier failed";
    joined->reset();
    half->reset();
    if (settled(open_descriptors, before) > before) return "descriptors are left";
    return "good";
  });
  CHECK(texts == Texts(static_cast<size_t>(n), "good"));
  CHECK(now_ns() - start < 10 * kSecond);
}

TEST_CASE("processes that host several ranks each join", "[boot][proc]") {
  const int processes = 4, each = 16, n = processes * each;
  const UniqueId id = id_here(false);
  const Texts texts = Crew(processes).run([&](int process) -> std::string {
    const rlimit limit{100, 100};
    setrlimit(RLIMIT_NOFILE, &limit);
    std::atomic<int> good{0};
    run_threads(each, [&](int i) {
      Joined joined = join_crew(id, process * each + i, n, false);
      if (joined.ok() && gathers(**joined) && (*joined)->barrier().ok()) ++good;
    });
    return std::to_string(good);
  });
  CHECK(texts == Texts(processes, std::to_string(each)));
}

TEST_CASE("64 ranks in a process that may have 256 descriptors", "[boot][proc]") {
  const Texts texts = Crew(1).run([&](int) -> std::string {
    const rlimit limit{256, 256};
    setrlimit(RLIMIT_NOFILE, &limit);
    std::atomic<int> good{0};
    const Texts errors = run_ranks(64, Path::in_process, [&](Bootstrap& boot) { good += gathers(boot); });
    return errors.empty() ? std::to_string(good) : errors[0];
  });
  CHECK(texts == Texts{"64"});
}

TEST_CASE("a rank that is killed during init is named to the others at once", "[boot][proc]") {
  const bool tcp = GENERATE(false, true);
  const UniqueId id = id_here(tcp);
  const uint64_t start = now_ns();
  // Rank 3 never comes, so all are in the middle of it when rank 2 dies.
  const Texts texts = Crew(3).run([&](int rank) -> std::string {
    Joined joined = join_crew(id, rank, 4, tcp, rank == 2 ? &die : nullptr);
    if (joined.ok() || joined.code() != Code::remote_error) return "no remote_error";
    return joined.error().what;
  });
  CHECK(now_ns() - start < 5 * kSecond);
  for (const int rank : {0, 1}) {
    INFO(texts[static_cast<size_t>(rank)]);
    CHECK(contains(texts[static_cast<size_t>(rank)], "rank 2 (process "));
    CHECK(contains(texts[static_cast<size_t>(rank)], "died"));
  }
}

TEST_CASE("the death of the process that made the id ends an init at once", "[boot][proc]") {
  const bool tcp = GENERATE(false, true);
  int ids[2];
  REQUIRE(pipe(ids) == 0);
  REQUIRE(pipe(asked_pipe) == 0);
  const uint64_t start = now_ns();
  const Texts texts = Crew(3).run([&](int rank) -> std::string {
    UniqueId id;
    if (rank == 0) {  // makes the id, and dies when the others have asked its root
      id = id_here(tcp);
      for (int i = 0; i < 2; ++i) {
        if (write(ids[1], id.bytes.data(), id.bytes.size()) != static_cast<ssize_t>(id.bytes.size())) return "write";
      }
      char bytes[2];
      for (int i = 0; i < 2; ++i) {
        if (read(asked_pipe[0], bytes, 1) != 1) return "read";
      }
      die();
    }
    if (read(ids[0], id.bytes.data(), id.bytes.size()) != static_cast<ssize_t>(id.bytes.size())) return "read";
    Joined joined = join_crew(id, rank, 4, tcp, [] { (void)!write(asked_pipe[1], "x", 1); });
    return joined.ok() ? "success" : joined.error().what;
  });
  CHECK(now_ns() - start < 3 * kSecond);
  for (const int rank : {1, 2}) {
    INFO(texts[static_cast<size_t>(rank)]);
    CHECK(contains(texts[static_cast<size_t>(rank)], "lost the connection with the root of the unique id"));
  }
  for (const int fd : {ids[0], ids[1], asked_pipe[0], asked_pipe[1]}) close(fd);
}

TEST_CASE("survivors of a killed rank learn its name and shrink without it", "[boot][proc]") {
  const bool tcp = GENERATE(false, true);
  const int dead = GENERATE(0, 2);
  CAPTURE(tcp, dead);
  const int n = 5;
  const UniqueId id = id_here(tcp);
  const std::string name = "rank " + std::to_string(dead) + " (process ";
  const uint64_t start = now_ns();
  const Texts texts = Crew(n).run([&](int rank) -> std::string {
    Joined joined = join_crew(id, rank, n, tcp);
    if (!joined.ok()) return joined.error().what;
    Result<> result = (*joined)->barrier();
    if (rank == dead) die();
    if (result.ok()) result = (*joined)->barrier();
    if (result.ok()) return "the barrier went well";
    if (result.code() != Code::remote_error || !contains(result.error().what, name)) return result.error().what;
    std::vector<int> survivors;
    for (int i = 0; i < n; ++i) {
      if (i != dead) survivors.push_back(i);
    }
    auto rest = (*joined)->shrink(survivors, nullptr)();
    if (!rest.ok()) return rest.error().what;
    joined->reset();
    return gathers(**rest) ? "good" : "wrong data";
  });
  CHECK(now_ns() - start < 5 * kSecond);
  for (int rank = 0; rank < n; ++rank) CHECK(texts[static_cast<size_t>(rank)] == (rank == dead ? "" : "good"));
}

TEST_CASE("a child that a rank forks harms nobody, and does not hide its parent's death", "[boot][proc]") {
  const bool tcp = GENERATE(false, true);
  const UniqueId id = id_here(tcp);
  int pipes[2], end[2];
  REQUIRE(pipe(pipes) == 0);
  REQUIRE(pipe(end) == 0);
  const uint64_t start = now_ns();
  const Texts texts = Crew(2).run([&](int rank) -> std::string {
    Joined joined = join_crew(id, rank, 2, tcp);
    if (!joined.ok()) return joined.error().what;
    if (!gathers(**joined)) return "wrong data";
    if (rank == 1) {
      const pid_t child = fork();
      if (child == 0) {
        const Result<> result = (*joined)->barrier();
        const bool refused = result.code() == Code::invalid_usage && contains(result.error().what, "after fork()");
        joined->reset();  // must neither hang nor tell anybody that rank 1 has left
        // The child can make communicators of its own.
        const bool own = run_ranks(2, Path::in_process, [](Bootstrap& boot) { (void)boot.barrier(); }).empty();
        const char verdict = refused && own ? 'y' : 'n';
        if (write(pipes[1], &verdict, 1) != 1) _exit(1);
        close(end[1]);
        char none;
        (void)!read(end[0], &none, 1);  // outlives its parent: all who could write must be gone
        _exit(0);
      }
      char verdict = 0;
      if (read(pipes[0], &verdict, 1) != 1 || verdict != 'y') return "the child was not refused";
      if (!(*joined)->barrier().ok()) return "the parent's barrier failed";
      kill(getpid(), SIGKILL);
    }
    if (!(*joined)->barrier().ok()) return "barrier";
    const Result<> last = (*joined)->barrier();
    return text_of(last);
  });
  INFO(texts[0] << " | " << texts[1]);
  CHECK(now_ns() - start < 5 * kSecond);
  CHECK(contains(texts[0], "rank 1 (process "));
  CHECK(contains(texts[0], "died or has left"));
  for (const int fd : {pipes[0], pipes[1], end[0], end[1]}) close(fd);
}
