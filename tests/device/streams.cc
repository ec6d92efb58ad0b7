// Streams, the host, and the lives of communicators of GPU ranks.
#include <atomic>

#include "device/calls.h"
#include "support/catch.h"

using namespace ronde::test;
using ronde::Coll;

namespace {

const ronde::device::Driver& driver() { return *ronde::device::driver().value(); }

std::vector<std::byte> ints(size_t count, int value) {
  return make_data(ncclInt32, count, [value](size_t) { return value; });
}

size_t free_memory() {
  size_t left = 0, all = 0;
  use_gpu(0);
  driver().cuMemGetInfo_v2(&left, &all);
  return left;
}

}  // namespace

TEST_CASE("calls return before their peers have come", "[device][streams]") {
  RONDE_NEED_GPUS();
  std::atomic<bool> issued{false};
  REQUIRE(run_gpus(2, [&](ncclComm_t comm, int rank, cudaStream_t stream) -> std::string {
            const GpuCall call({Coll::all_reduce, ncclFloat32, ncclSum, 100'000}, rank, 2);
            if (rank == 1) {
              while (!issued.load()) std::this_thread::yield();  // with a call that waits for its peer this would never end
            }
            RONDE_RANK_OK(call.issue(comm, stream));
            issued.store(true);
            RONDE_NO_COMPLAINT(GpuStream::finish_stream(stream));
            return call.check();
          }) == "");
}

TEST_CASE("calls of one communicator on several streams follow each other", "[device][streams]") {
  RONDE_NEED_GPUS();
  constexpr size_t kCount = 5000;
  constexpr int kRanks = 3;
  REQUIRE(run_gpus(kRanks, [](ncclComm_t comm, int, cudaStream_t stream) -> std::string {
            const GpuStream second, third;
            const cudaStream_t legacy = reinterpret_cast<cudaStream_t>(1), per_thread = reinterpret_cast<cudaStream_t>(2);
            const GpuBuffer data(ints(kCount, 1));
            int want = 1;
            // Each call reads what the one before it has written, on another stream. Streams that ranks on one GPU share would make them wait for each other.
            std::vector<cudaStream_t> streams = {stream, second.get(), third.get(), stream, second.get(), stream};
            if (gpu_count() >= kRanks) streams.insert(streams.begin() + 3, {legacy, per_thread, nullptr});
            for (const cudaStream_t on : streams) {
              RONDE_RANK_OK(ncclAllReduce(data.at(), data.at(), kCount, ncclInt32, ncclSum, comm, on));
              want *= kRanks;
            }
            RONDE_NO_COMPLAINT(GpuStream::finish_stream(stream));
            return compare("the last sum", data.get(), ints(kCount, want), sizeof(int));
          }) == "");
}

TEST_CASE("a call waits for what its stream holds, and what follows waits for the call", "[device][streams]") {
  RONDE_NEED_GPUS();
  constexpr size_t kCount = 30'000, kBytes = kCount * sizeof(int);
  GpuTeam team(2, 2);
  std::vector<std::unique_ptr<GpuBuffer>> from, work, to;
  for (int rank = 0; rank < 2; ++rank) {
    team.on(rank);
    for (auto* const buffers : {&from, &work, &to}) buffers->push_back(std::make_unique<GpuBuffer>(ints(kCount, buffers == &from ? rank + 5 : 0)));
  }
  const auto copy = [&](const GpuBuffer& target, const GpuBuffer& source, size_t rank) {
    team.on(static_cast<int>(rank));
    return driver().cuMemcpyDtoDAsync_v2(reinterpret_cast<uint64_t>(target.at()), reinterpret_cast<uint64_t>(source.at()), kBytes,
                                         reinterpret_cast<ronde::cu::CUstream>(team.streams[rank]->get()));
  };
  for (size_t rank = 0; rank < 2; ++rank) REQUIRE(copy(*work[rank], *from[rank], rank) == ronde::cu::CUDA_SUCCESS);
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (size_t rank = 0; rank < 2; ++rank) {
    REQUIRE(ncclAllReduce(work[rank]->at(), work[rank]->at(), kCount, ncclInt32, ncclSum, team.comms[rank], team.streams[rank]->get()) == ncclSuccess);
  }
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  for (size_t rank = 0; rank < 2; ++rank) REQUIRE(copy(*to[rank], *work[rank], rank) == ronde::cu::CUDA_SUCCESS);
  REQUIRE(team.finish() == "");
  for (size_t rank = 0; rank < 2; ++rank) CHECK(compare("the copy", to[rank]->get(), ints(kCount, 11), sizeof(int)) == "");
}

TEST_CASE("a communicator is destroyed with work in flight, and the work ends", "[device][life]") {
  RONDE_NEED_GPUS();
  REQUIRE(run_gpus(4, [](ncclComm_t comm, int rank, cudaStream_t stream) -> std::string {
            std::vector<std::unique_ptr<GpuCall>> calls;
            for (int i = 0; i < 5; ++i) {
              calls.push_back(std::make_unique<GpuCall>(CallCase{kCollectives[static_cast<size_t>(i)], ncclBfloat16, ncclSum, 10'000}, rank, 4));
              RONDE_RANK_OK(calls.back()->issue(comm, stream));
            }
            RONDE_RANK_OK(ncclCommDestroy(comm));
            RONDE_NO_COMPLAINT(GpuStream::finish_stream(stream));
            for (const auto& call : calls) RONDE_NO_COMPLAINT(call->check());
            return "";
          }, false) == "");
}

TEST_CASE("split ranks are on their parents' GPUs", "[device][life]") {
  RONDE_NEED_GPUS();
  REQUIRE(run_gpus(4, [](ncclComm_t comm, int rank, cudaStream_t stream) -> std::string {
            ncclComm_t half = nullptr;
            RONDE_RANK_OK(ncclCommSplit(comm, rank % 2, rank, &half, nullptr));
            rondeDevice_t device = rondeDeviceAuto;
            RONDE_RANK_OK(rondeCommGetDevice(half, &device));
            if (device != rondeDeviceCuda) return "the half is not on a GPU";
            const GpuCall whole({Coll::all_reduce, ncclFloat32, ncclSum, 999}, rank, 4), part({Coll::all_gather, ncclFloat32, ncclSum, 999}, rank / 2, 2);
            RONDE_RANK_OK(whole.issue(comm, stream));
            RONDE_RANK_OK(part.issue(half, stream));
            RONDE_NO_COMPLAINT(GpuStream::finish_stream(stream));
            RONDE_RANK_OK(ncclCommDestroy(half));
            RONDE_NO_COMPLAINT(whole.check());
            return part.check();
          }) == "");
}

TEST_CASE("communicators one after another leave no memory behind", "[device][life]") {
  RONDE_NEED_GPUS();
  const auto once = [] {
    GpuTeam team(2, 2);
    std::vector<std::unique_ptr<GpuCall>> calls;
    REQUIRE(ncclGroupStart() == ncclSuccess);
    for (int rank = 0; rank < 2; ++rank) {
      team.on(rank);
      calls.push_back(std::make_unique<GpuCall>(CallCase{Coll::all_reduce, ncclFloat32, ncclSum, 100}, rank, 2));
      REQUIRE(calls.back()->issue(team.comms[static_cast<size_t>(rank)], team.streams[static_cast<size_t>(rank)]->get()) == ncclSuccess);
    }
    REQUIRE(ncclGroupEnd() == ncclSuccess);
    REQUIRE(team.finish() == "");
    for (const auto& call : calls) REQUIRE(call->check() == "");
  };
  once();
  const size_t before = free_memory();
  for (int i = 0; i < 50; ++i) once();
  CHECK(free_memory() == before);
}
