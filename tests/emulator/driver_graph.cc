// Captures of streams, and graphs.
#include <atomic>
#include <thread>
#include <vector>

#include "emulator/emulated.h"

using namespace ronde::test;

namespace {

void add_one(void* data) { static_cast<std::atomic<int>*>(data)->fetch_add(1); }

struct Streams {
  Streams() {
    for (CUstream& stream : all) REQUIRE_CU(started().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (CUevent& event : events) REQUIRE_CU(started().cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  }
  ~Streams() {
    for (CUstream stream : all) CHECK_CU(started().cuStreamDestroy_v2(stream));
    for (CUevent event : events) CHECK_CU(started().cuEventDestroy_v2(event));
  }
  CUstream all[2];
  CUevent events[2];
};

size_t nodes_of(CUgraph graph) {
  size_t count = 0;
  CHECK_CU(started().cuGraphGetNodes(graph, nullptr, &count));
  return count;
}

CUstreamCaptureStatus status_of(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CHECK_CU(started().cuStreamIsCapturing(stream, &status));
  return status;
}

}  // namespace

TEST_CASE("a captured stream becomes a graph that can be launched again", "[emulator][driver][graph]") {
  const Emulated& cu = started();
  Primary zero(0);
  Streams streams;
  Buffer buffer(8);
  CHECK_CU(cu.cuMemsetD32_v2(buffer.address, 0, 2));
  std::atomic<int> calls{0};
  CUmodule module = nullptr;
  CUfunction add = nullptr;
  REQUIRE_CU(cu.cuModuleLoadData(&module, kPtx));
  REQUIRE_CU(cu.cuModuleGetFunction(&add, module, "add"));
  CHECK_CU(cu.cuStreamBeginCapture_v2(streams.all[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CHECK(status_of(streams.all[0]) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  {
    uint32_t count = 1;
    uint32_t value = 5;
    void* parameters[] = {&buffer.address, &count, &value};
    CHECK_CU(cu.cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, streams.all[0], parameters, nullptr));
  }
  CHECK_CU(cu.cuLaunchHostFunc(streams.all[0], add_one, &calls));
  CHECK_CU(cu.cuMemcpyDtoDAsync_v2(buffer.address + 4, buffer.address, 4, streams.all[0]));
  CUgraph graph = nullptr;
  CHECK_CU(cu.cuStreamEndCapture(streams.all[0], &graph));
  CHECK(nodes_of(graph) == 3);
  CHECK(calls == 0);
  CUgraphExec exec = nullptr;
  CHECK_CU(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
  CHECK_CU(cu.cuGraphDestroy(graph));
  for (int i = 0; i < 3; ++i) CHECK_CU(cu.cuGraphLaunch(exec, streams.all[0]));
  CHECK_CU(cu.cuStreamSynchronize(streams.all[0]));
  CHECK(calls == 3);
  CHECK(words_at(buffer.address, 2) == std::vector<uint32_t>{15, 15});
  CHECK_CU(cu.cuGraphExecDestroy(exec));
  CHECK(cu.cuGraphLaunch(exec, streams.all[0]) == CUDA_ERROR_INVALID_VALUE);
  CHECK_CU(cu.cuModuleUnload(module));
}

TEST_CASE("branches of a graph run side by side", "[emulator][driver][graph]") {
  const Emulated& cu = started();
  Primary zero(0);
  Streams streams;
  Buffer buffer(12);
  CUmodule module = nullptr;
  CUfunction hold = nullptr;
  CUfunction poke = nullptr;
  REQUIRE_CU(cu.cuModuleLoadData(&module, kPtx));
  REQUIRE_CU(cu.cuModuleGetFunction(&hold, module, "hold"));
  REQUIRE_CU(cu.cuModuleGetFunction(&poke, module, "poke"));
  CUdeviceptr out = buffer.address + 4;
  uint32_t value = 3;
  void* holding[] = {&buffer.address, &out};
  void* poking[] = {&buffer.address, &value};
  CHECK_CU(cu.cuStreamBeginCapture_v2(streams.all[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
  CHECK_CU(cu.cuMemsetD32Async(buffer.address, 0, 3, streams.all[0]));
  CHECK_CU(cu.cuEventRecord(streams.events[0], streams.all[0]));
  CHECK_CU(cu.cuStreamWaitEvent(streams.all[1], streams.events[0], 0));
  CHECK(status_of(streams.all[1]) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  // Either would wait for good if the other had to wait for it.
  CHECK_CU(cu.cuLaunchKernel(hold, 1, 1, 1, 1, 1, 1, 0, streams.all[0], holding, nullptr));
  CHECK_CU(cu.cuLaunchKernel(poke, 1, 1, 1, 1, 1, 1, 0, streams.all[1], poking, nullptr));
  CHECK_CU(cu.cuEventRecord(streams.events[1], streams.all[1]));
  CHECK_CU(cu.cuStreamWaitEvent(streams.all[0], streams.events[1], 0));
  CHECK_CU(cu.cuMemsetD32Async(buffer.address + 8, 9, 1, streams.all[0]));
  CUgraph graph = nullptr;
  CHECK_CU(cu.cuStreamEndCapture(streams.all[0], &graph));
  CHECK(status_of(streams.all[1]) == CU_STREAM_CAPTURE_STATUS_NONE);
  CHECK(nodes_of(graph) == 4);
  CUgraphExec exec = nullptr;
  CHECK_CU(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
  for (int i = 0; i < 2; ++i) {
    CHECK_CU(cu.cuGraphLaunch(exec, streams.all[1]));
    CHECK_CU(cu.cuStreamSynchronize(streams.all[1]));
    CHECK(words_at(buffer.address, 3) == std::vector<uint32_t>{3, 3, 9});
  }
  CHECK_CU(cu.cuGraphExecDestroy(exec));
  CHECK_CU(cu.cuGraphDestroy(graph));
  CHECK_CU(cu.cuModuleUnload(module));
}

TEST_CASE("nodes can be put into a capture by hand", "[emulator][driver][graph]") {
  const Emulated& cu = started();
  Primary zero(0);
  Streams streams;
  std::atomic<int> calls{0};
  CHECK_CU(cu.cuStreamBeginCapture_v2(streams.all[0], CU_STREAM_CAPTURE_MODE_RELAXED));
  CHECK_CU(cu.cuLaunchHostFunc(streams.all[0], add_one, &calls));
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  uint64_t id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode* after = nullptr;
  size_t count = 0;
  CHECK_CU(cu.cuStreamGetCaptureInfo_v2(streams.all[0], &status, &id, &graph, &after, &count));
  CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CHECK(id != 0);
  REQUIRE(count == 1);
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  CHECK_CU(cu.cuGraphNodeGetType(after[0], &type));
  CHECK(type == CU_GRAPH_NODE_TYPE_HOST);
  CUDA_HOST_NODE_PARAMS parameters{add_one, &calls};
  CUgraphNode node = nullptr;
  CHECK_CU(cu.cuGraphAddHostNode(&node, graph, after, 1, &parameters));
  CHECK_CU(cu.cuStreamUpdateCaptureDependencies(streams.all[0], &node, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
  const CUgraphEdgeData* edges = nullptr;
  CHECK_CU(cu.cuStreamGetCaptureInfo_v3(streams.all[0], &status, &id, &graph, &after, &edges, &count));
  REQUIRE(count == 1);
  CHECK(after[0] == node);
  CHECK_CU(cu.cuStreamEndCapture(streams.all[0], &graph));
  CHECK(nodes_of(graph) == 2);
  CUgraphExec exec = nullptr;
  CHECK_CU(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
  CHECK_CU(cu.cuGraphLaunch(exec, streams.all[0]));
  CHECK_CU(cu.cuStreamSynchronize(streams.all[0]));
  CHECK(calls == 2);
  CHECK_CU(cu.cuGraphExecDestroy(exec));
  CHECK_CU(cu.cuGraphDestroy(graph));
}

TEST_CASE("what would wait or be waited for spoils a capture", "[emulator][driver][graph]") {
  const Emulated& cu = started();
  Primary zero(0);
  Streams streams;
  CUgraph graph = nullptr;
  CUdeviceptr address = 0;
  SECTION("a synchronization with the stream") {
    CHECK_CU(cu.cuStreamBeginCapture_v2(streams.all[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cu.cuStreamSynchronize(streams.all[0]) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK(status_of(streams.all[0]) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  }
  SECTION("memory is allocated") {
    CHECK_CU(cu.cuStreamBeginCapture_v2(streams.all[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(cu.cuMemAlloc_v2(&address, 64) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  SECTION("an event from outside") {
    CHECK_CU(cu.cuEventRecord(streams.events[0], streams.all[1]));
    CHECK_CU(cu.cuStreamBeginCapture_v2(streams.all[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(cu.cuStreamWaitEvent(streams.all[0], streams.events[0], 0) == CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  }
  CHECK(cu.cuStreamEndCapture(streams.all[0], &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(graph == nullptr);
  CHECK(cu.cuStreamEndCapture(streams.all[0], &graph) == CUDA_ERROR_ILLEGAL_STATE);
}

TEST_CASE("a thread in relaxed mode may allocate while a stream is captured", "[emulator][driver][graph]") {
  const Emulated& cu = started();
  Primary zero(0);
  Streams streams;
  CUgraph graph = nullptr;
  CHECK_CU(cu.cuStreamBeginCapture_v2(streams.all[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  CHECK_CU(cu.cuThreadExchangeStreamCaptureMode(&mode));
  CHECK(mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
  CUdeviceptr address = 0;
  CHECK_CU(cu.cuMemAlloc_v2(&address, 64));
  CHECK_CU(cu.cuMemFree_v2(address));
  CHECK_CU(cu.cuThreadExchangeStreamCaptureMode(&mode));
  CHECK(mode == CU_STREAM_CAPTURE_MODE_RELAXED);
  CHECK_CU(cu.cuStreamEndCapture(streams.all[0], &graph));
  CHECK(nodes_of(graph) == 0);
  CHECK_CU(cu.cuGraphDestroy(graph));
}

TEST_CASE("a capture ends where it began, with all streams joined", "[emulator][driver][graph]") {
  const Emulated& cu = started();
  Primary zero(0);
  Streams streams;
  std::atomic<int> calls{0};
  CUgraph graph = nullptr;
  CHECK_CU(cu.cuStreamBeginCapture_v2(streams.all[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CHECK(cu.cuStreamBeginCapture_v2(streams.all[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_ERROR_ILLEGAL_STATE);
  CHECK_CU(cu.cuEventRecord(streams.events[0], streams.all[0]));
  CHECK_CU(cu.cuStreamWaitEvent(streams.all[1], streams.events[0], 0));
  CHECK_CU(cu.cuLaunchHostFunc(streams.all[1], add_one, &calls));
  CHECK(cu.cuEventQuery(streams.events[0]) == CUDA_ERROR_CAPTURED_EVENT);
  CHECK(cu.cuStreamEndCapture(streams.all[0], &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK_CU(cu.cuStreamBeginCapture_v2(streams.all[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CHECK_CU(cu.cuEventRecord(streams.events[0], streams.all[0]));
  CHECK_CU(cu.cuStreamWaitEvent(streams.all[1], streams.events[0], 0));
  CHECK_CU(cu.cuLaunchHostFunc(streams.all[1], add_one, &calls));
  CHECK(cu.cuStreamEndCapture(streams.all[0], &graph) == CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  CHECK(status_of(streams.all[1]) == CU_STREAM_CAPTURE_STATUS_NONE);
  CHECK(cu.cuStreamBeginCapture_v2(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK_CU(cu.cuStreamBeginCapture_v2(streams.all[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  std::thread([&] { CHECK(cu.cuStreamEndCapture(streams.all[0], &graph) == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD); }).join();
  CHECK_CU(cu.cuStreamEndCapture(streams.all[0], &graph));
  CHECK_CU(cu.cuGraphDestroy(graph));
  CHECK(calls == 0);
}

TEST_CASE("an object lives as long as a graph that holds it", "[emulator][driver][graph]") {
  const Emulated& cu = started();
  Primary zero(0);
  std::atomic<int> ended{0};
  CUuserObject object = nullptr;
  CHECK_CU(cu.cuUserObjectCreate(&object, &ended, add_one, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CHECK_CU(cu.cuGraphCreate(&graph, 0));
  CHECK_CU(cu.cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  CHECK_CU(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
  CHECK_CU(cu.cuGraphDestroy(graph));
  CHECK(ended == 0);
  CHECK_CU(cu.cuGraphExecDestroy(exec));
  CHECK(ended == 1);
}
