// What goes wrong on GPU ranks is an error on all of them, soon, and says what it is.
#include <atomic>
#include <csignal>

#include "base/clock.h"
#include "device/calls.h"
#include "proc/command.h"
#include "support/catch.h"
#include "support/children.h"

using namespace ronde::test;
using ronde::Coll;
using ronde::kSecond;
using ronde::now_ns;

namespace {

std::string last_error(ncclComm_t comm) {
  char text[2048] = "";
  rondeCommGetLastError(comm, text, sizeof text);
  return text;
}

/// After a call that must fail: the communicator has the code, within 5 s, and the parts in its text; and its kernels end within 1 s of that.
std::string expect_failure(ncclComm_t comm, cudaStream_t stream, ncclResult_t issued, ncclResult_t want, const std::vector<std::string>& parts) {
  const uint64_t start = now_ns();
  const ncclResult_t code = failure_of(comm, issued);
  const uint64_t failed = now_ns();
  const std::string text = last_error(comm);
  if (code != want) return "code " + std::to_string(code) + ": " + text;
  if (failed - start > 5 * kSecond) return "the error took more than 5 s";
  for (const std::string& part : parts) {
    if (!contains(text, part)) return "no \"" + part + "\" in: " + text;
  }
  RONDE_NO_COMPLAINT(GpuStream::finish_stream(stream, 10));
  return now_ns() - failed > (emulated() ? 3 : 1) * kSecond ? "its kernels took too long to end" : "";
}

using Issue = std::function<ncclResult_t(ncclComm_t comm, int rank, void* buffer, cudaStream_t stream)>;

void expect_disagreement(int ranks, const Issue& issue, const std::vector<std::string>& parts) {
  CHECK(run_gpus(ranks, [&](ncclComm_t comm, int rank, cudaStream_t stream) -> std::string {
          const GpuBuffer buffer(1 << 16);
          const std::string complaint = expect_failure(comm, stream, issue(comm, rank, buffer.at(), stream), ncclInvalidUsage, parts);
          ncclCommAbort(comm);
          return complaint;
        }, false) == "");
}

}  // namespace

TEST_CASE("ranks that call different things learn so on all of them", "[device][faults]") {
  RONDE_NEED_GPUS();
  const int ranks = GENERATE(2, 3);
  INFO(ranks << " ranks");
  SECTION("counts") {
    expect_disagreement(ranks, [](ncclComm_t c, int r, void* b, cudaStream_t s) { return ncclAllReduce(b, b, r == 1 ? 11 : 10, ncclFloat32, ncclSum, c, s); },
                        {"AllReduce(count 10, float, sum)", "AllReduce(count 11, float, sum)", "rank 1"});
  }
  SECTION("a count of zero") {
    expect_disagreement(ranks, [](ncclComm_t c, int r, void* b, cudaStream_t s) { return ncclAllReduce(b, b, r == 0 ? 0 : 10, ncclFloat32, ncclSum, c, s); },
                        {"count 0", "count 10", "rank 0"});
  }
  SECTION("types") {
    expect_disagreement(ranks, [](ncclComm_t c, int r, void* b, cudaStream_t s) { return ncclAllReduce(b, b, 10, r == 1 ? ncclInt32 : ncclFloat32, ncclSum, c, s); },
                        {"int32", "float", "rank 1"});
  }
  SECTION("operations") {
    expect_disagreement(ranks, [](ncclComm_t c, int r, void* b, cudaStream_t s) { return ncclAllReduce(b, b, 10, ncclFloat32, r == 0 ? ncclMax : ncclSum, c, s); },
                        {"max", "sum", "rank 0"});
  }
  SECTION("roots") {
    expect_disagreement(ranks, [](ncclComm_t c, int r, void* b, cudaStream_t s) { return ncclReduce(b, b, 10, ncclFloat32, ncclSum, r == 0 ? 0 : 1, c, s); },
                        {"root 0", "root 1"});
  }
  SECTION("collectives") {
    expect_disagreement(ranks, [](ncclComm_t c, int r, void* b, cudaStream_t s) {
      return r == 0 ? ncclBroadcast(b, b, 10, ncclFloat32, 0, c, s) : ncclAllReduce(b, b, 10, ncclFloat32, ncclSum, c, s);
    }, {"Broadcast(count 10, float, root 0)", "AllReduce(count 10, float, sum)"});
  }
}

TEST_CASE("an abort ends the kernels of a call whose peers never come", "[device][faults]") {
  RONDE_NEED_GPUS();
  std::atomic<int> done{0};
  REQUIRE(run_gpus(2, [&](ncclComm_t comm, int rank, cudaStream_t stream) -> std::string {
            std::string complaint;
            if (rank == 0) {
              const GpuBuffer buffer(4096);
              RONDE_RANK_OK(ncclAllReduce(buffer.at(), buffer.at(), 1000, ncclFloat32, ncclSum, comm, stream));
              const uint64_t start = now_ns();
              RONDE_RANK_OK(ncclCommAbort(comm));
              complaint = GpuStream::finish_stream(stream, 10);
              if (now_ns() - start > (emulated() ? 3 : 1) * kSecond) complaint += "it took more than a second";
            }
            done.fetch_add(1);
            while (done.load() != 2) std::this_thread::yield();
            if (rank == 1) ncclCommAbort(comm);
            return complaint;
          }, false) == "");
}

TEST_CASE("RONDE_TIMEOUT names the call, the channel, the Move and the peer", "[device][faults]") {
  RONDE_NEED_GPUS();
  const ScopedEnv env({{"RONDE_TIMEOUT", "1"}, {"NCCL_ALGO", "ring"}});
  std::atomic<int> done{0};
  REQUIRE(run_gpus(2, [&](ncclComm_t comm, int rank, cudaStream_t stream) -> std::string {
            std::string complaint;
            if (rank == 0) {
              const GpuBuffer buffer(4096);
              complaint = expect_failure(comm, stream, ncclAllReduce(buffer.at(), buffer.at(), 1000, ncclFloat32, ncclSum, comm, stream), ncclRemoteError,
                                         {"AllReduce(count 1000, float, sum)", "rank 1, which has not called it", "channel ", "Move ", "RONDE_TIMEOUT=1"});
            }
            done.fetch_add(1);
            while (done.load() != 2) std::this_thread::yield();
            ncclCommAbort(comm);
            return complaint;
          }, false) == "");
}

TEST_CASE("host memory given to a GPU rank is named where pointers are checked", "[device][faults]") {
  RONDE_NEED_GPUS();
  const ScopedEnv env({{"NCCL_CHECK_POINTERS", "1"}});
  REQUIRE(run_gpus(1, [](ncclComm_t comm, int, cudaStream_t stream) -> std::string {
            std::vector<float> host(16);
            const GpuBuffer device(64);
            RONDE_NO_COMPLAINT(check_code("host sendbuff", ncclAllReduce(host.data(), device.at(), 16, ncclFloat32, ncclSum, comm, stream), ncclInvalidArgument));
            const std::string text = last_error(comm);
            if (!contains(text, "sendbuff") || !contains(text, "GPU 0")) return text;
            RONDE_NO_COMPLAINT(check_code("host recvbuff", ncclAllReduce(device.at(), host.data(), 16, ncclFloat32, ncclSum, comm, stream), ncclInvalidArgument));
            return check_code("device memory", ncclAllReduce(device.at(), device.at(), 16, ncclFloat32, ncclSum, comm, stream));
          }) == "");
}

TEST_CASE("ncclMemAlloc gives memory of the GPU that the next rank would be on", "[device][memory]") {
  RONDE_NEED_GPUS();
  REQUIRE(run_threads(1, [](int) -> std::string {
            use_gpu(1);
            void* memory = nullptr;
            RONDE_RANK_OK(ncclMemAlloc(&memory, 1000));
            int type = 0;
            const auto code = ronde::device::driver().value()->cuPointerGetAttribute(&type, ronde::cu::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, reinterpret_cast<uint64_t>(memory));
            if (code != ronde::cu::CUDA_SUCCESS || type != ronde::cu::CU_MEMORYTYPE_DEVICE) return "it is no device memory";
            RONDE_RANK_OK(rondeSetDevice(rondeDeviceCpu));
            void* host = nullptr;
            RONDE_RANK_OK(ncclMemAlloc(&host, 1000));
            memset(host, 1, 1000);
            RONDE_RANK_OK(ncclMemFree(memory));
            RONDE_RANK_OK(ncclMemFree(host));
            return check_code("freed twice", ncclMemFree(memory), ncclInvalidArgument);
          }) == "");
}

namespace {

std::string hex(const ncclUniqueId& id) {
  std::string text;
  for (const char c : id.internal) text += "0123456789abcdef"[static_cast<uint8_t>(c) >> 4], text += "0123456789abcdef"[c & 15];
  return text;
}

/// Calls until something fails, and says what.
int role_until_error(Child& child) {
  ncclUniqueId id;
  for (size_t i = 0; i < sizeof id.internal; ++i) id.internal[i] = static_cast<char>(std::stoi(child.argument.substr(2 * i, 2), nullptr, 16));
  use_gpu(child.rank);
  ncclComm_t comm = nullptr;
  const ncclResult_t code = ncclCommInitRank(&comm, child.ranks, id, child.rank);
  child.say(code == ncclSuccess ? "up" : "init: " + std::string(ncclGetLastError(nullptr)));
  if (code != ncclSuccess) return 1;
  const GpuStream stream;
  const GpuBuffer buffer(4000);
  ncclResult_t failed = ncclSuccess;
  while (failed == ncclSuccess) {
    failed = ncclAllReduce(buffer.at(), buffer.at(), 1000, ncclFloat32, ncclSum, comm, stream.get());
    while (failed == ncclSuccess && !stream.finish(0.01).empty()) ncclCommGetAsyncError(comm, &failed);
  }
  child.say("code " + std::to_string(failed) + ": " + last_error(comm));
  child.hear();
  ncclCommAbort(comm);
  child.say(stream.finish(10).empty() ? "aborted" : "its kernels do not end");
  return 0;
}
const RegisterRole registered("device-until-error", role_until_error);

}  // namespace

TEST_CASE("a killed process is an error that names it on every survivor", "[device][faults]") {
  RONDE_NEED_GPUS();
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ChildrenRequest request;
  request.role = "device-until-error";
  request.ranks = 3;
  request.argument = hex(id);
  request.bootstraps = 0;
  Children children(request);
  for (int r = 0; r < 3; ++r) REQUIRE(children.hear(r) == "up");
  children.signal(1, SIGKILL);
  for (const int r : {0, 2}) {
    const std::string said = children.hear(r);
    INFO("rank " << r << ": " << said);
    CHECK(contains(said, "code 6"));
    CHECK(contains(said, "rank 1 died"));
  }
  for (const int r : {0, 2}) children.say(r, "go on");
  for (const int r : {0, 2}) {
    CHECK(children.hear(r) == "aborted");
    CHECK(children.wait(r) == "exited 0");
  }
}
