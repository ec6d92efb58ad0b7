// Every collective, type and operation on GPU ranks, bit for bit, over algorithms, numbers of GPUs, sizes, alignments, and who issues.
#include "device/calls.h"
#include "support/catch.h"

using namespace ronde::test;
using ronde::Coll;

namespace {

/// What is left open of a call, drawn so that each pair of values comes up in some world.
CallCase drawn(Coll coll, int type, int ranks, uint32_t salt) {
  uint32_t x = (salt * 31 + static_cast<uint32_t>(type)) * 2654435761u + static_cast<uint32_t>(coll) * 40503u;
  const auto pick = [&x](uint32_t choices) {
    x ^= x >> 13;
    x *= 2246822519u;
    x ^= x >> 16;
    return x % choices;
  };
  constexpr size_t kCounts[] = {1, 3, 17, 250, 1000, 1024, 2999};
  CallCase it;
  it.coll = coll;
  it.type = static_cast<ncclDataType_t>(type);
  it.op = static_cast<ncclRedOp_t>((static_cast<uint32_t>(type) + salt + static_cast<uint32_t>(coll)) % ncclNumOps);
  it.count = kCounts[pick(std::size(kCounts))];
  it.root = static_cast<int>(pick(static_cast<uint32_t>(ranks)));
  it.in_place = pick(2) == 1;
  it.offset = pick(3) == 0 ? 1 + pick(3) : 0;
  return it;
}

/// All collectives of a type are in flight together, in the order of issue.
std::string one_type(ncclComm_t comm, int rank, int ranks, cudaStream_t stream, int type, uint32_t salt) {
  std::vector<std::unique_ptr<GpuCall>> calls;
  for (const Coll coll : kCollectives) calls.push_back(std::make_unique<GpuCall>(drawn(coll, type, ranks, salt), rank, ranks));
  for (const auto& call : calls) RONDE_RANK_OK(call->issue(comm, stream));
  RONDE_NO_COMPLAINT(GpuStream::finish_stream(stream));
  for (const auto& call : calls) RONDE_NO_COMPLAINT(call->check());
  return "";
}

}  // namespace

TEST_CASE("pairwise: collectives, algorithms, GPUs, types, operations, sizes, alignments", "[device][pairwise]") {
  RONDE_NEED_GPUS();
  const char* const algorithms[] = {"ring", "tree", "direct", "oneshot", "hd", "chain", "hier"};
  const char* const slots[][2] = {{"16384", "4"}, {"4096", "2"}, {"1048576", "8"}};
  const char* const channels[] = {"1", "2", "3"};
  uint32_t salt = 0;
  for (const char* const algorithm : algorithms) {
    for (const int ranks : {2, 4, 8}) {
      ++salt;
      const auto& [bytes, number] = slots[salt % 3];
      const char* const channel = channels[salt / 3 % 3];
      const ScopedEnv env({{"NCCL_ALGO", algorithm}, {"RONDE_BUFFSIZE", bytes}, {"RONDE_SLOTS", number}, {"RONDE_MIN_NCHANNELS", channel}});
      INFO(algorithm << ", " << ranks << " ranks, " << number << " slots in " << bytes << " bytes, channels from " << channel);
      REQUIRE(run_gpus(ranks, [&](ncclComm_t comm, int rank, cudaStream_t stream) -> std::string {
                // Emulated GPUs take their time: the more of them, the fewer types in each world.
                const int step = ranks == 2 ? 2 : ranks == 4 ? 3 : 5;
                for (int type = static_cast<int>(salt) % step; type < ncclNumTypes; type += step) {
                  RONDE_NO_COMPLAINT(one_type(comm, rank, ranks, stream, type, salt));
                }
                return "";
              }) == "");
    }
  }
}

TEST_CASE("every type and every operation of every reduction", "[device][types]") {
  RONDE_NEED_GPUS();
  REQUIRE(run_gpus(3, [&](ncclComm_t comm, int rank, cudaStream_t stream) -> std::string {
            for (int type = 0; type < ncclNumTypes; ++type) {
              std::vector<std::unique_ptr<GpuCall>> calls;
              for (const Coll coll : {Coll::all_reduce, Coll::reduce, Coll::reduce_scatter}) {
                for (int op = 0; op < ncclNumOps; ++op) {
                  CallCase it{coll, static_cast<ncclDataType_t>(type), static_cast<ncclRedOp_t>(op), 129, op % 3, op % 2 == 1};
                  calls.push_back(std::make_unique<GpuCall>(it, rank, 3));
                }
              }
              for (const auto& call : calls) RONDE_RANK_OK(call->issue(comm, stream));
              RONDE_NO_COMPLAINT(GpuStream::finish_stream(stream));
              for (const auto& call : calls) RONDE_NO_COMPLAINT(call->check());
            }
            return "";
          }) == "");
}

TEST_CASE("a pre-multiplied sum's factor in device memory is read when the call runs", "[device][premul]") {
  RONDE_NEED_GPUS();
  const auto type = GENERATE(ncclFloat32, ncclInt8, ncclBfloat16, ncclFloat64);
  constexpr size_t kCount = 1000;
  REQUIRE(run_gpus(3, [type](ncclComm_t comm, int rank, cudaStream_t stream) -> std::string {
            const auto data = [&](int times) { return make_data(type, kCount, [times](size_t i) { return static_cast<int>(i % 4) * times; }); };
            GpuBuffer factor(make_data(type, 1, [](size_t) { return 0; }));
            ncclRedOp_t op;
            RONDE_RANK_OK(ncclRedOpCreatePreMulSum(&op, factor.at(), type, ncclScalarDevice, comm));
            factor.set(make_data(type, 1, [rank](size_t) { return rank + 1; }));
            const GpuBuffer send(data(1)), recv(send.get().size());
            RONDE_RANK_OK(ncclAllReduce(send.at(), recv.at(), kCount, type, op, comm, stream));
            RONDE_NO_COMPLAINT(GpuStream::finish_stream(stream));
            RONDE_RANK_OK(ncclRedOpDestroy(op, comm));
            return compare("the sum", recv.get(), data(6), type_size(type));
          }) == "");
}

TEST_CASE("one thread drives all ranks by groups, also several on one GPU", "[device][group]") {
  RONDE_NEED_GPUS();
  const auto [ranks, gpus] = GENERATE(std::pair(1, 1), std::pair(4, 4), std::pair(8, 4), std::pair(4, 1), std::pair(5, 2));
  INFO(ranks << " ranks on " << gpus << " GPUs");
  GpuTeam team(ranks, gpus);
  for (const Coll coll : kCollectives) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{777}, size_t{20'000}}) {
      const CallCase it{coll, ncclFloat16, ncclSum, count, static_cast<int>(count) % ranks, count == 777};
      std::vector<std::unique_ptr<GpuCall>> calls;
      for (int rank = 0; rank < ranks; ++rank) {
        team.on(rank);
        calls.push_back(std::make_unique<GpuCall>(it, rank, ranks));
      }
      REQUIRE(ncclGroupStart() == ncclSuccess);
      for (int rank = 0; rank < ranks; ++rank) {
        const auto r = static_cast<size_t>(rank);
        REQUIRE(check_code("issue", calls[r]->issue(team.comms[r], team.streams[r]->get())) == "");
      }
      REQUIRE(check_code("ncclGroupEnd", ncclGroupEnd()) == "");
      REQUIRE(team.finish() == "");
      for (const auto& call : calls) REQUIRE(call->check() == "");
    }
  }
}

TEST_CASE("several collectives of unlike kernels in one group", "[device][group]") {
  RONDE_NEED_GPUS();
  constexpr int kRanks = 4;
  const int gpus = GENERATE(4, 2, 1);
  GpuTeam team(kRanks, gpus);
  std::vector<std::unique_ptr<GpuCall>> calls;
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto r = static_cast<size_t>(rank);
    team.on(rank);
    for (const Coll coll : kCollectives) {
      for (const ncclDataType_t type : {ncclInt32, ncclFloat64, ncclBfloat16}) {
        calls.push_back(std::make_unique<GpuCall>(CallCase{coll, type, ncclMax, 500}, rank, kRanks));
        REQUIRE(check_code("issue", calls.back()->issue(team.comms[r], team.streams[r]->get())) == "");
      }
    }
  }
  REQUIRE(check_code("ncclGroupEnd", ncclGroupEnd()) == "");
  REQUIRE(team.finish() == "");
  for (const auto& call : calls) REQUIRE(call->check() == "");
}
