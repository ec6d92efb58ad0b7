// Host streams: order, overlap, errors, handles.
#include "support/catch.h"
#include "support/world.h"

using namespace ronde::test;

TEST_CASE("calls on a host stream run in order and are done after synchronise", "[world][streams]") {
  const std::string complaints = run_world(3, [](ncclComm_t comm, int rank) -> std::string {
    cudaStream_t stream;
    RONDE_RANK_OK(rondeStreamCreate(&stream));
    std::vector<int> data(5000, rank);
    for (int i = 0; i < 20; ++i) RONDE_RANK_OK(ncclAllReduce(data.data(), data.data(), data.size(), ncclInt32, ncclMax, comm, stream));
    RONDE_RANK_OK(ncclAllReduce(data.data(), data.data(), data.size(), ncclInt32, ncclSum, comm, stream));
    RONDE_RANK_OK(rondeStreamSynchronize(stream));
    RONDE_RANK_OK(rondeStreamQuery(stream));
    for (const int v : data) {
      if (v != 6) return "wrong value " + std::to_string(v);
    }
    RONDE_RANK_OK(rondeStreamDestroy(stream));
    const std::string dead = check_code("destroyed stream", rondeStreamSynchronize(stream), ncclInvalidArgument);
    if (!dead.empty()) return dead;
    return check_code("call on it", ncclAllReduce(data.data(), data.data(), 1, ncclInt32, ncclSum, comm, stream), ncclInvalidArgument);
  });
  REQUIRE(complaints == "");
}

TEST_CASE("large sends in opposite order on two streams pass each other", "[world][streams]") {
  const std::string complaints = run_world(2, [](ncclComm_t comm, int rank) -> std::string {
    cudaStream_t out_stream, in_stream;
    RONDE_RANK_OK(rondeStreamCreate(&out_stream));
    RONDE_RANK_OK(rondeStreamCreate(&in_stream));
    std::vector<int> out(3'000'000, rank), in(out.size(), -1);
    RONDE_RANK_OK(ncclSend(out.data(), out.size(), ncclInt32, 1 - rank, comm, out_stream));
    RONDE_RANK_OK(ncclRecv(in.data(), in.size(), ncclInt32, 1 - rank, comm, in_stream));
    RONDE_RANK_OK(rondeStreamSynchronize(out_stream));
    RONDE_RANK_OK(rondeStreamSynchronize(in_stream));
    for (const int v : in) {
      if (v != 1 - rank) return "wrong value " + std::to_string(v);
    }
    RONDE_RANK_OK(rondeStreamDestroy(out_stream));
    return check_code("destroy", rondeStreamDestroy(in_stream));
  });
  REQUIRE(complaints == "");
}

TEST_CASE("a group over several streams and communicators, then polling", "[world][streams]") {
  ncclComm_t comms[3];
  cudaStream_t streams[3];
  REQUIRE(ncclCommInitAll(comms, 3, nullptr) == ncclSuccess);
  std::vector<float> data[3];
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (int r = 0; r < 3; ++r) {
    REQUIRE(rondeStreamCreate(&streams[r]) == ncclSuccess);
    data[r].assign(50'000, static_cast<float>(r));
    REQUIRE(ncclAllReduce(data[r].data(), data[r].data(), data[r].size(), ncclFloat32, ncclSum, comms[r], streams[r]) == ncclSuccess);
  }
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  for (int r = 0; r < 3; ++r) {
    ncclResult_t code = ncclInProgress;
    while (code == ncclInProgress) {
      code = rondeStreamQuery(streams[r]);
      std::this_thread::yield();
    }
    REQUIRE(code == ncclSuccess);
    CHECK(data[r].front() == 3.0f);
    CHECK(data[r].back() == 3.0f);
    CHECK(rondeStreamDestroy(streams[r]) == ncclSuccess);
    CHECK(ncclCommDestroy(comms[r]) == ncclSuccess);
  }
}

TEST_CASE("the error of a call on a stream is told by synchronise, once", "[world][streams]") {
  const std::string complaints = run_world(2, [](ncclComm_t comm, int rank) -> std::string {
    cudaStream_t stream;
    RONDE_RANK_OK(rondeStreamCreate(&stream));
    std::vector<int> data(64, 1);
    RONDE_RANK_OK(ncclAllReduce(data.data(), data.data(), static_cast<size_t>(10 + rank), ncclInt32, ncclSum, comm, stream));
    std::string complaint = check_code("synchronise", rondeStreamSynchronize(stream), ncclInvalidUsage);
    if (complaint.empty()) complaint = check_code("synchronise again", rondeStreamSynchronize(stream));
    rondeStreamDestroy(stream);
    ncclCommAbort(comm);
    return complaint;
  }, false);
  REQUIRE(complaints == "");
}
