// Ranks that say to be on several hosts: the algorithms over nodes bring the same data as the others.
#include <numeric>

#include "support/catch.h"
#include "support/world.h"

using namespace ronde::test;

namespace {

/// Communicators of ranks that are told to be on these hosts, made by one thread in one group.
std::vector<ncclComm_t> make_on(const std::vector<const char*>& hosts) {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  std::vector<ncclComm_t> comms(hosts.size());
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (size_t r = 0; r < hosts.size(); ++r) {
    const ScopedEnv env{{"NCCL_HOSTID", hosts[r]}};
    REQUIRE(ncclCommInitRank(&comms[r], static_cast<int>(hosts.size()), id, static_cast<int>(r)) == ncclSuccess);
  }
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  return comms;
}

/// Runs `body` on a thread for each rank, and ends the communicators.
std::string run_on(const std::vector<const char*>& hosts, const RankBody& body) {
  const std::vector<ncclComm_t> comms = make_on(hosts);
  return run_threads(static_cast<int>(hosts.size()), [&](int rank) {
    std::string complaint = body(comms[static_cast<size_t>(rank)], rank);
    ncclCommDestroy(comms[static_cast<size_t>(rank)]);
    return complaint;
  });
}

using Ints = std::vector<int>;
int value(int rank, size_t i) { return rank * 1000 + static_cast<int>(i % 997); }

/// What is wrong, or nothing.
std::string compare(const char* what, const Ints& got, const std::function<int(size_t)>& want) {
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] != want(i)) return std::string(what) + " is wrong at " + std::to_string(i) + ": " + std::to_string(got[i]);
  }
  return "";
}

/// Every collective that hierarchies do, in place and not, on blocks of `count`; the root changes with it.
std::string every_collective(ncclComm_t comm, int rank, int ranks, size_t count) {
  const size_t n = static_cast<size_t>(ranks), r = static_cast<size_t>(rank);
  const int root = static_cast<int>(count % n);
  const auto sum = [&](size_t i) {
    int total = 0;
    for (int k = 0; k < ranks; ++k) total += value(k, i);
    return total;
  };
  for (const bool in_place : {false, true}) {
    Ints in(count * n), out(count * n, -1);
    for (size_t i = 0; i < in.size(); ++i) in[i] = value(rank, i);
    const Ints kept = in;
    std::string complaint;

    Ints all(in.begin(), in.begin() + static_cast<long>(count)), sums(count, -1);
    RONDE_RANK_OK(ncclAllReduce(all.data(), in_place ? all.data() : sums.data(), count, ncclInt32, ncclSum, comm, nullptr));
    complaint = compare("AllReduce", in_place ? all : sums, sum);
    if (!complaint.empty()) return complaint;

    RONDE_RANK_OK(ncclReduceScatter(in.data(), in_place ? in.data() + r * count : sums.data(), count, ncclInt32, ncclSum, comm, nullptr));
    if (in_place) sums.assign(in.begin() + static_cast<long>(r * count), in.begin() + static_cast<long>((r + 1) * count));
    complaint = compare("ReduceScatter", sums, [&](size_t i) { return sum(r * count + i); });
    if (!complaint.empty()) return complaint;
    in = kept;

    if (in_place) std::copy_n(in.begin(), count, out.begin() + static_cast<long>(r * count));
    RONDE_RANK_OK(ncclAllGather(in_place ? out.data() + r * count : in.data(), out.data(), count, ncclInt32, comm, nullptr));
    complaint = compare("AllGather", out, [&](size_t i) { return value(static_cast<int>(i / count), i % count); });
    if (!complaint.empty()) return complaint;

    Ints given(in.begin(), in.begin() + static_cast<long>(count)), taken(count, -1);
    RONDE_RANK_OK(ncclBroadcast(given.data(), in_place ? given.data() : taken.data(), count, ncclInt32, root, comm, nullptr));
    complaint = compare("Broadcast", in_place ? given : taken, [&](size_t i) { return value(root, i); });
    if (!complaint.empty()) return complaint;

    given.assign(in.begin(), in.begin() + static_cast<long>(count));
    RONDE_RANK_OK(ncclReduce(given.data(), in_place ? given.data() : taken.data(), count, ncclInt32, ncclSum, root, comm, nullptr));
    if (rank == root) complaint = compare("Reduce", in_place ? given : taken, sum);
    if (!complaint.empty()) return complaint;
  }
  return "";
}

std::string algorithm_of(ncclComm_t comm) {
  rondeChoice_t choice{};
  choice.size = sizeof choice;
  return rondeExplain(comm, rondeAllReduce, 100'000, ncclInt32, ncclSum, 0, &choice) == ncclSuccess ? choice.algorithm : ncclGetLastError(comm);
}

}  // namespace

TEST_CASE("algorithms over nodes are exact on hosts of equal and of unlike size", "[world][nodes]") {
  const std::vector<std::vector<const char*>> worlds = {
      {"a", "a", "b", "b"},
      {"a", "b", "a", "b"},
      {"a", "b", "c"},
      {"a", "b", "a", "b", "a", "b"},
      {"a", "a", "a", "b", "b", "b", "c"},
      {"a", "b", "b", "c", "c", "c"},
  };
  const char* const algorithm = GENERATE("hier", "tree", "ring");
  for (const auto& [slots, channels] : {std::pair{"262144", "1"}, {"8192", "2"}}) {
    const ScopedEnv env{{"NCCL_ALGO", algorithm}, {"RONDE_BUFFSIZE", slots}, {"RONDE_MIN_NCHANNELS", channels}};
    for (const auto& hosts : worlds) {
      const int ranks = static_cast<int>(hosts.size());
      CAPTURE(algorithm, ranks, slots);
      CHECK(run_on(hosts, [&](ncclComm_t comm, int rank) -> std::string {
        if (algorithm_of(comm) != algorithm) return "used: " + algorithm_of(comm);
        for (const size_t count : {1, 3, 5'000, 70'001}) {
          const std::string complaint = every_collective(comm, rank, ranks, count);
          if (!complaint.empty()) return complaint + " for " + std::to_string(count);
        }
        return "";
      }) == "");
    }
  }
}

TEST_CASE("hosts count among what is chosen from, also of a child", "[world][nodes]") {
  const auto reason = [](ncclComm_t comm) -> std::string {
    rondeChoice_t choice{};
    choice.size = sizeof choice;
    return rondeExplain(comm, rondeAllReduce, 1000, ncclInt32, ncclSum, 0, &choice) == ncclSuccess ? choice.reason : "failed";
  };
  CHECK(run_on({"a", "b", "a", "b"}, [&](ncclComm_t comm, int rank) -> std::string {
    if (!contains(reason(comm), "6 algorithms")) return "two hosts: " + reason(comm);
    ncclComm_t child = nullptr;
    RONDE_RANK_OK(ncclCommSplit(comm, rank % 2, rank, &child, nullptr));
    const std::string alone = reason(child);
    ncclCommDestroy(child);
    return contains(alone, "5 algorithms") ? "" : "one host: " + alone;
  }) == "");
}
