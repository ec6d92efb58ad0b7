// Waits between ranks of several hosts: those that can never end are found, and no other.
#include <atomic>
#include <chrono>

#include "support/catch.h"
#include "support/example_net.h"
#include "support/world.h"

using namespace ronde::test;

namespace {

constexpr size_t kBig = size_t{32} << 20;  // more than slots and sockets hold

ncclResult_t send(ncclComm_t comm, int to, std::vector<char>& data) { return ncclSend(data.data(), data.size(), ncclInt8, to, comm, nullptr); }
ncclResult_t receive(ncclComm_t comm, int from, std::vector<char>& data) { return ncclRecv(data.data(), data.size(), ncclInt8, from, comm, nullptr); }

ncclResult_t all_reduce(ncclComm_t comm, std::vector<char>& data) {
  return ncclAllReduce(data.data(), data.data(), data.size(), ncclInt8, ncclSum, comm, nullptr);
}

void stay_away(int milliseconds) {
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(milliseconds)) std::this_thread::yield();
}

/// So long that a cycle would have been found several times.
constexpr int kLong = 1500;

}  // namespace

TEST_CASE("hosts: two ranks that send to each other", "[world][hosts]") {
  const ScopedEnv env({{"RONDE_HOSTS", "2"}});
  std::vector<char> data[2] = {std::vector<char>(kBig), std::vector<char>(kBig)};
  CHECK(expect_invalid_usage(2, [&](ncclComm_t c, int r) { return send(c, 1 - r, data[r]); },
                             {"ranks 0, 1 wait for each other", "rank 0 is in Send(count 33554432, int8, to rank 1)",
                              "rank 1 is in Send(count 33554432, int8, to rank 0)", "group"}) == "");
}

TEST_CASE("hosts: two ranks that receive from each other, over links that are not open yet", "[world][hosts]") {
  const ScopedEnv env({{"RONDE_HOSTS", "2"}});
  std::vector<char> data[2] = {std::vector<char>(10), std::vector<char>(10)};
  CHECK(expect_invalid_usage(2, [&](ncclComm_t c, int r) { return receive(c, 1 - r, data[r]); },
                             {"ranks 0, 1 wait for each other", "rank 0 is in Recv(count 10, int8, from rank 1)", "rank 1 is in Recv"}) == "");
}

TEST_CASE("hosts: a ring of waits through several hosts", "[world][hosts]") {
  const char* hosts = GENERATE("0,0,1", "0,1,0", "3");
  const bool sends = GENERATE(true, false);
  CAPTURE(hosts, sends);
  const ScopedEnv env({{"RONDE_HOSTS", hosts}});
  std::vector<char> data[3] = {std::vector<char>(kBig), std::vector<char>(kBig), std::vector<char>(kBig)};
  CHECK(expect_invalid_usage(3, [&](ncclComm_t c, int r) { return sends ? send(c, (r + 1) % 3, data[r]) : receive(c, (r + 1) % 3, data[r]); },
                             {"ranks 0-2 wait for each other", "rank 0 is in", "rank 1 is in", "rank 2 is in"}) == "");
}

TEST_CASE("hosts: a rank in a message, the others in a collective", "[world][hosts]") {
  const ScopedEnv env({{"RONDE_HOSTS", "0,1,1,2"}});
  std::vector<char> data[4];
  for (auto& one : data) one.resize(1000);
  CHECK(expect_invalid_usage(4, [&](ncclComm_t c, int r) { return r == 0 ? receive(c, 1, data[r]) : all_reduce(c, data[r]); },
                             {"wait for each other", "Recv(count 1000, int8, from rank 1)", "AllReduce"}) == "");
}

TEST_CASE("hosts: a cycle of two among ranks that wait for it", "[world][hosts]") {
  const ScopedEnv env({{"RONDE_HOSTS", "5"}});
  std::vector<char> data[5];
  for (auto& one : data) one.resize(100);
  CHECK(expect_invalid_usage(5, [&](ncclComm_t c, int r) { return receive(c, r == 4 ? 3 : r + 1, data[r]); },
                             {"ranks 3, 4 wait for each other", "rank 3 is in Recv(count 100, int8, from rank 4)", "rank 4 is in Recv(count 100, int8, from rank 3)"}) == "");
}

TEST_CASE("hosts: many ranks wait for each other", "[world][hosts]") {
  const ScopedEnv env({{"RONDE_HOSTS", "8"}});
  constexpr int kRanks = 24;
  std::vector<std::vector<char>> data(kRanks, std::vector<char>(10));
  CHECK(expect_invalid_usage(kRanks, [&](ncclComm_t c, int r) { return receive(c, (r + 7) % kRanks, data[static_cast<size_t>(r)]); },
                             {"ranks 0-23 wait for each other", "rank 0 is in Recv(count 10, int8, from rank 7)"}) == "");
}

TEST_CASE("hosts: what can never end is found while other communicators keep the network busy", "[world][hosts]") {
  const bool cycle = GENERATE(true, false);
  const ScopedEnv env({{"RONDE_HOSTS", "2"}});
  std::atomic<bool> over{false};
  std::string busy;
  std::thread others([&] {
    busy = run_world(2, [&](ncclComm_t comm, int rank) -> std::string {
      std::vector<char> data(2'000'000);
      do {
        data[0] = rank == 0 && !over ? 1 : 0;
        RONDE_RANK_OK(all_reduce(comm, data));
      } while (data[0] != 0);
      return "";
    });
  });
  std::vector<char> data[2] = {std::vector<char>(100), std::vector<char>(101)};
  const std::string complaints = expect_invalid_usage(2, [&](ncclComm_t c, int r) { return cycle ? receive(c, 1 - r, data[r]) : all_reduce(c, data[r]); },
                                                      {cycle ? "ranks 0, 1 wait for each other" : "count 101"});
  over = true;
  others.join();
  CHECK(complaints == "");
  CHECK(busy == "");
}

TEST_CASE("hosts: a chain of waits whose end is in user code", "[world][hosts]") {
  const ScopedEnv env({{"RONDE_HOSTS", GENERATE("4", "0,1,0,1")}});
  CHECK(run_world(4, [](ncclComm_t comm, int rank) -> std::string {
    std::vector<char> data(100);
    if (rank == 3) stay_away(kLong);
    if (rank != 3) RONDE_RANK_OK(receive(comm, rank + 1, data));
    if (rank != 0) RONDE_RANK_OK(send(comm, rank - 1, data));
    RONDE_RANK_OK(all_reduce(comm, data));
    return "";
  }) == "");
}

TEST_CASE("hosts: all wait in a collective for one that is late", "[world][hosts]") {
  const ScopedEnv env({{"RONDE_HOSTS", "3"}});
  CHECK(run_world(6, [](ncclComm_t comm, int rank) -> std::string {
    std::vector<char> data(100'000, 1);
    if (rank == 2) stay_away(kLong);
    RONDE_RANK_OK(all_reduce(comm, data));
    return data[0] == 6 && data.back() == 6 ? "" : "wrong sum";
  }) == "");
}

TEST_CASE("hosts: ranks that wait for what is on its way", "[world][hosts]") {
  const ExampleNet net("12");
  const ScopedEnv env({{"RONDE_HOSTS", "2"}, {"NCCL_NET_PLUGIN", net.path()}});
  // What is not up is asked once in 10 ms, what is under way some 20 times a ms, and each end of each connection in turn.
  const auto [slow, times] = GENERATE(table<const char*, int>({{"isend", kLong * 20}, {"test", kLong * 80}, {"connect", kLong / 10}, {"accept", kLong / 10}}));
  CAPTURE(slow);
  const bool connects = times < kLong;
  CHECK(run_world(2, [&, slow = slow, times = times](ncclComm_t comm, int rank) -> std::string {
    std::vector<char> data(1000, static_cast<char>(rank));
    if (!connects) {  // the connections are up
      RONDE_RANK_OK(rank == 0 ? send(comm, 1, data) : receive(comm, 0, data));
      RONDE_RANK_OK(rank == 1 ? send(comm, 0, data) : receive(comm, 1, data));
    }
    if (rank == 0) net.order(slow, 0, 0, times);
    // Each sends without waiting, and then both wait for what is on its way to rank 1.
    if (rank == 0) RONDE_RANK_OK(send(comm, 1, data));
    if (rank == 1) RONDE_RANK_OK(receive(comm, 0, data));
    if (rank == 1) RONDE_RANK_OK(send(comm, 0, data));
    if (rank == 0) RONDE_RANK_OK(receive(comm, 1, data));
    return data == std::vector<char>(1000, 0) ? "" : "wrong data";
  }) == "");
  net.check();
}
