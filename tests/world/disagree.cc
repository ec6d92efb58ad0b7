// Ranks that call different things get ncclInvalidUsage on all of them, with both calls named; nothing hangs.
#include <chrono>

#include "support/catch.h"
#include "support/world.h"

using namespace ronde::test;

namespace {

std::string last_error(ncclComm_t comm) {
  char text[2048] = "";
  rondeCommGetLastError(comm, text, sizeof text);
  return text;
}

/// Waits until the communicator has failed (it has, where `code` says so), aborts it, and gives the text of its ncclRemoteError; of any other code, the code.
std::string remote_error_of(ncclComm_t comm, ncclResult_t code) {
  code = failure_of(comm, code);
  const std::string text = last_error(comm);
  ncclCommAbort(comm);
  return code == ncclRemoteError ? text : "code " + std::to_string(code);
}

void expect_disagreement(const std::function<ncclResult_t(ncclComm_t, int)>& body, const std::vector<std::string>& parts, int ranks = 3) {
  REQUIRE(expect_invalid_usage(ranks, body, parts) == "");
}

float buffer[3][64];

}  // namespace

TEST_CASE("different counts", "[world][disagree]") {
  expect_disagreement([](ncclComm_t c, int r) { return ncclAllReduce(buffer[r], buffer[r], r == 1 ? 11 : 10, ncclFloat32, ncclSum, c, nullptr); },
                      {"AllReduce(count 10, float, sum)", "AllReduce(count 11, float, sum)", "rank 1"});
}

TEST_CASE("different types and operations", "[world][disagree]") {
  expect_disagreement([](ncclComm_t c, int r) { return ncclAllReduce(buffer[r], buffer[r], 10, r == 2 ? ncclInt32 : ncclFloat32, ncclSum, c, nullptr); },
                      {"int32", "float", "rank 2"});
  expect_disagreement([](ncclComm_t c, int r) { return ncclAllReduce(buffer[r], buffer[r], 10, ncclFloat32, r == 0 ? ncclMax : ncclSum, c, nullptr); },
                      {"max", "sum", "rank 0"});
}

TEST_CASE("different collectives, also when one returns early", "[world][disagree]") {
  expect_disagreement([](ncclComm_t c, int r) {
    return r == 0 ? ncclBroadcast(buffer[r], buffer[r], 10, ncclFloat32, 0, c, nullptr) : ncclAllReduce(buffer[r], buffer[r], 10, ncclFloat32, ncclSum, c, nullptr);
  }, {"Broadcast(count 10, float, root 0)", "AllReduce(count 10, float, sum)"});
}

TEST_CASE("different roots", "[world][disagree]") {
  expect_disagreement([](ncclComm_t c, int r) { return ncclReduce(buffer[r], buffer[r], 10, ncclFloat32, ncclSum, r == 0 ? 0 : 1, c, nullptr); },
                      {"root 0", "root 1"});
}

TEST_CASE("a count of zero against others", "[world][disagree]") {
  expect_disagreement([](ncclComm_t c, int r) { return ncclAllReduce(buffer[r], buffer[r], r == 0 ? 0 : 10, ncclFloat32, ncclSum, c, nullptr); },
                      {"count 0", "count 10", "rank 0"});
}

TEST_CASE("different order", "[world][disagree]") {
  expect_disagreement([](ncclComm_t c, int r) {
    for (int i = 0; i < 2; ++i) {
      const bool gather = (i == 0) == (r == 0);
      static float all[3][256];
      const ncclResult_t code = gather ? ncclAllGather(buffer[r], all[r], 10, ncclFloat32, c, nullptr)
                                       : ncclAllReduce(buffer[r], buffer[r], 10, ncclFloat32, ncclSum, c, nullptr);
      if (code != ncclSuccess) return code;
    }
    return ncclSuccess;
  }, {"AllGather", "AllReduce", "number 0"});
}

TEST_CASE("Send and Recv of different size or type", "[world][disagree]") {
  expect_disagreement([](ncclComm_t c, int r) {
    return r == 0 ? ncclSend(buffer[r], 10, ncclFloat32, 1, c, nullptr) : ncclRecv(buffer[r], 12, ncclFloat32, 0, c, nullptr);
  }, {"Send(count 10, float, to rank 1)", "Recv(count 12, float, from rank 0)"}, 2);
}

TEST_CASE("a closed cycle of waits is found", "[world][disagree]") {
  const ScopedEnv env({{"RONDE_EAGER_LIMIT", "1024"}});
  static std::vector<float> big[3];
  expect_disagreement([](ncclComm_t c, int r) {
    big[r].resize(100'000);
    return ncclSend(big[r].data(), big[r].size(), ncclFloat32, (r + 1) % 3, c, nullptr);  // all send, nobody receives
  }, {"wait for each other", "Send(count 100000, float, to rank", "group"});
}

TEST_CASE("one rank in a message, the others in a collective: a cycle", "[world][disagree]") {
  expect_disagreement([](ncclComm_t c, int r) {
    return r == 0 ? ncclRecv(buffer[r], 10, ncclFloat32, 1, c, nullptr) : ncclAllReduce(buffer[r], buffer[r], 10, ncclFloat32, ncclSum, c, nullptr);
  }, {"wait for each other", "Recv(count 10, float, from rank 1)", "AllReduce"});
}

TEST_CASE("a slow rank is no disagreement", "[world][disagree]") {
  // Rank 1 comes when the others have waited long enough for several looks at why.
  const std::string complaints = run_world(3, [](ncclComm_t comm, int rank) -> std::string {
    if (rank == 1) {
      const auto start = std::chrono::steady_clock::now();
      while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(700)) std::this_thread::yield();
    }
    int one = 1, sum = 0;
    RONDE_RANK_OK(ncclAllReduce(&one, &sum, 1, ncclInt32, ncclSum, comm, nullptr));
    return sum == 3 ? "" : "wrong sum";
  });
  REQUIRE(complaints == "");
}

TEST_CASE("large blocks of different sizes, where one rank takes back what it lent", "[world][disagree]") {
  std::vector<float> in[3], out[3];
  for (auto* buffers : {in, out}) {
    for (int r = 0; r < 3; ++r) buffers[r].assign(3 * 100'001, 1.0f);
  }
  for (int i = 0; i < 20; ++i) {
    expect_disagreement([&](ncclComm_t c, int r) { return ncclAlltoAll(in[r].data(), out[r].data(), r == 2 ? 100'001 : 100'000, ncclFloat32, c, nullptr); },
                        {"AlltoAll(count 100000, float)", "AlltoAll(count 100001, float)"});
  }
}

TEST_CASE("a rank that splits while the others reduce", "[world][disagree]") {
  for (const int odd : {0, 2}) {
    expect_disagreement([odd](ncclComm_t c, int r) {
      ncclComm_t child = nullptr;
      return r == odd ? ncclAllReduce(buffer[r], buffer[r], 10, ncclFloat32, ncclSum, c, nullptr) : ncclCommSplit(c, 0, 0, &child, nullptr);
    }, {"which is in CommSplit", "AllReduce(count 10, float, sum)", "on rank " + std::to_string(odd)});
  }
}

TEST_CASE("a rank that has finalised does not come any more", "[world][disagree]") {
  expect_disagreement([](ncclComm_t c, int r) {
    return r == 1 ? ncclCommFinalize(c) : ncclAllReduce(buffer[r], buffer[r], 10, ncclFloat32, ncclSum, c, nullptr);
  }, {"rank 1, which has finalised its communicator"});
}

TEST_CASE("RONDE_TIMEOUT names all ranks that have not come, and their messages", "[world][disagree]") {
  const ScopedEnv env({{"RONDE_TIMEOUT", "0.5"}, {"RONDE_ALGO", "ring"}});
  const std::string complaints = run_world(4, [](ncclComm_t comm, int rank) -> std::string {
    int one = 1;
    ncclResult_t code = ncclSuccess;
    if (rank == 1) RONDE_RANK_OK(ncclSend(&one, 1, ncclInt32, 3, comm, nullptr));
    if (rank == 3) RONDE_RANK_OK(ncclRecv(&one, 1, ncclInt32, 1, comm, nullptr));
    if (rank == 3) code = ncclAllReduce(&one, &one, 1, ncclInt32, ncclSum, comm, nullptr);
    const std::string text = remote_error_of(comm, code);
    for (const char* part : {"on rank 3", "ranks 0-2, which have not called it", "rank 0 has called nothing yet", "rank 1 began Send(count 1, int32, to rank 3) last"}) {
      if (!contains(text, part)) return "no \"" + std::string(part) + "\" in: " + text;
    }
    return "";
  }, false);
  REQUIRE(complaints == "");
}

TEST_CASE("RONDE_TIMEOUT ends a wait and names who has not come", "[world][disagree]") {
  const ScopedEnv env({{"RONDE_TIMEOUT", "0.5"}});
  const std::string complaints = run_world(3, [](ncclComm_t comm, int rank) -> std::string {
    ncclResult_t code = ncclSuccess;
    if (rank != 1) {
      int one = 1;
      code = ncclAllReduce(&one, &one, 1, ncclInt32, ncclSum, comm, nullptr);
    }
    const std::string text = remote_error_of(comm, code);
    if (!contains(text, "for rank 1") || !contains(text, "rank 1 has called nothing yet") || !contains(text, "RONDE_TIMEOUT")) return text;
    return "";
  }, false);
  REQUIRE(complaints == "");
}
