// From init to the end: handles, split, shrink, abort, revoke, non-blocking, wrong arguments.
#include <atomic>
#include <chrono>
#include <numeric>

#include "support/catch.h"
#include "support/world.h"

using namespace ronde::test;

namespace {

std::string sum_is(ncclComm_t comm, int value, int want) {
  int sum = -1;
  RONDE_RANK_OK(ncclAllReduce(&value, &sum, 1, ncclInt32, ncclSum, comm, nullptr));
  return sum == want ? "" : "sum " + std::to_string(sum) + ", expected " + std::to_string(want);
}

std::string wait_ready(ncclComm_t comm) {
  ncclResult_t code = ncclInProgress;
  while (code == ncclInProgress) {
    RONDE_RANK_OK(ncclCommGetAsyncError(comm, &code));
    std::this_thread::yield();
  }
  return check_code("async error", code);
}

}  // namespace

TEST_CASE("count, rank and device of each rank", "[world][lifecycle]") {
  const std::string complaints = run_world(3, [](ncclComm_t comm, int rank) -> std::string {
    int count = 0, user = -1, device = -1;
    RONDE_RANK_OK(ncclCommCount(comm, &count));
    RONDE_RANK_OK(ncclCommUserRank(comm, &user));
    RONDE_RANK_OK(ncclCommCuDevice(comm, &device));
    return count == 3 && user == rank && device == rank ? "" : "wrong answers";
  });
  REQUIRE(complaints == "");
}

TEST_CASE("a freed handle is an error, not a crash", "[world][lifecycle]") {
  ncclComm_t comm = nullptr;
  REQUIRE(ncclCommInitAll(&comm, 1, nullptr) == ncclSuccess);
  REQUIRE(ncclCommDestroy(comm) == ncclSuccess);
  int x = 0;
  CHECK(ncclCommDestroy(comm) == ncclInvalidArgument);
  CHECK(ncclCommAbort(comm) == ncclInvalidArgument);
  CHECK(ncclAllReduce(&x, &x, 1, ncclInt32, ncclSum, comm, nullptr) == ncclInvalidArgument);
  CHECK(ncclCommCount(comm, &x) == ncclInvalidArgument);
  CHECK(ncclCommCount(reinterpret_cast<ncclComm_t>(&x), &x) == ncclInvalidArgument);
  CHECK(ncclCommDestroy(nullptr) == ncclSuccess);
  CHECK(ncclCommAbort(nullptr) == ncclSuccess);
}

TEST_CASE("wrong arguments say what is wrong and harm nothing", "[world][lifecycle]") {
  const std::string complaints = run_world(2, [](ncclComm_t comm, int rank) -> std::string {
    int x = 1;
    const struct { const char* what; ncclResult_t got; } cases[] = {
        {"root", ncclBroadcast(&x, &x, 1, ncclInt32, 2, comm, nullptr)},
        {"negative root", ncclReduce(&x, &x, 1, ncclInt32, ncclSum, -1, comm, nullptr)},
        {"peer", ncclSend(&x, 1, ncclInt32, 7, comm, nullptr)},
        {"type", ncclAllReduce(&x, &x, 1, static_cast<ncclDataType_t>(12), ncclSum, comm, nullptr)},
        {"operation", ncclAllReduce(&x, &x, 1, ncclInt32, static_cast<ncclRedOp_t>(99), comm, nullptr)},
        {"send pointer", ncclAllReduce(nullptr, &x, 1, ncclInt32, ncclSum, comm, nullptr)},
        {"receive pointer", ncclAllReduce(&x, nullptr, 1, ncclInt32, ncclSum, comm, nullptr)},
        {"count", ncclAllReduce(&x, &x, SIZE_MAX / 2, ncclInt32, ncclSum, comm, nullptr)},
        {"stream", ncclAllReduce(&x, &x, 1, ncclInt32, ncclSum, comm, reinterpret_cast<cudaStream_t>(0x1234560))},
    };
    for (const auto& c : cases) {
      const std::string complaint = check_code(c.what, c.got, ncclInvalidArgument);
      if (!complaint.empty()) return complaint;
    }
    const std::string lone_end = check_code("GroupEnd", ncclGroupEnd(), ncclInvalidUsage);
    if (!lone_end.empty()) return lone_end;
    // An error inside a group drops the group.
    RONDE_RANK_OK(ncclGroupStart());
    RONDE_RANK_OK(ncclAllReduce(&x, &x, 1, ncclInt32, ncclSum, comm, nullptr));
    ncclBroadcast(&x, &x, 1, ncclInt32, 5, comm, nullptr);
    const std::string dropped = check_code("GroupEnd", ncclGroupEnd(), ncclInvalidArgument);
    if (!dropped.empty()) return dropped;
    return sum_is(comm, rank + 1, 3);
  });
  REQUIRE(complaints == "");
}

TEST_CASE("split: colors, keys, no color; the parent stays usable", "[world][lifecycle]") {
  const std::string complaints = run_world(6, [](ncclComm_t comm, int rank) -> std::string {
    ncclComm_t child = nullptr;
    const int color = rank == 5 ? NCCL_SPLIT_NOCOLOR : rank % 2;
    RONDE_RANK_OK(ncclCommSplit(comm, color, -rank, &child, nullptr));
    if (rank == 5) return child == nullptr ? sum_is(comm, 1, 6) : "a rank without color got a child";
    int size = 0, place = -1;
    RONDE_RANK_OK(ncclCommCount(child, &size));
    RONDE_RANK_OK(ncclCommUserRank(child, &place));
    const int want_size = color == 0 ? 3 : 2;
    const int want_place = want_size - 1 - rank / 2;  // keys turn the order round
    if (size != want_size || place != want_place) return "size " + std::to_string(size) + ", rank " + std::to_string(place);
    const std::string child_sum = sum_is(child, rank, color == 0 ? 0 + 2 + 4 : 1 + 3);
    if (!child_sum.empty()) return child_sum;
    const std::string parent_sum = sum_is(comm, 1, 6);
    if (!parent_sum.empty()) return parent_sum;
    return check_code("destroy child", ncclCommDestroy(child));
  });
  REQUIRE(complaints == "");
}

TEST_CASE("shrink of a healthy communicator, and of one in which a call is stuck", "[world][lifecycle]") {
  const bool stuck = GENERATE(false, true);
  const std::string complaints = run_world(4, [stuck](ncclComm_t comm, int rank) -> std::string {
    if (rank == 1) {
      ncclCommAbort(comm);
      return "";
    }
    if (stuck) {
      int x = 0;
      const ncclResult_t code = ncclAllReduce(&x, &x, 1, ncclInt32, ncclSum, comm, nullptr);
      if (code != ncclRemoteError) return "the call with an aborted rank gave " + std::to_string(code);
    }
    int gone = 1;
    ncclComm_t child = nullptr;
    RONDE_RANK_OK(ncclCommShrink(comm, &gone, 1, &child, nullptr, stuck ? NCCL_SHRINK_ABORT : NCCL_SHRINK_DEFAULT));
    int place = -1;
    RONDE_RANK_OK(ncclCommUserRank(child, &place));
    if (place != (rank == 0 ? 0 : rank - 1)) return "rank " + std::to_string(place);
    const std::string complaint = sum_is(child, 1, 3);
    if (!complaint.empty()) return complaint;
    RONDE_RANK_OK(ncclCommDestroy(child));
    ncclCommAbort(comm);
    return "";
  }, false);
  REQUIRE(complaints == "");
}

TEST_CASE("Abort and Revoke from another thread free a blocked call", "[world][lifecycle]") {
  const bool revoke = GENERATE(false, true);
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclComm_t comms[2] = {};
  const std::string made = run_threads(2, [&](int rank) { return check_code("init", ncclCommInitRank(&comms[rank], 2, id, rank)); });
  REQUIRE(made == "");
  std::atomic<bool> inside{false};
  ncclResult_t code = ncclSuccess;
  std::thread blocked([&] {
    int x = 0;
    inside = true;
    code = ncclRecv(&x, 1, ncclInt32, 1, comms[0], nullptr);
  });
  while (!inside) std::this_thread::yield();
  const auto start = std::chrono::steady_clock::now();
  REQUIRE((revoke ? ncclCommRevoke(comms[0], NCCL_REVOKE_DEFAULT) : ncclCommAbort(comms[0])) == ncclSuccess);
  blocked.join();
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(1));
  // Abort may have come before the call had looked its communicator up.
  CHECK((code == ncclRemoteError || code == ncclInvalidArgument || (revoke && code == ncclInvalidUsage)));
  if (revoke) {
    int x = 0;
    CHECK(ncclAllReduce(&x, &x, 1, ncclInt32, ncclSum, comms[0], nullptr) == ncclInvalidUsage);
    CHECK(ncclCommFinalize(comms[0]) == ncclInvalidUsage);
    CHECK(ncclCommDestroy(comms[0]) == ncclSuccess);
  }
  CHECK(ncclCommAbort(comms[1]) == ncclSuccess);
}

TEST_CASE("a peer that aborts or destroys is named to those that wait for it", "[world][lifecycle]") {
  const bool abort = GENERATE(false, true);
  const std::string complaints = run_world(3, [abort](ncclComm_t comm, int rank) -> std::string {
    if (rank == 2) return check_code("leave", abort ? ncclCommAbort(comm) : ncclCommDestroy(comm));
    int x = 0;
    const ncclResult_t code = ncclAllReduce(&x, &x, 1, ncclInt32, ncclSum, comm, nullptr);
    char text[1024] = "";
    rondeCommGetLastError(comm, text, sizeof text);
    ncclCommAbort(comm);
    if (code != ncclRemoteError) return "code " + std::to_string(code) + ": " + text;
    // The other survivor may have been cut first and have aborted in turn.
    return contains(text, "rank 2") || contains(text, "aborted") ? "" : text;
  }, false);
  REQUIRE(complaints == "");
}

TEST_CASE("non-blocking communicators: poll until ready, for init, calls, split and the end", "[world][lifecycle]") {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  const std::string complaints = run_threads(3, [&](int rank) -> std::string {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm = nullptr;
    const ncclResult_t begun = ncclCommInitRankConfig(&comm, 3, id, rank, &config);
    if (begun != ncclInProgress && begun != ncclSuccess) return check_code("init", begun);
    std::string complaint = wait_ready(comm);
    if (!complaint.empty()) return complaint;
    int in = rank + 1, sum = 0;
    const ncclResult_t issued = ncclAllReduce(&in, &sum, 1, ncclInt32, ncclSum, comm, nullptr);
    if (issued != ncclInProgress && issued != ncclSuccess) return check_code("all-reduce", issued);
    complaint = wait_ready(comm);
    if (!complaint.empty() || sum != 6) return complaint + " sum " + std::to_string(sum);
    ncclComm_t child = nullptr;
    const ncclResult_t splitting = ncclCommSplit(comm, 0, rank, &child, nullptr);
    if (splitting != ncclInProgress && splitting != ncclSuccess) return check_code("split", splitting);
    complaint = wait_ready(child);
    if (!complaint.empty()) return complaint;
    RONDE_RANK_OK(ncclCommDestroy(child));
    const ncclResult_t ending = ncclCommFinalize(comm);
    if (ending != ncclInProgress && ending != ncclSuccess) return check_code("finalize", ending);
    complaint = wait_ready(comm);
    if (!complaint.empty()) return complaint;
    return check_code("destroy", ncclCommDestroy(comm));
  });
  REQUIRE(complaints == "");
}

TEST_CASE("Finalize of a non-blocking communicator does not wait for a message's receiver", "[world][lifecycle]") {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclComm_t comms[2] = {};
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  for (int rank = 0; rank < 2; ++rank) {  // one thread drives both
    const ncclResult_t begun = ncclCommInitRankConfig(&comms[rank], 2, id, rank, &config);
    REQUIRE((begun == ncclInProgress || begun == ncclSuccess));
  }
  for (ncclComm_t comm : comms) REQUIRE(wait_ready(comm) == "");
  const std::vector<int> sent(4 << 20, 7);  // more than fits into slots
  std::vector<int> got(sent.size());
  REQUIRE(ncclSend(sent.data(), sent.size(), ncclInt32, 1, comms[0], nullptr) == ncclInProgress);
  REQUIRE(ncclCommFinalize(comms[0]) == ncclInProgress);
  const ncclResult_t receiving = ncclRecv(got.data(), got.size(), ncclInt32, 0, comms[1], nullptr);
  REQUIRE((receiving == ncclInProgress || receiving == ncclSuccess));
  for (ncclComm_t comm : comms) REQUIRE(wait_ready(comm) == "");
  CHECK(got == sent);
  CHECK(ncclCommFinalize(comms[1]) == ncclSuccess);
  for (ncclComm_t comm : comms) CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

TEST_CASE("64 thread ranks on any number of cores", "[world][lifecycle][scale]") {
  const std::string complaints = run_world(64, [](ncclComm_t comm, int rank) -> std::string {
    const std::string small = sum_is(comm, rank, 63 * 64 / 2);
    if (!small.empty()) return small;
    std::vector<float> data(100'000, static_cast<float>(rank));
    RONDE_RANK_OK(ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comm, nullptr));
    for (const float v : data) {
      if (v != 2016.0f) return "wrong value " + std::to_string(v);
    }
    return "";
  });
  REQUIRE(complaints == "");
}

TEST_CASE("one thread alone with several ranks is told to use a group", "[world][lifecycle]") {
  // Certain only in a process without other threads: this test binary has none of its own here.
#if defined(__SANITIZE_THREAD__)
  RONDE_SKIP("the thread sanitizer has a thread of its own, which might make the other ranks' calls for all the library knows");
#endif
  ncclComm_t comms[2];
  REQUIRE(ncclCommInitAll(comms, 2, nullptr) == ncclSuccess);
  int x = 1;
  CHECK(ncclAllReduce(&x, &x, 1, ncclInt32, ncclSum, comms[0], nullptr) == ncclInvalidUsage);
  CHECK(contains(ncclGetLastError(comms[0]), "between ncclGroupStart and ncclGroupEnd"));
  ncclComm_t child = nullptr;
  CHECK(ncclCommSplit(comms[1], 0, 0, &child, nullptr) == ncclInvalidUsage);
  CHECK(contains(ncclGetLastError(comms[1]), "between ncclGroupStart and ncclGroupEnd"));
  for (ncclComm_t comm : comms) CHECK(ncclCommAbort(comm) == ncclSuccess);
}

TEST_CASE("two threads in one communicator at once", "[world][lifecycle]") {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclComm_t comms[2] = {};
  REQUIRE(run_threads(2, [&](int rank) { return check_code("init", ncclCommInitRank(&comms[rank], 2, id, rank)); }) == "");
  std::thread first([&] {
    int x = 0;
    while (ncclRecv(&x, 1, ncclInt32, 1, comms[0], nullptr) == ncclInvalidUsage) std::this_thread::yield();  // the other thread was inside
  });
  int x = 5;
  ncclResult_t code = ncclSuccess;
  while (code == ncclSuccess) code = ncclBroadcast(&x, &x, 0, ncclInt32, 0, comms[0], nullptr);  // until the other thread is inside
  CHECK(code == ncclInvalidUsage);
  CHECK(contains(ncclGetLastError(nullptr), "two threads"));
  CHECK(ncclSend(&x, 1, ncclInt32, 0, comms[1], nullptr) == ncclSuccess);
  first.join();
  for (ncclComm_t comm : comms) CHECK(ncclCommAbort(comm) == ncclSuccess);
}

TEST_CASE("GroupSimulateEnd estimates and runs nothing; explain says why", "[world][lifecycle]") {
  const std::string complaints = run_world(2, [](ncclComm_t comm, int) -> std::string {
    std::vector<float> data(1 << 20, 1.0f);
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    RONDE_RANK_OK(ncclGroupStart());
    RONDE_RANK_OK(ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comm, nullptr));
    RONDE_RANK_OK(ncclGroupSimulateEnd(&info));
    if (!(info.estimatedTime > 0) || data[0] != 1.0f) return "estimate " + std::to_string(info.estimatedTime);
    rondeChoice_t choice{};
    choice.size = sizeof choice;
    RONDE_RANK_OK(rondeExplain(comm, rondeAllReduce, data.size(), ncclFloat32, ncclSum, 0, &choice));
    if (choice.algorithm[0] == '\0' || choice.reason[0] == '\0' || std::string(choice.transport) != "inproc") return "empty explanation";
    return "";
  });
  REQUIRE(complaints == "");
}
