// Inits, Splits and Shrinks that do not go well: ranks that do not come, several at once, aborts, and parents that go in between.
#include <pthread.h>
#include <atomic>
#include <chrono>
#include <vector>

#include "support/catch.h"
#include "support/world.h"

using namespace ronde::test;

namespace {

using Clock = std::chrono::steady_clock;

/// One communicator for each rank, made by threads.
std::vector<ncclComm_t> make_comms(int n, const ncclConfig_t* config = nullptr) {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  std::vector<ncclComm_t> comms(static_cast<size_t>(n));
  const std::string made = run_threads(n, [&](int rank) -> std::string {
    ncclConfig_t own = NCCL_CONFIG_INITIALIZER;
    if (config != nullptr) own = *config;
    RONDE_RANK_OK(ncclCommInitRankConfig(&comms[static_cast<size_t>(rank)], n, id, rank, &own));
    return "";
  });
  REQUIRE(made == "");
  return comms;
}

ncclConfig_t non_blocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

/// Polls until the communicator is up or has failed.
ncclResult_t outcome(ncclComm_t comm) {
  ncclResult_t code = ncclInProgress;
  while (code == ncclInProgress && ncclCommGetAsyncError(comm, &code) == ncclSuccess) std::this_thread::yield();
  return code;
}

/// "" if `child` has `want` parents' ranks in this order, `rank` among them: each says who it is.
std::string members_are(ncclComm_t child, int rank, const std::vector<int>& want) {
  int size = 0;
  RONDE_RANK_OK(ncclCommCount(child, &size));
  if (size != static_cast<int>(want.size())) return "size " + std::to_string(size) + ", expected " + std::to_string(want.size());
  std::vector<int> got(want.size());
  RONDE_RANK_OK(ncclAllGather(&rank, got.data(), 1, ncclInt32, child, nullptr));
  if (got == want) return "";
  std::string text = "members";
  for (const int member : got) text += " " + std::to_string(member);
  return text;
}

}  // namespace

TEST_CASE("a rank that does not come to Split or Shrink is named within the init timeout", "[world][children]") {
  const ScopedEnv limit{{"RONDE_INIT_TIMEOUT", "1"}};
  const bool shrinks = GENERATE(false, true);
  const auto comms = make_comms(6);
  const auto begin = Clock::now();
  // Shrink excludes rank 0, so that the ranks' numbers in the child would be others; rank 1 is the one that is missed.
  const std::string complaints = run_threads(6, [&](int rank) -> std::string {
    if (rank == 1 || (shrinks && rank == 0)) return "";
    ncclComm_t child = nullptr;
    int gone = 0;
    const ncclResult_t code = shrinks ? ncclCommShrink(comms[static_cast<size_t>(rank)], &gone, 1, &child, nullptr, NCCL_SHRINK_DEFAULT)
                                      : ncclCommSplit(comms[static_cast<size_t>(rank)], 0, 0, &child, nullptr);
    const std::string text = ncclGetLastError(nullptr);
    if (code != ncclRemoteError || child != nullptr) return "code " + std::to_string(code) + ": " + text;
    return contains(text, "rank 1 did not come to " + std::string(shrinks ? "Shrink" : "Split")) ? "" : text;
  });
  CHECK(complaints == "");
  CHECK(Clock::now() - begin < std::chrono::seconds(4));
  // The parents have taken no harm.
  CHECK(run_threads(6, [&](int rank) -> std::string {
          int one = 1, sum = 0;
          RONDE_RANK_OK(ncclAllReduce(&one, &sum, 1, ncclInt32, ncclSum, comms[static_cast<size_t>(rank)], nullptr));
          return sum == 6 ? "" : "sum " + std::to_string(sum);
        }) == "");
  for (const ncclComm_t comm : comms) CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

TEST_CASE("Abort of a child that is still being made returns, and tells the others", "[world][children]") {
  const bool shrinks = GENERATE(false, true);
  const auto comms = make_comms(3);
  ncclConfig_t config = non_blocking();
  ncclComm_t children[2] = {};
  int gone = 2;
  for (int rank = 0; rank < 2; ++rank) {  // rank 2 does not come to Split, and rank 1 is late for Shrink
    if (shrinks && rank == 1) continue;
    const ncclResult_t code = shrinks ? ncclCommShrink(comms[rank], &gone, 1, &children[rank], &config, NCCL_SHRINK_DEFAULT)
                                      : ncclCommSplit(comms[rank], 0, 0, &children[rank], &config);
    REQUIRE(code == ncclInProgress);
  }
  const auto begin = Clock::now();
  CHECK(ncclCommAbort(children[0]) == ncclSuccess);
  CHECK(Clock::now() - begin < std::chrono::seconds(1));
  if (shrinks) REQUIRE(ncclCommShrink(comms[1], &gone, 1, &children[1], &config, NCCL_SHRINK_DEFAULT) == ncclInProgress);
  CHECK(outcome(children[1]) == ncclRemoteError);
  CHECK(Clock::now() - begin < std::chrono::seconds(2));
  CHECK(ncclCommAbort(children[1]) == ncclSuccess);
  // Splits are matched in the order of the calls: rank 2 is late for the first, which has failed, and all meet in the next.
  ncclComm_t late = nullptr;
  if (!shrinks) CHECK(ncclCommSplit(comms[2], 0, 0, &late, nullptr) == ncclRemoteError);
  CHECK(run_threads(3, [&](int rank) -> std::string {
          ncclComm_t child = nullptr;
          RONDE_RANK_OK(ncclCommSplit(comms[static_cast<size_t>(rank)], 0, -rank, &child, nullptr));
          const std::string complaint = members_are(child, rank, {2, 1, 0});
          return complaint.empty() ? check_code("destroy", ncclCommDestroy(child)) : complaint;
        }) == "");
  for (const ncclComm_t comm : comms) CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

TEST_CASE("several splits of one parent at once keep apart", "[world][children]") {
  const bool grouped = GENERATE(true, false);
  const auto comms = make_comms(4);
  const std::string complaints = run_threads(4, [&](int rank) -> std::string {
    const ncclComm_t comm = comms[static_cast<size_t>(rank)];
    ncclConfig_t config = non_blocking();
    for (int round = 0; round < 100; ++round) {
      ncclComm_t halves = nullptr, all = nullptr;
      if (grouped) RONDE_RANK_OK(ncclGroupStart());
      // In odd rounds the first split is that of all.
      for (int i = 0; i < 2; ++i) {
        const bool of_all = (i + round) % 2 == 1;
        const ncclResult_t code = of_all ? ncclCommSplit(comm, 7, -rank, &all, grouped ? nullptr : &config)
                                         : ncclCommSplit(comm, rank % 2, rank, &halves, grouped ? nullptr : &config);
        if (code != (grouped ? ncclSuccess : ncclInProgress)) return check_code("split", code);
      }
      if (grouped) RONDE_RANK_OK(ncclGroupEnd());
      int size = 0, place = -1;
      RONDE_RANK_OK(outcome(halves));
      RONDE_RANK_OK(outcome(all));
      RONDE_RANK_OK(ncclCommCount(halves, &size));
      RONDE_RANK_OK(ncclCommUserRank(halves, &place));
      if (size != 2 || place != rank / 2) return "half: size " + std::to_string(size) + ", rank " + std::to_string(place);
      RONDE_RANK_OK(ncclCommCount(all, &size));
      RONDE_RANK_OK(ncclCommUserRank(all, &place));
      if (size != 4 || place != 3 - rank) return "all: size " + std::to_string(size) + ", rank " + std::to_string(place);
      if (grouped) {
        const std::string complaint = members_are(halves, rank, {rank % 2, rank % 2 + 2}) + members_are(all, rank, {3, 2, 1, 0});
        if (!complaint.empty()) return complaint;
      }
      RONDE_RANK_OK(ncclCommDestroy(halves));
      RONDE_RANK_OK(ncclCommDestroy(all));
    }
    return "";
  });
  CHECK(complaints == "");
  for (const ncclComm_t comm : comms) CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

TEST_CASE("a group of inits whose threads cannot be started fails at once, as a whole", "[world][children]") {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  pthread_attr_t usual, huge;
  REQUIRE(pthread_getattr_default_np(&usual) == 0);
  REQUIRE(pthread_getattr_default_np(&huge) == 0);
  REQUIRE(pthread_attr_setstacksize(&huge, size_t{1} << 46) == 0);  // more than an address space has
  ncclComm_t comms[3] = {};
  const auto begin = Clock::now();
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (int rank = 0; rank < 3; ++rank) CHECK(ncclCommInitRank(&comms[rank], 3, id, rank) == ncclSuccess);
  REQUIRE(pthread_setattr_default_np(&huge) == 0);
  const ncclResult_t code = ncclGroupEnd();
  REQUIRE(pthread_setattr_default_np(&usual) == 0);
  CHECK(code == ncclSystemError);
  CHECK(contains(ncclGetLastError(nullptr), "starting the thread"));
  CHECK(Clock::now() - begin < std::chrono::seconds(2));
  for (const ncclComm_t comm : comms) CHECK(comm == nullptr);
  pthread_attr_destroy(&usual);
  pthread_attr_destroy(&huge);
}

TEST_CASE("Revoke of a communicator that is still coming up is not forgotten", "[world][children]") {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclConfig_t config = non_blocking();
  ncclComm_t comms[2] = {};
  REQUIRE(ncclCommInitRankConfig(&comms[0], 2, id, 0, &config) == ncclInProgress);
  REQUIRE(ncclCommRevoke(comms[0], NCCL_REVOKE_DEFAULT) == ncclSuccess);
  REQUIRE(ncclCommInitRankConfig(&comms[1], 2, id, 1, &config) == ncclInProgress);
  CHECK(outcome(comms[0]) == ncclRemoteError);
  char text[512] = "";
  CHECK(rondeCommGetLastError(comms[0], text, sizeof text) == ncclSuccess);
  CHECK(contains(text, "revoked while it was being initialised"));
  int x = 1;
  CHECK(ncclAllReduce(&x, &x, 1, ncclInt32, ncclSum, comms[0], nullptr) == ncclInvalidUsage);
  // Its peer is told as well.
  const ncclResult_t up = outcome(comms[1]);
  const ncclResult_t code = up != ncclSuccess ? up : ncclAllReduce(&x, &x, 1, ncclInt32, ncclSum, comms[1], nullptr);
  CHECK((code == ncclInProgress ? outcome(comms[1]) : code) == ncclRemoteError);
  for (const ncclComm_t comm : comms) CHECK(ncclCommAbort(comm) == ncclSuccess);
}

TEST_CASE("a parent may go while a split without color is still answered", "[world][children]") {
  const bool aborts = GENERATE(false, true);
  const auto comms = make_comms(2);
  ncclConfig_t config = non_blocking();
  std::atomic<bool> asked{false};
  const std::string complaints = run_threads(2, [&](int rank) -> std::string {
    if (rank == 0) {
      for (int i = 0; i < 2; ++i) {
        ncclComm_t none = nullptr;
        const ncclResult_t code = ncclCommSplit(comms[0], NCCL_SPLIT_NOCOLOR, 0, &none, &config);
        if (none != nullptr || code != ncclInProgress) return check_code("split", code);
      }
      asked = true;
      const auto begin = Clock::now();
      RONDE_RANK_OK(aborts ? ncclCommAbort(comms[0]) : ncclCommDestroy(comms[0]));  // which waits for rank 1
      return aborts && Clock::now() - begin > std::chrono::seconds(1) ? "Abort took long" : "";
    }
    while (!asked) std::this_thread::yield();
    for (int i = 0; i < 2; ++i) {
      ncclComm_t child = nullptr;
      const ncclResult_t code = ncclCommSplit(comms[1], 0, 0, &child, nullptr);
      if (aborts && (code == ncclSuccess || code == ncclRemoteError)) {  // rank 0 may have answered before it left
        if (child != nullptr) RONDE_RANK_OK(ncclCommAbort(child));
        continue;
      }
      if (code != ncclSuccess) return check_code("split", code);
      const std::string complaint = members_are(child, 1, {1});
      if (!complaint.empty()) return complaint;
      RONDE_RANK_OK(ncclCommDestroy(child));
    }
    return check_code("end", ncclCommAbort(comms[1]));
  });
  CHECK(complaints == "");
}
