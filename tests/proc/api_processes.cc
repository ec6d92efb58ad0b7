// The C API between real processes: collectives, death, abort, fork, exit without an end, many ranks.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <chrono>
#include <csignal>
#include <cstring>
#include <numeric>

#include "base/thread.h"
#include "nccl.h"
#include "ronde.h"
#include "support/catch.h"
#include "support/children.h"
#include "support/world.h"

using namespace ronde::test;

namespace {

std::string to_hex(const ncclUniqueId& id) {
  std::string text;
  for (const char c : id.internal) {
    constexpr char digits[] = "0123456789abcdef";
    text += digits[static_cast<uint8_t>(c) >> 4];
    text += digits[c & 15];
  }
  return text;
}

ncclUniqueId from_hex(const std::string& text) {
  ncclUniqueId id{};
  for (size_t i = 0; i < sizeof id.internal; ++i) id.internal[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return id;
}

/// The communicator of a child, from its argument; says what failed otherwise.
ncclComm_t join(Child& child) {
  ncclComm_t comm = nullptr;
  const ncclResult_t code = ncclCommInitRank(&comm, child.ranks, from_hex(child.argument), child.rank);
  child.say(code == ncclSuccess ? "up" : "init: " + std::string(ncclGetLastError(nullptr)));
  return comm;
}

std::string last_error(ncclComm_t comm) {
  char text[2048] = "";
  rondeCommGetLastError(comm, text, sizeof text);
  return text;
}

ChildrenRequest request(const char* role, int ranks, const ncclUniqueId& id) {
  ChildrenRequest r;
  r.role = role;
  r.ranks = ranks;
  r.argument = to_hex(id);
  r.bootstraps = 0;
  return r;
}

ncclUniqueId new_id() {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  return id;
}

/// "ok" or what was wrong with an all-reduce, an all-to-all and a broadcast of `count` elements.
std::string try_collectives(ncclComm_t comm, int rank, int ranks, size_t count) {
  const auto n = static_cast<size_t>(ranks);
  std::vector<int> in(count), out(count);
  for (size_t i = 0; i < count; ++i) in[i] = rank + static_cast<int>(i);
  RONDE_RANK_OK(ncclAllReduce(in.data(), out.data(), count, ncclInt32, ncclSum, comm, nullptr));
  for (size_t i = 0; i < count; ++i) {
    if (out[i] != ranks * (ranks - 1) / 2 + ranks * static_cast<int>(i)) return "all-reduce wrong at " + std::to_string(i);
  }
  std::vector<int> to(count * n), from(count * n);
  for (size_t i = 0; i < to.size(); ++i) to[i] = rank * 1000 + static_cast<int>(i / count);
  RONDE_RANK_OK(ncclAlltoAll(to.data(), from.data(), count, ncclInt32, comm, nullptr));
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] != static_cast<int>(i / count) * 1000 + rank) return "all-to-all wrong at " + std::to_string(i);
  }
  const int root = ranks - 1;
  RONDE_RANK_OK(ncclBroadcast(in.data(), out.data(), count, ncclInt32, root, comm, nullptr));
  for (size_t i = 0; i < count; ++i) {
    if (out[i] != root + static_cast<int>(i)) return "broadcast wrong at " + std::to_string(i);
  }
  return "ok";
}

int role_works(Child& child) {
  ncclComm_t comm = join(child);
  if (comm == nullptr) return 1;
  std::string verdict = try_collectives(comm, child.rank, child.ranks, 10);
  if (verdict == "ok") verdict = try_collectives(comm, child.rank, child.ranks, 30'000);
  child.say(verdict);
  return ncclCommDestroy(comm) == ncclSuccess ? 0 : 2;
}
const RegisterRole r1("api-works", role_works);

/// Calls until something fails, and says what.
int role_until_error(Child& child) {
  ncclComm_t comm = join(child);
  if (comm == nullptr) return 1;
  std::vector<float> data(100'000);
  ncclResult_t code = ncclSuccess;
  while (code == ncclSuccess) code = ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comm, nullptr);
  child.say("code " + std::to_string(code) + ": " + last_error(comm));
  child.hear();  // survivors stay until the test has heard them all
  const auto start = std::chrono::steady_clock::now();
  ncclCommAbort(comm);
  const bool quick = std::chrono::steady_clock::now() - start < std::chrono::seconds(1);
  child.say(quick ? "aborted" : "the abort took too long");
  return 0;
}
const RegisterRole r2("api-until-error", role_until_error);

/// After fork() the child's calls fail, and the parent goes on.
int role_forks(Child& child) {
  ncclComm_t comm = join(child);
  if (comm == nullptr) return 1;
  if (child.rank == 0) {
    const pid_t pid = fork();
    if (pid == 0) {
      int x = 1;
      const ncclResult_t call = ncclAllReduce(&x, &x, 1, ncclInt32, ncclSum, comm, nullptr);
      const ncclResult_t end = ncclCommDestroy(comm);
      _exit(call == ncclInvalidUsage && end == ncclInvalidUsage ? 0 : 10 + call);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      child.say("the forked child ended with status " + std::to_string(status));
      return 1;
    }
  }
  child.say(try_collectives(comm, child.rank, child.ranks, 1000));
  return ncclCommDestroy(comm) == ncclSuccess ? 0 : 2;
}
const RegisterRole r3("api-forks", role_forks);

/// Leaves with a communicator, a host stream and a pool thread alive.
int role_just_exits(Child& child) {
  ncclComm_t comm = join(child);
  if (comm == nullptr) return 1;
  cudaStream_t stream;
  rondeStreamCreate(&stream);
  int x = 1;
  ncclAllReduce(&x, &x, 1, ncclInt32, ncclSum, comm, stream);
  rondeStreamSynchronize(stream);
  child.say("done");
  exit(0);
}
const RegisterRole r4("api-just-exits", role_just_exits);

ncclComm_t left_to_the_end = nullptr;

/// Destroys its communicator when all that the library has registered for the end of the process has run.
int role_destroys_late(Child& child) {
  atexit([] {
    if (ncclCommDestroy(left_to_the_end) != ncclSuccess) _exit(3);
  });
  left_to_the_end = join(child);
  child.say(try_collectives(left_to_the_end, child.rank, child.ranks, 1000));
  return 0;
}
const RegisterRole r6("api-destroys-late", role_destroys_late);

/// 64 ranks as threads under a limit of 256 descriptors.
int role_few_descriptors(Child& child) {
  const rlimit few{256, 256};
  setrlimit(RLIMIT_NOFILE, &few);
  child.say(run_world(64, [](ncclComm_t comm, int rank) -> std::string {
    const std::string verdict = try_collectives(comm, rank, 64, 64);
    return verdict == "ok" ? "" : verdict;
  }) + "end");
  return 0;
}
const RegisterRole r5("api-few-descriptors", role_few_descriptors);

/// All receive, nobody sends.
int role_cycle(Child& child) {
  ncclComm_t comm = join(child);
  if (comm == nullptr) return 1;
  int x = 0;
  const ncclResult_t code = ncclRecv(&x, 1, ncclInt32, (child.rank + 1) % child.ranks, comm, nullptr);
  child.say("code " + std::to_string(code) + ": " + last_error(comm));
  ncclCommAbort(comm);
  return 0;
}
const RegisterRole r7("api-cycle", role_cycle);

/// Adds up for as long as rank 0 wants.
int role_rounds(Child& child) {
  ncclComm_t comm = join(child);
  if (comm == nullptr) return 1;
  const auto start = std::chrono::steady_clock::now();
  std::vector<int> ones(20'000, 1), sums(ones.size());
  for (bool goes_on = true; goes_on;) {
    ones[0] = child.rank == 0 && std::chrono::steady_clock::now() - start < std::chrono::milliseconds(2500) ? 1 : 0;
    const ncclResult_t code = ncclAllReduce(ones.data(), sums.data(), sums.size(), ncclInt32, ncclSum, comm, nullptr);
    if (code != ncclSuccess || sums.back() != child.ranks) {
      child.say("code " + std::to_string(code) + ": " + last_error(comm));
      return 1;
    }
    goes_on = sums[0] != 0;
  }
  child.say("ok");
  return ncclCommDestroy(comm) == ncclSuccess ? 0 : 2;
}
const RegisterRole r8("api-rounds", role_rounds);

}  // namespace

TEST_CASE("processes: collectives are right", "[proc][api]") {
  const int ranks = GENERATE(1, 2, 5);
  Children children(request("api-works", ranks, new_id()));
  for (int r = 0; r < ranks; ++r) {
    CHECK(children.hear(r) == "up");
    CHECK(children.hear(r) == "ok");
    CHECK(children.wait(r) == "exited 0");
  }
}

TEST_CASE("32 processes come up within 10 s and are right", "[proc][api][scale]") {
  constexpr int kRanks = 32;
  const auto start = std::chrono::steady_clock::now();
  Children children(request("api-works", kRanks, new_id()));
  for (int r = 0; r < kRanks; ++r) CHECK(children.hear(r) == "up");
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
  for (int r = 0; r < kRanks; ++r) CHECK(children.hear(r) == "ok");
  for (int r = 0; r < kRanks; ++r) CHECK(children.wait(r) == "exited 0");
}

TEST_CASE("a killed process is an error that names it, on every survivor, within about a second", "[proc][api]") {
  Children children(request("api-until-error", 4, new_id()));
  for (int r = 0; r < 4; ++r) REQUIRE(children.hear(r) == "up");
  const auto start = std::chrono::steady_clock::now();
  children.signal(2, SIGKILL);
  for (const int r : {0, 1, 3}) {
    const std::string said = children.hear(r);
    INFO("rank " << r << ": " << said);
    CHECK(contains(said, "code 6"));
    CHECK(contains(said, "rank 2 died"));
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::milliseconds(1500));
  }
  for (const int r : {0, 1, 3}) children.say(r, "go on");
  for (const int r : {0, 1, 3}) {
    CHECK(children.hear(r) == "aborted");
    CHECK(children.wait(r) == "exited 0");
  }
}

TEST_CASE("fork after init harms nobody", "[proc][api]") {
  Children children(request("api-forks", 2, new_id()));
  for (int r = 0; r < 2; ++r) {
    CHECK(children.hear(r) == "up");
    CHECK(children.hear(r) == "ok");
    CHECK(children.wait(r) == "exited 0");
  }
}

TEST_CASE("processes that share no memory meet over a network, or are told why not", "[proc][api]") {
  const bool works = GENERATE(true, false);
  const ScopedEnv env{{"NCCL_SHM_DISABLE", "1"}, {"NCCL_NET", works ? "Socket" : "void"}};
  Children children(request("api-works", 2, new_id()));
  for (int r = 0; r < 2; ++r) {
    const std::string said = children.hear(r);
    INFO("rank " << r << ": " << said);
    if (works) {
      CHECK(said == "up");
      continue;
    }
    CHECK(contains(said, "init: "));
    CHECK(contains(said, "there is no network \"void\" (NCCL_NET)"));
    CHECK(children.wait(r) == "exited 1");
  }
  if (works) {
    for (int r = 0; r < 2; ++r) CHECK(children.hear(r) == "ok");
    for (int r = 0; r < 2; ++r) CHECK(children.wait(r) == "exited 0");
  }
}

TEST_CASE("processes on several hosts that wait for each other are told so", "[proc][api]") {
  const ScopedEnv env{{"RONDE_HOSTS", "0,1,0,1,2"}};
  Children children(request("api-cycle", 5, new_id()));
  for (int r = 0; r < 5; ++r) CHECK(children.hear(r) == "up");
  for (int r = 0; r < 5; ++r) {
    const std::string said = children.hear(r);
    INFO("rank " << r << ": " << said);
    CHECK(contains(said, "code 5: ranks 0-4 wait for each other"));
    CHECK(contains(said, "rank 1 is in Recv(count 1, int32, from rank 2)"));
    CHECK(children.wait(r) == "exited 0");
  }
}

TEST_CASE("processes on several hosts wait for one that stands still, whatever it was last heard to do", "[proc][api]") {
  const ScopedEnv env{{"RONDE_HOSTS", "2"}};
  const int still = GENERATE(0, 3);
  Children children(request("api-rounds", 4, new_id()));
  for (int r = 0; r < 4; ++r) CHECK(children.hear(r) == "up");
  children.signal(still, SIGSTOP);
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(1500)) sched_yield();
  children.signal(still, SIGCONT);
  for (int r = 0; r < 4; ++r) CHECK(children.hear(r) == "ok");
  for (int r = 0; r < 4; ++r) CHECK(children.wait(r) == "exited 0");
}

TEST_CASE("exit without destroy neither hangs nor crashes", "[proc][api]") {
  Children children(request("api-just-exits", 3, new_id()));
  for (int r = 0; r < 3; ++r) {
    CHECK(children.hear(r) == "up");
    CHECK(children.hear(r) == "done");
    CHECK(children.wait(r) == "exited 0");
  }
}

TEST_CASE("a communicator may be destroyed by an exit handler that is older than it", "[proc][api]") {
  Children children(request("api-destroys-late", 3, new_id()));
  for (int r = 0; r < 3; ++r) {
    CHECK(children.hear(r) == "up");
    CHECK(children.hear(r) == "ok");
  }
  for (int r = 0; r < 3; ++r) CHECK(children.wait(r) == "exited 0");
}

TEST_CASE("64 thread ranks with 256 descriptors", "[proc][api][scale]") {
  Children children(request("api-few-descriptors", 1, new_id()));
  CHECK(children.hear(0) == "end");
  CHECK(children.wait(0) == "exited 0");
}
