// One thread or stream with several communicators, and failures in the middle of that: nothing waits for what it need not, nothing is left over.
#include <atomic>
#include <chrono>

#include "support/catch.h"
#include "support/world.h"

using namespace ronde::test;

namespace {

using Clock = std::chrono::steady_clock;

/// A communicator of n ranks, all made by the calling thread.
struct Comms {
  explicit Comms(int n) : of(static_cast<size_t>(n)) { REQUIRE(ncclCommInitAll(of.data(), n, nullptr) == ncclSuccess); }
  ncclComm_t operator[](int rank) const { return of[static_cast<size_t>(rank)]; }
  void destroy() {
    for (ncclComm_t comm : of) CHECK(ncclCommDestroy(comm) == ncclSuccess);
  }
  std::vector<ncclComm_t> of;
};

/// Aborts within a second.
bool aborts_soon(ncclComm_t comm) {
  const auto start = Clock::now();
  return ncclCommAbort(comm) == ncclSuccess && Clock::now() - start < std::chrono::seconds(1);
}

ncclResult_t all_reduce(int* data, size_t count, ncclComm_t comm, cudaStream_t stream = nullptr) {
  return ncclAllReduce(data, data, count, ncclInt32, ncclSum, comm, stream);
}

/// In one group: tells rank `to` that the group runs, and calls AllReduce.
ncclResult_t announced_all_reduce(int* data, size_t count, ncclComm_t comm, int to) {
  ncclGroupStart();
  ncclSend(data, 1, ncclInt32, to, comm, nullptr);
  all_reduce(data, count, comm);
  return ncclGroupEnd();
}

}  // namespace

TEST_CASE("Abort of one communicator does not wait for another that the same thread waits in", "[world][entangled]") {
  Comms a(2), b(2);
  int x = 1, y = 1, got = 0;
  ncclResult_t code = ncclSuccess;
  std::thread caller([&] {
    ncclGroupStart();
    ncclSend(&x, 1, ncclInt32, 1, a[0], nullptr);
    all_reduce(&x, 1, a[0]);
    all_reduce(&y, 1, b[0]);
    code = ncclGroupEnd();
  });
  REQUIRE(ncclRecv(&got, 1, ncclInt32, 0, a[1], nullptr) == ncclSuccess);  // the group runs
  CHECK(aborts_soon(a[0]));
  CHECK(aborts_soon(b[0]));
  caller.join();
  CHECK(code == ncclRemoteError);
  CHECK(aborts_soon(a[1]));
  CHECK(aborts_soon(b[1]));
}

TEST_CASE("a communicator may be aborted while its call waits on a stream behind another's", "[world][entangled]") {
  Comms a(2), b(2);
  cudaStream_t stream;
  REQUIRE(rondeStreamCreate(&stream) == ncclSuccess);
  int x[2] = {1, 2}, y = 1;
  REQUIRE(all_reduce(&x[0], 1, a[0], stream) == ncclSuccess);
  REQUIRE(all_reduce(&y, 1, b[0], stream) == ncclSuccess);
  CHECK(aborts_soon(b[0]));
  CHECK(aborts_soon(b[1]));
  REQUIRE(all_reduce(&x[1], 1, a[1]) == ncclSuccess);
  CHECK(rondeStreamSynchronize(stream) == ncclRemoteError);
  CHECK((x[0] == 3 && x[1] == 3 && y == 1));
  CHECK(rondeStreamDestroy(stream) == ncclSuccess);
  a.destroy();
}

TEST_CASE("Finalize and Destroy wait for calls that a stream has not begun", "[world][entangled]") {
  for (const bool finalize : {true, false}) {
    Comms a(2), b(1);
    cudaStream_t stream;
    REQUIRE(rondeStreamCreate(&stream) == ncclSuccess);
    int x[2] = {1, 2}, in = 5, out = 0;
    REQUIRE(all_reduce(&x[0], 1, a[0], stream) == ncclSuccess);
    REQUIRE(ncclAllReduce(&in, &out, 1, ncclInt32, ncclSum, b[0], stream) == ncclSuccess);
    std::atomic<bool> called{false};
    std::thread other([&] {
      called = true;
      static_cast<void>(all_reduce(&x[1], 1, a[1]));
    });
    if (finalize) CHECK(ncclCommFinalize(b[0]) == ncclSuccess);
    if (!finalize) CHECK(ncclCommDestroy(b[0]) == ncclSuccess);
    CHECK((called && out == 5));
    other.join();
    if (finalize) CHECK(ncclCommDestroy(b[0]) == ncclSuccess);
    CHECK(rondeStreamDestroy(stream) == ncclSuccess);
    a.destroy();
  }
}

TEST_CASE("a group that cannot be run takes no number", "[world][entangled]") {
  const ScopedEnv env({{"RONDE_STRICT", "1"}, {"RONDE_ALGO", "broadcast:nvls"}});
  const std::string complaints = run_world(2, [](ncclComm_t comm, int) -> std::string {
    int x = 1, y = 1;
    RONDE_RANK_OK(ncclGroupStart());
    RONDE_RANK_OK(all_reduce(&x, 1, comm));
    RONDE_RANK_OK(ncclBroadcast(&y, &y, 1, ncclInt32, 0, comm, nullptr));
    const std::string refused = check_code("group", ncclGroupEnd(), ncclInvalidUsage);
    if (!refused.empty()) return refused;
    if (x != 1) return "the group ran in part";
    RONDE_RANK_OK(all_reduce(&x, 1, comm));
    return x == 2 ? "" : "wrong sum " + std::to_string(x);
  });
  REQUIRE(complaints == "");
}

TEST_CASE("calls of a group whose initialisation fails never run", "[world][entangled]") {
  Comms one(1);
  int in = 7, out = 0, later = 3;
  ncclComm_t bad = nullptr;
  const ncclUniqueId nonsense{};
  REQUIRE(ncclGroupStart() == ncclSuccess);
  CHECK(ncclCommInitRank(&bad, 2, nonsense, 0) == ncclSuccess);
  CHECK(ncclAllReduce(&in, &out, 1, ncclInt32, ncclSum, one[0], nullptr) == ncclSuccess);
  CHECK(ncclGroupEnd() != ncclSuccess);
  CHECK(bad == nullptr);
  CHECK(all_reduce(&later, 1, one[0]) == ncclSuccess);
  CHECK(out == 0);
  one.destroy();
}

TEST_CASE("a call whose turn has not come is no cycle of waits", "[world][entangled]") {
  Comms x(2), c(2);
  cudaStream_t stream;
  REQUIRE(rondeStreamCreate(&stream) == ncclSuccess);
  int first = 1, second = 1, third = 1;
  ncclResult_t code = ncclSuccess;
  std::atomic<bool> done{false};
  std::thread caller([&] {
    all_reduce(&first, 1, x[0], stream);
    all_reduce(&second, 1, c[0], stream);   // behind the first
    code = all_reduce(&third, 1, c[0]);     // behind the second
    done = true;
  });
  const auto start = Clock::now();
  while (!done && Clock::now() - start < std::chrono::milliseconds(800)) std::this_thread::yield();  // longer than a cycle takes to be proven
  CHECK_FALSE(done);
  int ones[3] = {1, 1, 1};
  CHECK(all_reduce(&ones[0], 1, x[1]) == ncclSuccess);
  CHECK(all_reduce(&ones[1], 1, c[1]) == ncclSuccess);
  CHECK(all_reduce(&ones[2], 1, c[1]) == ncclSuccess);
  caller.join();
  CHECK(code == ncclSuccess);
  CHECK((first == 2 && second == 2 && third == 2));
  CHECK(rondeStreamDestroy(stream) == ncclSuccess);
  x.destroy();
  c.destroy();
}

TEST_CASE("one thread may send and then receive on another of its ranks", "[world][entangled]") {
  Comms pair(2);
  std::vector<int> out(100'000, 4), in(out.size());
  for (int i = 0; i < 50; ++i) {
    out[0] = i;
    REQUIRE(ncclSend(out.data(), out.size(), ncclInt32, 1, pair[0], nullptr) == ncclSuccess);
    REQUIRE(ncclRecv(in.data(), in.size(), ncclInt32, 0, pair[1], nullptr) == ncclSuccess);
    REQUIRE(in == out);
  }
  pair.destroy();
}

TEST_CASE("a group of more small sends than slots returns before they are received", "[world][entangled]") {
  const ScopedEnv env({{"RONDE_SLOTS", "2"}});
  const std::string complaints = run_world(2, [](ncclComm_t comm, int rank) -> std::string {
    int out[5], in[5];
    RONDE_RANK_OK(ncclGroupStart());
    for (int i = 0; i < 5; ++i) {
      out[i] = 10 * rank + i;
      RONDE_RANK_OK(ncclSend(&out[i], 1, ncclInt32, 1 - rank, comm, nullptr));
    }
    RONDE_RANK_OK(ncclGroupEnd());
    for (int i = 0; i < 5; ++i) {
      out[i] = -1;
      RONDE_RANK_OK(ncclRecv(&in[i], 1, ncclInt32, 1 - rank, comm, nullptr));
      if (in[i] != 10 * (1 - rank) + i) return "wrong value " + std::to_string(in[i]);
    }
    return "";
  });
  REQUIRE(complaints == "");
}

TEST_CASE("a stream may be destroyed between a call and the end of its group", "[world][entangled]") {
  Comms one(1);
  cudaStream_t stream;
  int in = 9, out = 0;
  REQUIRE(rondeStreamCreate(&stream) == ncclSuccess);
  REQUIRE(ncclGroupStart() == ncclSuccess);
  CHECK(ncclAllReduce(&in, &out, 1, ncclInt32, ncclSum, one[0], stream) == ncclSuccess);
  CHECK(rondeStreamDestroy(stream) == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclSuccess);
  one.destroy();  // waits for the call
  CHECK(out == 9);
}

TEST_CASE("Revoke ends a Split that waits for a rank", "[world][entangled]") {
  Comms c(2);
  ncclComm_t child = nullptr;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  REQUIRE(ncclCommSplit(c[0], 0, 0, &child, &config) == ncclInProgress);
  CHECK(ncclCommRevoke(c[0], NCCL_REVOKE_DEFAULT) == ncclSuccess);
  const auto start = Clock::now();
  ncclResult_t code = ncclInProgress;
  while (code == ncclInProgress) REQUIRE(ncclCommGetAsyncError(child, &code) == ncclSuccess);
  CHECK(code == ncclRemoteError);
  CHECK(Clock::now() - start < std::chrono::seconds(1));
  CHECK(aborts_soon(child));
  for (ncclComm_t comm : c.of) CHECK(aborts_soon(comm));
}

TEST_CASE("a reader that gives up lets go of every loan it was about to read", "[world][entangled]") {
  const ScopedEnv env({{"RONDE_ALGO", "direct"}, {"RONDE_LEND_THRESHOLD", "1"}});
  Comms c(3);
  std::vector<int> data[3];
  for (auto& d : data) d.assign(300'000, 1);
  std::thread callers[2];
  ncclResult_t codes[2] = {};
  for (int r : {0, 1}) callers[r] = std::thread([&, r] { codes[r] = announced_all_reduce(data[r].data(), data[r].size(), c[r], 2); });
  int got = 0;
  for (int r : {0, 1}) REQUIRE(ncclRecv(&got, 1, ncclInt32, r, c[2], nullptr) == ncclSuccess);
  CHECK(aborts_soon(c[1]));
  CHECK(all_reduce(data[2].data(), data[2].size(), c[2]) == ncclRemoteError);
  CHECK(aborts_soon(c[0]));  // no mark of rank 2 is left on what rank 0 lent
  for (std::thread& caller : callers) caller.join();
  CHECK((codes[0] == ncclRemoteError && codes[1] == ncclRemoteError));
  CHECK(aborts_soon(c[2]));
}
