// Collectives between hosts, through the C API: every split, decoys, rails, links that fail, strangers.
#include <unistd.h>
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "nccl.h"
#include "net/hosts.h"
#include "net/strangers.h"
#include "ronde.h"
#include "support/world.h"

using namespace ronde;
using namespace ronde::test;

namespace {

using Texts = std::vector<std::string>;
using Values = std::vector<int32_t>;

Texts good(int n) { return Texts(static_cast<size_t>(n)); }

/// What element i of rank's data is.
int32_t value(int rank, size_t i) { return static_cast<int32_t>((rank + 1) * 1000 + static_cast<int>(i % 997)); }

Values data_of(int rank, size_t count) {
  Values data(count);
  for (size_t i = 0; i < count; ++i) data[i] = value(rank, i);
  return data;
}

/// Makes the communicator of a world: rank 0 makes the id. Null where it failed, with the reason in `why`.
ncclComm_t init(HostWorld& world, int rank, std::string& why) {
  setenv("NCCL_HOSTID", ("host" + std::to_string(world.host_of(rank))).c_str(), 1);
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  if (rank == 0) {
    why = check_code("ncclGetUniqueId", ncclGetUniqueId(&id));
    if (!why.empty()) return nullptr;
    world.put(&id, sizeof id);
  } else {
    world.get(&id, sizeof id);
  }
  why = check_code("ncclCommInitRank", ncclCommInitRank(&comm, world.ranks(), id, rank));
  return why.empty() ? comm : nullptr;
}

/// Runs `body` on a communicator of the world; destroys it where all is well.
std::string with_comm(HostWorld& world, int rank, const std::function<std::string(ncclComm_t)>& body) {
  std::string why;
  ncclComm_t comm = init(world, rank, why);
  if (comm == nullptr) return why;
  why = body(comm);
  if (why.empty()) return check_code("ncclCommDestroy", ncclCommDestroy(comm));
  ncclCommAbort(comm);
  return why;
}

std::string all_reduce(ncclComm_t comm, int rank, int ranks, size_t count) {
  const Values mine = data_of(rank, count);
  Values got(count), want(count);
  for (int from = 0; from < ranks; ++from) {
    for (size_t i = 0; i < count; ++i) want[i] += value(from, i);
  }
  RONDE_RANK_OK(ncclAllReduce(mine.data(), got.data(), count, ncclInt32, ncclSum, comm, nullptr));
  return got == want ? "" : "AllReduce of " + std::to_string(count) + ": wrong";
}

std::string reduce_scatter_and_gather(ncclComm_t comm, int rank, int ranks, size_t count) {
  const auto n = static_cast<size_t>(ranks);
  const Values mine = data_of(rank, count * n);
  Values part(count), want(count), all(count * n), want_all;
  for (size_t i = 0; i < count; ++i) {
    for (int from = 0; from < ranks; ++from) want[i] += value(from, static_cast<size_t>(rank) * count + i);
  }
  RONDE_RANK_OK(ncclReduceScatter(mine.data(), part.data(), count, ncclInt32, ncclSum, comm, nullptr));
  if (part != want) return "ReduceScatter of " + std::to_string(count) + ": wrong";
  RONDE_RANK_OK(ncclAllGather(mine.data(), all.data(), count, ncclInt32, comm, nullptr));
  for (int from = 0; from < ranks; ++from) {
    const Values theirs = data_of(from, count);
    want_all.insert(want_all.end(), theirs.begin(), theirs.end());
  }
  return all == want_all ? "" : "AllGather of " + std::to_string(count) + ": wrong";
}

std::string to_and_from_root(ncclComm_t comm, int rank, int ranks, size_t count) {
  const int root = ranks - 1;
  const Values mine = data_of(rank, count);
  Values got(count), want(count);
  RONDE_RANK_OK(ncclBroadcast(mine.data(), got.data(), count, ncclInt32, root, comm, nullptr));
  if (got != data_of(root, count)) return "Broadcast of " + std::to_string(count) + ": wrong";
  RONDE_RANK_OK(ncclReduce(mine.data(), got.data(), count, ncclInt32, ncclSum, root, comm, nullptr));
  for (size_t i = 0; i < count; ++i) {
    for (int from = 0; from < ranks; ++from) want[i] += value(from, i);
  }
  return rank != root || got == want ? "" : "Reduce of " + std::to_string(count) + ": wrong";
}

std::string all_to_all(ncclComm_t comm, int rank, int ranks, size_t count) {
  const auto n = static_cast<size_t>(ranks);
  const Values mine = data_of(rank, count * n);
  Values got(count * n), want;
  RONDE_RANK_OK(ncclGroupStart());
  for (size_t peer = 0; peer < n; ++peer) {
    RONDE_RANK_OK(ncclSend(mine.data() + peer * count, count, ncclInt32, static_cast<int>(peer), comm, nullptr));
    RONDE_RANK_OK(ncclRecv(got.data() + peer * count, count, ncclInt32, static_cast<int>(peer), comm, nullptr));
  }
  RONDE_RANK_OK(ncclGroupEnd());
  for (int from = 0; from < ranks; ++from) {
    for (size_t i = 0; i < count; ++i) want.push_back(value(from, static_cast<size_t>(rank) * count + i));
  }
  return got == want ? "" : "Send and Recv of " + std::to_string(count) + ": wrong";
}

std::string everything(ncclComm_t comm, int rank, int ranks) {
  for (const size_t count : {size_t{0}, size_t{1}, size_t{1021}, size_t{100003}}) {
    for (const auto& call : {all_reduce, reduce_scatter_and_gather, to_and_from_root, all_to_all}) {
      if (std::string complaint = call(comm, rank, ranks, count); !complaint.empty()) return complaint;
    }
  }
  return "";
}

}  // namespace

TEST_CASE("collectives between hosts: any split of ranks", "[net][comm]") {
  RONDE_NEED_HOSTS();
  const std::string split = GENERATE("0/1,2", "0,2/1", "3");
  HostWorld world(3, split);
  CHECK(world.run([&](int rank) { return with_comm(world, rank, [&](ncclComm_t comm) { return everything(comm, rank, 3); }); }) ==
        good(3));
}

TEST_CASE("collectives between hosts: 7 and 8 ranks, one process for each", "[net][comm]") {
  RONDE_NEED_HOSTS();
  HostWorld world(15, "0-6/7-14");
  const Texts texts = world.run(
      [&](int rank) {
        return with_comm(world, rank, [&](ncclComm_t comm) {
          std::string complaint = all_reduce(comm, rank, 15, 1021);
          return complaint.empty() ? all_to_all(comm, rank, 15, 17) : complaint;
        });
      },
      nullptr, 120);
  CHECK(texts == good(15));
}

TEST_CASE("collectives between hosts: interfaces that lead nowhere do not matter", "[net][comm]") {
  RONDE_NEED_HOSTS();
  HostWorld world(3, "0,2/1");
  for (const int host : {0, 1}) {
    world.add_interface(host, "docker0", {"172.17.0.1/16"});
    world.add_interface(host, "virbr0", {"192.168.122.1/24"});
    world.add_interface(host, "en-local", {});  // link-local alone
    world.add_interface(host, "en-down", {"10.99.0." + std::to_string(host + 1) + "/24"});
    world.on_host(host, "ip link set en-down down");
  }
  const Texts texts =
      world.run([&](int rank) { return with_comm(world, rank, [&](ncclComm_t comm) { return everything(comm, rank, 3); }); });
  CHECK(texts == good(3));
}

namespace {

/// Bytes that an interface of this process's host has sent so far.
uint64_t sent_over(const std::string& interface) {
  std::ifstream table("/proc/self/net/dev");
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (name != interface + ":") continue;
    uint64_t value = 0;
    for (int i = 0; i < 9; ++i) words >> value;  // eight columns of what has come, then bytes sent
    return value;
  }
  return 0;
}

}  // namespace

TEST_CASE("collectives between hosts: rates are kept, and two rails share what goes out", "[net][comm]") {
  RONDE_NEED_HOSTS();
  // In rank 0's host while it all-reduces 20 MiB: milliseconds, and KiB sent over each of two rails.
  const auto spent_with = [](const std::vector<double>& rates) {
    run::Links links;
    links.rates = rates;
    HostWorld world(2, "2", links);
    const Texts texts = world.run([&](int rank) {
      return with_comm(world, rank, [&](ncclComm_t comm) {
        std::string complaint = all_reduce(comm, rank, 2, 1 << 20);  // connections are made, buckets emptied
        if (!complaint.empty()) return complaint;
        const uint64_t first = sent_over("eth0"), second = sent_over("eth1");
        const uint64_t begin = now_ns();
        complaint = all_reduce(comm, rank, 2, 5 << 20);
        if (rank != 0) return complaint;
        world.count(0) = static_cast<int>((now_ns() - begin) / kMillisecond);
        world.count(1) = static_cast<int>((sent_over("eth0") - first) >> 10);
        world.count(2) = static_cast<int>((sent_over("eth1") - second) >> 10);
        return complaint;
      });
    });
    CHECK(texts == good(2));
    return std::array<int, 3>{world.count(0), world.count(1), world.count(2)};
  };
  const auto one = spent_with({200e6});
  CAPTURE(one[0], one[1]);
  CHECK(one[0] > 600);  // 20 MiB in each direction at 200 Mbit/s take 840 ms: the rates are kept
  CHECK(one[1] > 20 << 10);
  const auto two = spent_with({200e6, 200e6});
  CAPTURE(two[1], two[2]);
  CHECK(two[1] > 8 << 10);  // each about half
  CHECK(two[2] > 8 << 10);
}

TEST_CASE("collectives between hosts: a link that loses everything for five seconds costs no result", "[net][comm]") {
  RONDE_NEED_HOSTS();
  HostWorld world(3, "0,2/1");
  const Texts texts = world.run(
      [&](int rank) {
        return with_comm(world, rank, [&](ncclComm_t comm) {
          std::string complaint = all_reduce(comm, rank, 3, 100003);
          ++world.count(0);
          if (!comes([&] { return world.count(1) == 1; })) return std::string("the link is not cut");
          const uint64_t begin = now_ns();
          if (complaint.empty()) complaint = everything(comm, rank, 3);
          return complaint.empty() && now_ns() - begin < 4 * kSecond ? "the link was not cut" : complaint;
        });
      },
      [&] {
        CHECK(comes([&] { return world.count(0) == 3; }));
        world.cut(1);
        world.count(1) = 1;
        std::this_thread::sleep_for(std::chrono::seconds(5));  // what is tested
        world.mend(1);
      });
  CHECK(texts == good(3));
}

TEST_CASE("collectives between hosts: a link that loses everything for good is an error that names the peer", "[net][comm]") {
  RONDE_NEED_HOSTS();
  HostWorld world(3, "0,2/1");
  const Texts texts = world.run(
      [&](int rank) -> std::string {
        std::string why;
        ncclComm_t comm = init(world, rank, why);
        if (comm == nullptr) return why;
        why = all_reduce(comm, rank, 3, 100003);
        if (!why.empty()) return why;
        ++world.count(0);
        if (!comes([&] { return world.count(1) == 1; })) return "the link is not cut";
        const uint64_t begin = now_ns();
        Values data(1 << 20);
        const ncclResult_t code =
            failure_of(comm, ncclAllReduce(data.data(), data.data(), data.size(), ncclInt32, ncclSum, comm, nullptr));
        const uint64_t took = now_ns() - begin;
        char text[2048] = "";
        rondeCommGetLastError(comm, text, sizeof text);
        ncclCommAbort(comm);
        if (code != ncclRemoteError && code != ncclSystemError) return "code " + std::to_string(code) + ": " + text;
        if (!contains(text, rank == 1 ? "rank " : "rank 1")) return std::string("names nobody: ") + text;
        return took < 60 * kSecond ? "" : "took long";
      },
      [&] {
        CHECK(comes([&] { return world.count(0) == 3; }));
        world.cut(1);
        world.count(1) = 1;
      },
      120);
  CHECK(texts == good(3));
}

TEST_CASE("collectives between hosts: a killed process is named on all others", "[net][comm]") {
  RONDE_NEED_HOSTS();
  HostWorld world(4, "0,2/1,3");
  Texts texts = world.run([&](int rank) -> std::string {
    std::string why;
    ncclComm_t comm = init(world, rank, why);
    if (comm == nullptr) return why;
    why = all_reduce(comm, rank, 4, 100003);
    if (!why.empty()) return why;
    ++world.count(0);
    if (!comes([&] { return world.count(0) == 4; })) return "the others";
    if (rank == 3) kill(getpid(), SIGKILL);
    const uint64_t begin = now_ns();
    Values data(100003);
    const ncclResult_t code =
        failure_of(comm, ncclAllReduce(data.data(), data.data(), data.size(), ncclInt32, ncclSum, comm, nullptr));
    const uint64_t took = now_ns() - begin;
    char text[2048] = "";
    rondeCommGetLastError(comm, text, sizeof text);
    ncclCommAbort(comm);
    if (code != ncclRemoteError || !contains(text, "rank 3")) return "code " + std::to_string(code) + ": " + text;
    return took < 5 * kSecond ? "" : "took long";
  });
  CHECK(texts == Texts{"", "", "", "(no answer)"});
}

TEST_CASE("collectives between hosts: two hundred communicators, one after the other, at one fixed port", "[net][comm]") {
  RONDE_NEED_HOSTS();
  HostWorld world(3, "0,2/1");
  const Texts texts = world.run(
      [&](int rank) -> std::string {
        setenv("NCCL_COMM_ID", (run::HostNet::address(0, 0) + ":7777").c_str(), 1);
        for (int round = 0; round < 200; ++round) {
          const std::string why = with_comm(world, rank, [&](ncclComm_t comm) { return all_reduce(comm, rank, 3, 11); });
          if (!why.empty()) return "round " + std::to_string(round) + ": " + why;
        }
        return "";
      },
      nullptr, 150);
  CHECK(texts == good(3));
}

TEST_CASE("collectives between hosts: strangers on every port that listens do not matter", "[net][comm]") {
  RONDE_NEED_HOSTS();
  HostWorld world(3, "0/1,2");
  for (const int host : {0, 1}) world.accompany(host, [&world] { be_strangers(world.count(7)); });
  for (int round = 0; round < 3; ++round) {
    const Texts texts = world.run([&](int rank) {
      return with_comm(world, rank, [&](ncclComm_t comm) {
        std::string complaint = everything(comm, rank, 3);
        return complaint.empty() && !comes([&] { return world.count(7) >= 100; }) ? "no stranger has called" : complaint;
      });
    });
    CHECK(texts == good(3));
  }
}
