// Every collective, type and operation on thread ranks, bit for bit, in place and not.
#include <algorithm>

#include "support/catch.h"
#include "support/world.h"

namespace {

using namespace ronde::test;

// Under a sanitizer everything takes twenty times as long, and what it looks for does not depend on the type.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kTypeStep = 5;
#else
constexpr int kTypeStep = 1;
#endif

std::string reduce_all(ncclComm_t comm, int rank, int ranks, ncclDataType_t type, ncclRedOp_t op, size_t count, bool in_place) {
  const auto mine = [&](size_t i) { return exact_input(type, op, ranks, rank, i); };
  const auto want = [&](size_t i) { return exact_result(type, op, ranks, i); };
  const size_t n = static_cast<size_t>(ranks), bytes = count * type_size(type), r = static_cast<size_t>(rank);
  const int root = static_cast<int>(count % n);

  std::vector<std::byte> send = make_data(type, count, mine);
  std::vector<std::byte> recv = in_place ? send : std::vector<std::byte>(bytes, std::byte{0x5a});
  RONDE_RANK_OK(ncclAllReduce(in_place ? recv.data() : send.data(), recv.data(), count, type, op, comm, nullptr));
  std::string complaint = compare("AllReduce", recv, make_data(type, count, want), type_size(type));
  if (!complaint.empty()) return complaint;

  recv = in_place ? send : std::vector<std::byte>(bytes, std::byte{0x5a});
  RONDE_RANK_OK(ncclReduce(in_place ? recv.data() : send.data(), rank == root ? recv.data() : nullptr, count, type, op, root, comm, nullptr));
  if (rank == root) complaint = compare("Reduce", recv, make_data(type, count, want), type_size(type));
  if (!complaint.empty()) return complaint;

  send = make_data(type, count * n, mine);
  std::vector<std::byte> part(bytes, std::byte{0x5a});
  void* const to = in_place ? send.data() + r * bytes : part.data();
  RONDE_RANK_OK(ncclReduceScatter(send.data(), to, count, type, op, comm, nullptr));
  if (bytes != 0) memcpy(part.data(), to, bytes);
  return compare("ReduceScatter", part, make_data(type, count, [&](size_t i) { return want(r * count + i); }), type_size(type));
}

std::string move_all(ncclComm_t comm, int rank, int ranks, ncclDataType_t type, size_t count, bool in_place) {
  const size_t n = static_cast<size_t>(ranks), bytes = count * type_size(type), r = static_cast<size_t>(rank), element = type_size(type);
  const int root = static_cast<int>(count % n);
  const auto of = [&](int from) { return make_data(type, count, [&](size_t i) { return small_value(from, i, 3); }); };
  const std::vector<std::byte> mine = of(rank);

  std::vector<std::byte> recv = in_place ? mine : std::vector<std::byte>(bytes, std::byte{0x5a});
  RONDE_RANK_OK(in_place ? ncclBcast(recv.data(), count, type, root, comm, nullptr)
                         : ncclBroadcast(rank == root ? mine.data() : nullptr, recv.data(), count, type, root, comm, nullptr));
  std::string complaint = compare("Broadcast", recv, of(root), element);
  if (!complaint.empty()) return complaint;

  std::vector<std::byte> all;
  for (int from = 0; from < ranks; ++from) {
    const std::vector<std::byte> part = of(from);
    all.insert(all.end(), part.begin(), part.end());
  }
  recv.assign(bytes * n, std::byte{0x5a});
  if (in_place && bytes != 0) memcpy(recv.data() + r * bytes, mine.data(), bytes);
  const void* send = in_place ? recv.data() + r * bytes : mine.data();
  RONDE_RANK_OK(ncclAllGather(send, recv.data(), count, type, comm, nullptr));
  complaint = compare("AllGather", recv, all, element);
  if (!complaint.empty()) return complaint;

  std::fill(recv.begin(), recv.end(), std::byte{0x5a});
  if (in_place && bytes != 0) memcpy(recv.data() + r * bytes, mine.data(), bytes);
  RONDE_RANK_OK(ncclGather(in_place && rank == root ? send : mine.data(), rank == root ? recv.data() : nullptr, count, type, root, comm, nullptr));
  if (rank == root) complaint = compare("Gather", recv, all, element);
  if (!complaint.empty()) return complaint;

  std::vector<std::byte> from_root = all, part(bytes, std::byte{0x5a});
  void* const to = in_place && rank == root ? from_root.data() + r * bytes : part.data();
  RONDE_RANK_OK(ncclScatter(rank == root ? from_root.data() : nullptr, to, count, type, root, comm, nullptr));
  if (bytes != 0) memmove(part.data(), to, bytes);
  complaint = compare("Scatter", part, mine, element);
  if (!complaint.empty()) return complaint;

  // Block j of rank r's input holds r * 3 + j, so that every pair is told apart.
  const auto block_data = [&](int from, int to_rank) { return make_data(type, count, [&](size_t i) { return (from * 3 + to_rank + static_cast<int>(i)) % 5; }); };
  std::vector<std::byte> out, want;
  for (int peer = 0; peer < ranks; ++peer) {
    const std::vector<std::byte> there = block_data(rank, peer), here = block_data(peer, rank);
    out.insert(out.end(), there.begin(), there.end());
    want.insert(want.end(), here.begin(), here.end());
  }
  recv.assign(bytes * n, std::byte{0x5a});
  RONDE_RANK_OK(ncclAlltoAll(out.data(), recv.data(), count, type, comm, nullptr));
  return compare("AlltoAll", recv, want, element);
}

std::string everything(ncclComm_t comm, int rank, int ranks, const std::vector<size_t>& counts) {
  for (int t = 0; t < ncclNumTypes; t += kTypeStep) {
    const auto type = static_cast<ncclDataType_t>(t);
    for (const size_t count : counts) {
      for (const bool in_place : {false, true}) {
        for (int op = 0; op < ncclNumOps; ++op) {
          const std::string complaint = reduce_all(comm, rank, ranks, type, static_cast<ncclRedOp_t>(op), count, in_place);
          if (!complaint.empty()) {
            return complaint + " (type " + std::to_string(t) + ", op " + std::to_string(op) + ", count " + std::to_string(count) + (in_place ? ", in place)" : ")");
          }
        }
        const std::string complaint = move_all(comm, rank, ranks, type, count, in_place);
        if (!complaint.empty()) return complaint + " (type " + std::to_string(t) + ", count " + std::to_string(count) + (in_place ? ", in place)" : ")");
      }
    }
  }
  return "";
}

}  // namespace

TEST_CASE("every collective, type and operation is exact on 1 to 8 ranks", "[world][collectives]") {
  for (const int ranks : {1, 2, 3, 4, 5, 8}) {
    const std::string complaints = run_world(ranks, [&](ncclComm_t comm, int rank) { return everything(comm, rank, ranks, {0, 1, 17, 1000}); });
    INFO("ranks: " << ranks);
    REQUIRE(complaints == "");
  }
}

TEST_CASE("many slices: tiny slots force the pipelined paths", "[world][collectives]") {
  const ScopedEnv env({{"RONDE_BUFFSIZE", "8192"}, {"RONDE_SLOTS", "2"}, {"RONDE_LEND_THRESHOLD", "512"}});
  for (const int ranks : {2, 3, 5}) {
    const std::string complaints = run_world(ranks, [&](ncclComm_t comm, int rank) { return everything(comm, rank, ranks, {7777}); });
    INFO("ranks: " << ranks);
    REQUIRE(complaints == "");
  }
}

TEST_CASE("over a network, whichever ranks are on which host", "[world][collectives][hosts]") {
  const auto [ranks, hosts] = GENERATE(std::pair(2, "2"), std::pair(3, "0,1,1"), std::pair(3, "0,1,0"), std::pair(4, "4"), std::pair(14, "0,0,0,0,0,0,1,1,1,1,1,1,1,1"));
  const ScopedEnv env({{"RONDE_HOSTS", hosts}, {"RONDE_BUFFSIZE", "16384"}});
  const size_t count = ranks > 4 ? 333 : 7777;
  INFO("hosts of the ranks: " << hosts);
  REQUIRE(run_world(ranks, [&, ranks = ranks](ncclComm_t comm, int rank) { return everything(comm, rank, ranks, {0, 1, count}); }) == "");
}

TEST_CASE("each algorithm, forced, on several channels", "[world][collectives]") {
  const char* const algorithm = GENERATE("ring", "tree", "hd", "direct", "oneshot", "chain");
  const ScopedEnv env({{"NCCL_ALGO", algorithm}, {"RONDE_MIN_NCHANNELS", "2"}, {"RONDE_BUFFSIZE", "16384"}});
  for (const int ranks : {2, 3, 7}) {
    const std::string complaints = run_world(ranks, [&](ncclComm_t comm, int rank) -> std::string {
      for (const size_t count : {size_t{5}, size_t{999}, size_t{20000}}) {
        for (const bool in_place : {false, true}) {
          for (const ncclRedOp_t op : {ncclSum, ncclMax, ncclAvg}) {
            for (const ncclDataType_t type : {ncclFloat32, ncclBfloat16, ncclInt8}) {
              const std::string complaint = reduce_all(comm, rank, ranks, type, op, count, in_place);
              if (!complaint.empty()) return complaint;
            }
          }
          const std::string complaint = move_all(comm, rank, ranks, ncclFloat32, count, in_place);
          if (!complaint.empty()) return complaint;
        }
      }
      return "";
    });
    INFO("algorithm: " << algorithm << ", ranks: " << ranks);
    REQUIRE(complaints == "");
  }
}

TEST_CASE("pre-multiplied sums use each rank's own factor", "[world][collectives]") {
  const std::string complaints = run_world(4, [](ncclComm_t comm, int rank) -> std::string {
    for (const ncclScalarResidence_t where : {ncclScalarHostImmediate, ncclScalarDevice}) {
      float factor = static_cast<float>(1 << rank);
      ncclRedOp_t op;
      RONDE_RANK_OK(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat32, where, comm));
      for (const size_t count : {size_t{3}, size_t{100000}}) {
        const std::vector<std::byte> send = make_data(ncclFloat32, count, [](size_t i) { return static_cast<int>(i % 100); });
        std::vector<std::byte> recv(send.size());
        RONDE_RANK_OK(ncclAllReduce(send.data(), recv.data(), count, ncclFloat32, op, comm, nullptr));
        const std::string complaint = compare("AllReduce", recv, make_data(ncclFloat32, count, [](size_t i) { return static_cast<int>(i % 100) * 15; }), 4);
        if (!complaint.empty()) return complaint;
      }
      const int32_t n = 0;
      const std::string wrong_type = check_code("int32 with a float factor", ncclAllReduce(&n, &factor, 1, ncclInt32, op, comm, nullptr), ncclInvalidArgument);
      if (!wrong_type.empty()) return wrong_type;
      RONDE_RANK_OK(ncclRedOpDestroy(op, comm));
      const std::string twice = check_code("destroyed twice", ncclRedOpDestroy(op, comm), ncclInvalidArgument);
      if (!twice.empty()) return twice;
    }
    return check_code("built-in destroyed", ncclRedOpDestroy(ncclSum, comm), ncclInvalidArgument);
  });
  REQUIRE(complaints == "");
}

TEST_CASE("odd addresses: nothing is assumed about alignment", "[world][collectives]") {
  const std::string complaints = run_world(3, [](ncclComm_t comm, int rank) -> std::string {
    for (const size_t count : {size_t{33}, size_t{40000}}) {
      const auto value = [rank](size_t i) { return small_value(rank, i, 5); };
      const std::vector<std::byte> data = make_data(ncclFloat32, count, value);
      std::vector<std::byte> send(data.size() + 3), recv(data.size() + 1), got(data.size());
      memcpy(send.data() + 3, data.data(), data.size());
      RONDE_RANK_OK(ncclAllReduce(send.data() + 3, recv.data() + 1, count, ncclFloat32, ncclSum, comm, nullptr));
      memcpy(got.data(), recv.data() + 1, got.size());
      const std::string complaint = compare("AllReduce", got, make_data(ncclFloat32, count, [](size_t i) {
                                              return small_value(0, i, 5) + small_value(1, i, 5) + small_value(2, i, 5);
                                            }), 4);
      if (!complaint.empty()) return complaint;
    }
    return "";
  });
  REQUIRE(complaints == "");
}

TEST_CASE("RONDE_DETERMINISTIC: bits are the left fold over the ranks, whatever size, channels and slots", "[world][collectives]") {
  constexpr int kRanks = 5;
  // Values whose sum depends on the order of addition.
  const auto value = [](int rank, size_t i) {
    const uint32_t x = static_cast<uint32_t>(i) * 2654435761u + static_cast<uint32_t>(rank) * 2246822519u;
    return static_cast<float>(static_cast<int32_t>(x ^ x >> 13)) * 1.0e-3f;
  };
  const auto fold = [&](size_t i) {
    float sum = value(0, i);
    for (int rank = 1; rank < kRanks; ++rank) sum += value(rank, i);
    return sum;
  };
  const char* const settings[][4] = {{"1", "262144", "4", "16384"}, {"3", "16384", "2", "1"}, {"1", "8192", "2", "1000000"}};
  for (const auto& [channels, buffer, slots, lend] : settings) {
    const ScopedEnv env({{"RONDE_DETERMINISTIC", "1"}, {"RONDE_MIN_NCHANNELS", channels}, {"RONDE_BUFFSIZE", buffer}, {"RONDE_SLOTS", slots},
                         {"RONDE_LEND_THRESHOLD", lend}});
    const std::string complaints = run_world(kRanks, [&](ncclComm_t comm, int rank) -> std::string {
      for (const size_t count : {size_t{1}, size_t{777}, size_t{30'000}}) {
        std::vector<float> data(count * kRanks), sums(count);
        for (size_t i = 0; i < data.size(); ++i) data[i] = value(rank, i);
        RONDE_RANK_OK(ncclAllReduce(data.data(), sums.data(), count, ncclFloat32, ncclSum, comm, nullptr));
        for (size_t i = 0; i < count; ++i) {
          const float want = fold(i);
          if (memcmp(&sums[i], &want, sizeof want) != 0) return "AllReduce differs at " + std::to_string(i) + " of " + std::to_string(count);
        }
        RONDE_RANK_OK(ncclReduceScatter(data.data(), sums.data(), count, ncclFloat32, ncclSum, comm, nullptr));
        for (size_t i = 0; i < count; ++i) {
          const float want = fold(static_cast<size_t>(rank) * count + i);
          if (memcmp(&sums[i], &want, sizeof want) != 0) return "ReduceScatter differs at " + std::to_string(i) + " of " + std::to_string(count);
        }
        RONDE_RANK_OK(ncclReduce(data.data(), sums.data(), count, ncclFloat32, ncclSum, 2, comm, nullptr));
        for (size_t i = 0; rank == 2 && i < count; ++i) {
          const float want = fold(i);
          if (memcmp(&sums[i], &want, sizeof want) != 0) return "Reduce differs at " + std::to_string(i) + " of " + std::to_string(count);
        }
      }
      return "";
    });
    INFO("channels " << channels << ", buffer " << buffer << ", slots " << slots << ", lend from " << lend);
    REQUIRE(complaints == "");
  }
}
