// Ranks that pretend to be on several hosts: what a network between them must not change, and what only a network can do wrong.
#include <numeric>

#include "ronde.h"
#include "support/catch.h"
#include "support/world.h"

using namespace ronde::test;

namespace {

std::string last_error(ncclComm_t comm) { return ncclGetLastError(comm); }

}  // namespace

TEST_CASE("hosts: a Send that was copied arrives after its rank has left", "[world][hosts]") {
  const ScopedEnv env({{"RONDE_HOSTS", "2"}, {"RONDE_BUFFSIZE", "16384"}});
  for (int round = 0; round < 5; ++round) {
    REQUIRE(run_world(2, [&](ncclComm_t comm, int rank) -> std::string {
      std::vector<int> data(5000);
      std::iota(data.begin(), data.end(), round);
      if (rank == 0) {
        RONDE_RANK_OK(ncclSend(data.data(), data.size(), ncclInt32, 1, comm, nullptr));
        return "";
      }
      int one = 1;
      std::vector<int> got(data.size());
      RONDE_RANK_OK(ncclRecv(got.data(), got.size(), ncclInt32, 0, comm, nullptr));
      return got == data && one == 1 ? "" : "the data is wrong";
    }) == "");
  }
}

TEST_CASE("hosts: large lent buffers, odd addresses", "[world][hosts]") {
  const ScopedEnv env({{"RONDE_HOSTS", "2"}});
  const size_t count = (size_t{3} << 20) + 5;
  REQUIRE(run_world(2, [&](ncclComm_t comm, int rank) -> std::string {
    std::vector<char> in(count + 1), out(count + 3);
    for (size_t i = 0; i < count; ++i) in[i + 1] = static_cast<char>((i * 7 + static_cast<size_t>(rank)) % 61);
    RONDE_RANK_OK(ncclAllReduce(in.data() + 1, out.data() + 3, count, ncclInt8, ncclSum, comm, nullptr));
    for (size_t i = 0; i < count; ++i) {
      if (out[i + 3] != static_cast<char>((i * 7) % 61 + (i * 7 + 1) % 61)) return "wrong at " + std::to_string(i);
    }
    return "";
  }) == "");
}

TEST_CASE("hosts: an abort ends the calls of ranks elsewhere, and says so", "[world][hosts]") {
  const ScopedEnv env({{"RONDE_HOSTS", "0,1,1"}});
  REQUIRE(run_world(3, [](ncclComm_t comm, int rank) -> std::string {
    std::vector<float> data(100000);
    if (rank == 0) {
      RONDE_RANK_OK(ncclCommAbort(comm));
      return "";
    }
    const ncclResult_t code = failure_of(comm, ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat, ncclSum, comm, nullptr));
    const std::string text = last_error(comm);
    ncclCommAbort(comm);
    if (code != ncclRemoteError) return "code " + std::to_string(code);
    return contains(text, "aborted") ? "" : text;  // rank 0, or the one that gave up because of it
  }, false) == "");
}

TEST_CASE("hosts: a call that differs is named on both, and so is one that never comes", "[world][hosts]") {
  SECTION("another count") {
    const ScopedEnv env({{"RONDE_HOSTS", "2"}});
    REQUIRE(run_world(2, [](ncclComm_t comm, int rank) -> std::string {
      std::vector<float> data(1000);
      const size_t count = rank == 0 ? 1000 : 999;
      const ncclResult_t code = failure_of(comm, ncclAllReduce(data.data(), data.data(), count, ncclFloat, ncclSum, comm, nullptr));
      const std::string text = last_error(comm);
      ncclCommAbort(comm);
      if (code != ncclInvalidUsage) return "code " + std::to_string(code) + ": " + text;
      return contains(text, "count 1000") && contains(text, "count 999") ? "" : text;
    }, false) == "");
  }
  SECTION("another collective, both waiting") {
    const ScopedEnv env({{"RONDE_HOSTS", "2"}});
    REQUIRE(run_world(2, [](ncclComm_t comm, int rank) -> std::string {
      std::vector<float> data(1000);
      const ncclResult_t made = rank == 0 ? ncclBroadcast(data.data(), data.data(), 1000, ncclFloat, 1, comm, nullptr)
                                          : ncclReduce(data.data(), data.data(), 1000, ncclFloat, ncclSum, 1, comm, nullptr);
      const ncclResult_t code = failure_of(comm, made);
      const std::string text = last_error(comm);
      ncclCommAbort(comm);
      if (code != ncclInvalidUsage) return "code " + std::to_string(code) + ": " + text;
      return contains(text, "Broadcast") && contains(text, "Reduce") ? "" : text;
    }, false) == "");
  }
  SECTION("nothing at all") {
    const ScopedEnv env({{"RONDE_HOSTS", "2"}, {"RONDE_TIMEOUT", "0.5"}});
    REQUIRE(run_world(2, [](ncclComm_t comm, int rank) -> std::string {
      float one = 1;
      const ncclResult_t made = rank == 0 ? ncclSuccess : ncclAllReduce(&one, &one, 1, ncclFloat, ncclSum, comm, nullptr);
      const ncclResult_t code = failure_of(comm, made);
      const std::string text = last_error(comm);
      ncclCommAbort(comm);
      if (code != ncclRemoteError) return "code " + std::to_string(code) + ": " + text;
      if (rank == 0) return "";  // it has called nothing that could keep a text
      return contains(text, "rank 0, which has not called it") && contains(text, "RONDE_TIMEOUT") ? "" : text;
    }, false) == "");
  }
}

TEST_CASE("hosts: what cannot be is said before anything is sent", "[world][hosts]") {
  const auto init = [](const char* hosts, const char* net) {
    const ScopedEnv env({{"RONDE_HOSTS", hosts}, {"NCCL_NET", net}});
    std::string text;
    ncclUniqueId id;
    REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
    const std::string complaints = run_threads(2, [&](int rank) -> std::string {
      ncclComm_t comm = nullptr;
      const ncclResult_t code = ncclCommInitRank(&comm, 2, id, rank);
      if (code == ncclSuccess) ncclCommDestroy(comm);
      return std::to_string(code) + " " + ncclGetLastError(nullptr);
    });
    return complaints;
  };
  CHECK(contains(init("0,1,2", ""), "RONDE_HOSTS=0,1,2: expected a number of hosts"));
  CHECK(contains(init("0,x", ""), "RONDE_HOSTS=0,x: expected a number of hosts"));
  CHECK(contains(init("-1", ""), "RONDE_HOSTS=-1: expected a number of hosts"));
  CHECK(contains(init("2", "Carrier pigeon"), "there is no network \"Carrier pigeon\" (NCCL_NET)"));
  CHECK(contains(init("1", "Carrier pigeon"), "rank 0: 0"));  // no network is needed
}

TEST_CASE("hosts: a rank says how it reaches another host", "[world][hosts]") {
  const ScopedEnv env({{"RONDE_HOSTS", "0,0,1"}, {"NCCL_NET", "socket"}});
  REQUIRE(run_world(3, [](ncclComm_t comm, int rank) -> std::string {
    rondeChoice_t all{};
    all.size = sizeof all;
    RONDE_RANK_OK(rondeExplain(comm, rondeAllReduce, 100, ncclFloat, ncclSum, 0, &all));
    if (all.transport != std::string(rank == 2 ? "NET/Socket" : "inproc+NET/Socket")) return std::string("all: ") + all.transport;
    const auto way = [&](int peer) -> std::string {
      rondeChoice_t choice{};
      choice.size = sizeof choice;
      const ncclResult_t code = rondeExplain(comm, rondeSend, 1, ncclFloat, ncclSum, peer, &choice);
      return code == ncclSuccess ? choice.transport : ncclGetErrorString(code);
    };
    for (int peer = 0; peer < 3; ++peer) {
      if (peer == rank) continue;
      const std::string expected = (peer == 2) != (rank == 2) ? "NET/Socket" : "inproc";
      if (way(peer) != expected) return "to " + std::to_string(peer) + ": " + way(peer);
    }
    return "";
  }) == "");
}
