// Order in streams and between them; events; words that streams write and wait for.
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "emulator/emulated.h"

using namespace ronde::test;

namespace {

/// Host work that waits until the test lets it go on, in the stream's order.
struct Gate {
  std::atomic<bool> open{false};
  std::atomic<int> passed{0};
  static void run(void* data) {
    auto* gate = static_cast<Gate*>(data);
    while (!gate->open.load()) std::this_thread::yield();
    gate->passed.fetch_add(1);
  }
};

class TestStream {
 public:
  explicit TestStream(unsigned flags) { REQUIRE_CU(started().cuStreamCreate(&handle, flags)); }
  ~TestStream() { CHECK_CU(started().cuStreamDestroy_v2(handle)); }
  TestStream(const TestStream&) = delete;
  CUstream handle = nullptr;
};

class TestEvent {
 public:
  explicit TestEvent(unsigned flags) { REQUIRE_CU(started().cuEventCreate(&handle, flags)); }
  ~TestEvent() { CHECK_CU(started().cuEventDestroy_v2(handle)); }
  TestEvent(const TestEvent&) = delete;
  CUevent handle = nullptr;
};

}  // namespace

TEST_CASE("work of a stream runs in order, and the host does not wait", "[emulator][driver][stream]") {
  const Emulated& cu = started();
  Primary zero(0);
  TestStream stream(CU_STREAM_NON_BLOCKING);
  Buffer buffer(8);
  Gate gate;
  std::vector<uint32_t> words(2);
  CHECK_CU(cu.cuStreamQuery(stream.handle));
  CHECK_CU(cu.cuLaunchHostFunc(stream.handle, Gate::run, &gate));
  CHECK_CU(cu.cuMemsetD32Async(buffer.address, 5, 1, stream.handle));
  CHECK_CU(cu.cuMemsetD32Async(buffer.address, 6, 2, stream.handle));
  CHECK_CU(cu.cuMemcpyDtoHAsync_v2(words.data(), buffer.address, 8, stream.handle));
  CHECK(cu.cuStreamQuery(stream.handle) == CUDA_ERROR_NOT_READY);
  CHECK(words[0] == 0);
  gate.open = true;
  CHECK_CU(cu.cuStreamSynchronize(stream.handle));
  CHECK(words == std::vector<uint32_t>{6, 6});
  CHECK(gate.passed == 1);
  CHECK_CU(cu.cuStreamQuery(stream.handle));
}

TEST_CASE("an event orders streams of two devices", "[emulator][driver][stream]") {
  const Emulated& cu = started();
  Primary one(1);
  TestStream second(CU_STREAM_NON_BLOCKING);
  Primary zero(0);
  TestStream first(CU_STREAM_NON_BLOCKING);
  TestEvent event(CU_EVENT_DISABLE_TIMING);
  Buffer buffer(4);
  Gate gate;
  uint32_t seen = 0;
  // Never recorded: nothing to wait for.
  CHECK_CU(cu.cuEventQuery(event.handle));
  CHECK_CU(cu.cuMemsetD32_v2(buffer.address, 1, 1));
  CHECK_CU(cu.cuLaunchHostFunc(first.handle, Gate::run, &gate));
  CHECK_CU(cu.cuMemsetD32Async(buffer.address, 2, 1, first.handle));
  CHECK_CU(cu.cuEventRecord(event.handle, first.handle));
  CHECK_CU(cu.cuStreamWaitEvent(second.handle, event.handle, 0));
  CHECK_CU(cu.cuMemcpyDtoHAsync_v2(&seen, buffer.address, 4, second.handle));
  CHECK(cu.cuEventQuery(event.handle) == CUDA_ERROR_NOT_READY);
  CHECK(cu.cuStreamQuery(second.handle) == CUDA_ERROR_NOT_READY);
  gate.open = true;
  CHECK_CU(cu.cuStreamSynchronize(second.handle));
  CHECK(seen == 2);
  CHECK_CU(cu.cuEventSynchronize(event.handle));
  CHECK(cu.cuEventRecord(event.handle, second.handle) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("a wait is for the record before it, not for later ones", "[emulator][driver][stream]") {
  const Emulated& cu = started();
  Primary zero(0);
  TestStream first(CU_STREAM_NON_BLOCKING);
  TestStream second(CU_STREAM_NON_BLOCKING);
  TestEvent event(0);
  Gate gate;
  CHECK_CU(cu.cuEventRecord(event.handle, first.handle));
  CHECK_CU(cu.cuStreamWaitEvent(second.handle, event.handle, 0));
  CHECK_CU(cu.cuLaunchHostFunc(first.handle, Gate::run, &gate));
  CHECK_CU(cu.cuEventRecord(event.handle, first.handle));
  CHECK_CU(cu.cuStreamSynchronize(second.handle));
  CHECK(cu.cuEventQuery(event.handle) == CUDA_ERROR_NOT_READY);
  gate.open = true;
  CHECK_CU(cu.cuEventSynchronize(event.handle));
}

TEST_CASE("the legacy stream waits for blocking streams, and they for it", "[emulator][driver][stream]") {
  const Emulated& cu = started();
  Primary zero(0);
  TestStream blocking(CU_STREAM_DEFAULT);
  TestStream free(CU_STREAM_NON_BLOCKING);
  Gate gate;
  Gate legacy;
  legacy.open = true;
  CHECK_CU(cu.cuLaunchHostFunc(blocking.handle, Gate::run, &gate));
  CHECK_CU(cu.cuLaunchHostFunc(nullptr, Gate::run, &legacy));
  CHECK_CU(cu.cuLaunchHostFunc(CU_STREAM_PER_THREAD, Gate::run, &legacy));
  CHECK_CU(cu.cuLaunchHostFunc(free.handle, Gate::run, &legacy));
  CHECK_CU(cu.cuStreamSynchronize(free.handle));
  CHECK(legacy.passed == 1);
  CHECK(cu.cuStreamQuery(CU_STREAM_LEGACY) == CUDA_ERROR_NOT_READY);
  CHECK(cu.cuStreamQuery(CU_STREAM_PER_THREAD) == CUDA_ERROR_NOT_READY);
  gate.open = true;
  CHECK_CU(cu.cuStreamSynchronize(CU_STREAM_PER_THREAD));
  CHECK(legacy.passed == 3);
}

TEST_CASE("events tell the time between them", "[emulator][driver][stream]") {
  const Emulated& cu = started();
  Primary zero(0);
  TestStream stream(0);
  TestEvent before(0);
  TestEvent after(0);
  TestEvent untimed(CU_EVENT_DISABLE_TIMING);
  float time = -1;
  CHECK(cu.cuEventElapsedTime(&time, before.handle, after.handle) == CUDA_ERROR_INVALID_HANDLE);
  CHECK_CU(cu.cuEventRecord(before.handle, stream.handle));
  CHECK_CU(cu.cuEventRecord(untimed.handle, stream.handle));
  CHECK_CU(cu.cuEventRecord(after.handle, stream.handle));
  CHECK_CU(cu.cuEventSynchronize(after.handle));
  CHECK_CU(cu.cuEventElapsedTime(&time, before.handle, after.handle));
  CHECK(time >= 0);
  CHECK(cu.cuEventElapsedTime(&time, before.handle, untimed.handle) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("a stream waits for a word that another writes", "[emulator][driver][stream]") {
  const Emulated& cu = started();
  Primary zero(0);
  TestStream first(CU_STREAM_NON_BLOCKING);
  TestStream second(CU_STREAM_NON_BLOCKING);
  Buffer buffer(16);
  CHECK_CU(cu.cuMemsetD32_v2(buffer.address, 0, 4));
  CHECK_CU(cu.cuStreamWaitValue32_v2(first.handle, buffer.address, 3, CU_STREAM_WAIT_VALUE_GEQ));
  CHECK_CU(cu.cuStreamWriteValue64_v2(first.handle, buffer.address + 8, 77, 0));
  CHECK_CU(cu.cuStreamWriteValue32_v2(second.handle, buffer.address, 2, 0));
  CHECK_CU(cu.cuStreamSynchronize(second.handle));
  CHECK(cu.cuStreamQuery(first.handle) == CUDA_ERROR_NOT_READY);
  CHECK_CU(cu.cuStreamWriteValue32_v2(second.handle, buffer.address, 3, 0));
  CHECK_CU(cu.cuStreamSynchronize(first.handle));
  CHECK(cu.cuStreamWaitValue64_v2(first.handle, buffer.address + 4, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  std::vector<uint32_t> words(4);
  CHECK_CU(cu.cuMemcpyDtoH_v2(words.data(), buffer.address, 16));
  CHECK(words == std::vector<uint32_t>{3, 0, 77, 0});
}

TEST_CASE("streams tell what they are", "[emulator][driver][stream]") {
  const Emulated& cu = started();
  Primary two(2);
  int least = 1;
  int greatest = 1;
  CHECK_CU(cu.cuCtxGetStreamPriorityRange(&least, &greatest));
  CHECK(greatest < least);
  CUstream stream = nullptr;
  CHECK_CU(cu.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest - 3));
  int priority = 0;
  CHECK_CU(cu.cuStreamGetPriority(stream, &priority));
  CHECK(priority == greatest);
  unsigned flags = 0;
  CHECK_CU(cu.cuStreamGetFlags(stream, &flags));
  CHECK(flags == CU_STREAM_NON_BLOCKING);
  CUcontext context = nullptr;
  CHECK_CU(cu.cuStreamGetCtx(stream, &context));
  CHECK(context == two.handle);
  CUdevice device = -1;
  CHECK_CU(cu.cuStreamGetDevice(stream, &device));
  CHECK(device == 2);
  // What is in a stream is done after its handle is gone.
  Gate gate;
  CHECK_CU(cu.cuLaunchHostFunc(stream, Gate::run, &gate));
  CHECK_CU(cu.cuStreamDestroy_v2(stream));
  gate.open = true;
  CHECK_CU(cu.cuCtxSynchronize());
  CHECK(gate.passed == 1);
}
