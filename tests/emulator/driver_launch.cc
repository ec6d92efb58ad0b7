// Modules and launches, and what a kernel's fault does to its context.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "emulator/emulated.h"

using namespace ronde::test;

namespace {

CUmodule load(const char* image) {
  CUmodule module = nullptr;
  REQUIRE_CU(started().cuModuleLoadData(&module, image));
  return module;
}

CUfunction function_of(CUmodule module, const char* name) {
  CUfunction function = nullptr;
  REQUIRE_CU(started().cuModuleGetFunction(&function, module, name));
  return function;
}

CUresult launch(CUfunction function, unsigned blocks, unsigned threads, CUstream stream, std::vector<void*> parameters) {
  return started().cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, parameters.data(), nullptr);
}

struct FatbinEntry {
  uint16_t kind;  // 1: PTX, 2: machine code
  uint32_t arch;
  uint64_t flags;
  std::string payload;
};

std::string fatbin(const std::vector<FatbinEntry>& entries) {
  std::string body;
  for (const FatbinEntry& entry : entries) {
    std::string header(64, '\0');
    const auto put = [&](size_t at, auto value) { std::memcpy(header.data() + at, &value, sizeof value); };
    put(0, entry.kind);
    put(4, uint32_t{64});
    put(8, uint64_t{entry.payload.size()});
    put(28, entry.arch);
    put(40, entry.flags);
    body += header + entry.payload;
  }
  std::string header("\x50\xed\x55\xba\x01\x00\x10\x00", 8);
  const uint64_t size = body.size();
  header.append(reinterpret_cast<const char*>(&size), sizeof size);
  return header + body;
}

}  // namespace

TEST_CASE("a kernel of plain PTX runs", "[emulator][driver][launch]") {
  const Emulated& cu = started();
  Primary zero(0);
  const CUmodule module = load(kPtx);
  const CUfunction add = function_of(module, "add");
  Buffer buffer(400);
  CHECK_CU(cu.cuMemsetD32_v2(buffer.address, 1, 100));
  uint32_t count = 90;
  uint32_t value = 41;
  CHECK_CU(launch(add, 4, 32, nullptr, {&buffer.address, &count, &value}));
  const auto words = words_at(buffer.address, 100);
  for (size_t i = 0; i < 100; ++i) CHECK(words[i] == (i < 90 ? 42 : 1));
  // The same by a block of parameters.
  struct {
    CUdeviceptr data;
    uint32_t count, value;
  } block{buffer.address, 1, 8};
  size_t bytes = sizeof block;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &block, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  CHECK_CU(cu.cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, extra));
  CHECK(words_at(buffer.address, 2) == std::vector<uint32_t>{50, 42});
  CHECK_CU(cu.cuModuleUnload(module));
  CHECK(launch(add, 1, 1, nullptr, {&buffer.address, &count, &value}) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("kernels of one process run side by side", "[emulator][driver][launch]") {
  const Emulated& cu = started();
  Primary zero(0);
  const CUmodule module = load(kPtx);
  CUstream waiting = nullptr;
  CUstream writing = nullptr;
  CHECK_CU(cu.cuStreamCreate(&waiting, CU_STREAM_NON_BLOCKING));
  CHECK_CU(cu.cuStreamCreate(&writing, CU_STREAM_NON_BLOCKING));
  Buffer buffer(8);
  CHECK_CU(cu.cuMemsetD32_v2(buffer.address, 0, 2));
  CUdeviceptr out = buffer.address + 4;
  uint32_t value = 9;
  CHECK_CU(launch(function_of(module, "hold"), 1, 32, waiting, {&buffer.address, &out}));
  CHECK(cu.cuStreamQuery(waiting) == CUDA_ERROR_NOT_READY);
  CHECK_CU(launch(function_of(module, "poke"), 1, 1, writing, {&buffer.address, &value}));
  CHECK_CU(cu.cuStreamSynchronize(waiting));
  CHECK(words_at(buffer.address, 2) == std::vector<uint32_t>{9, 9});
  CHECK_CU(cu.cuStreamDestroy_v2(waiting));
  CHECK_CU(cu.cuStreamDestroy_v2(writing));
  CHECK_CU(cu.cuModuleUnload(module));
}

TEST_CASE("variables belong to a module in a context", "[emulator][driver][launch]") {
  const Emulated& cu = started();
  CUlibrary library = nullptr;
  REQUIRE_CU(cu.cuLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CUkernel bump = nullptr;
  CHECK_CU(cu.cuLibraryGetKernel(&bump, library, "bump"));
  CHECK(cu.cuLibraryGetKernel(&bump, library, "nothing") == CUDA_ERROR_NOT_FOUND);
  for (int device = 0; device < 2; ++device) {
    Primary context(device);
    CUdeviceptr counter = 0;
    size_t bytes = 0;
    CHECK_CU(cu.cuLibraryGetGlobal(&counter, &bytes, library, "counter"));
    CHECK(bytes == 4);
    CHECK(words_at(counter, 1)[0] == 7);
    CUfunction function = nullptr;
    CHECK_CU(cu.cuKernelGetFunction(&function, bump));
    CHECK_CU(launch(function, 1, 3, nullptr, {}));
    CHECK_CU(launch(reinterpret_cast<CUfunction>(bump), 2, 1, nullptr, {}));
    CHECK(words_at(counter, 1)[0] == 12);
  }
  CHECK_CU(cu.cuLibraryUnload(library));
  CHECK(cu.cuLibraryUnload(library) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("launches that cannot be are refused", "[emulator][driver][launch]") {
  const Emulated& cu = started();
  Primary one(1);
  CUstream far = nullptr;
  CHECK_CU(cu.cuStreamCreate(&far, 0));
  Primary zero(0);
  const CUmodule module = load(kPtx);
  const CUfunction bump = function_of(module, "bump");
  const CUfunction add = function_of(module, "add");
  CHECK(launch(bump, 0, 1, nullptr, {}) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch(bump, 1, 1025, nullptr, {}) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch(bump, 1, 1, far, {}) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cu.cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu.cuLaunchKernel(bump, 1, 1, 1, 1, 1, 1, 49 << 10, nullptr, nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK_CU(cu.cuFuncSetAttribute(bump, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 64 << 10));
  CHECK_CU(cu.cuLaunchKernel(bump, 1, 1, 1, 1, 1, 1, 49 << 10, nullptr, nullptr, nullptr));
  CHECK(cu.cuFuncSetAttribute(bump, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 300 << 10) == CUDA_ERROR_INVALID_VALUE);
  int blocks = 0;
  int registers = 0;
  CHECK_CU(cu.cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, bump));
  CHECK_CU(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, bump, 1024, 0));
  CHECK(blocks == std::min(2, 65536 / (1024 * registers)));
  CHECK_CU(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, bump, 32, 100 << 10));
  CHECK(blocks == 2);
  CHECK(cu.cuLaunchCooperativeKernel(bump, 265, 1, 1, 1024, 1, 1, 0, nullptr, nullptr) ==
        CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  CHECK_CU(cu.cuLaunchCooperativeKernel(bump, 2, 1, 1, 32, 1, 1, 0, nullptr, nullptr));
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim = {2, 1, 1};
  CUlaunchConfig config{2, 1, 1, 32, 1, 1, 0, nullptr, &attribute, 1};
  CHECK(cu.cuLaunchKernelEx(&config, bump, nullptr, nullptr) == CUDA_ERROR_NOT_SUPPORTED);
  attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attribute.value.cooperative = 1;
  CHECK_CU(cu.cuLaunchKernelEx(&config, bump, nullptr, nullptr));
  int threads = 0;
  CHECK_CU(cu.cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, bump));
  CHECK(threads == 1024);
  size_t offset = 0;
  size_t bytes = 0;
  CHECK_CU(cu.cuFuncGetParamInfo(add, 1, &offset, &bytes));
  CHECK(offset == 8);
  CHECK(bytes == 4);
  CHECK(cu.cuFuncGetParamInfo(add, 3, &offset, &bytes) == CUDA_ERROR_INVALID_VALUE);
  CHECK_CU(cu.cuCtxSynchronize());
  CHECK_CU(cu.cuStreamDestroy_v2(far));
}

TEST_CASE("images without PTX that can run are told apart", "[emulator][driver][launch]") {
  const Emulated& cu = started();
  Primary zero(0);
  CUmodule module = nullptr;
  CHECK(cu.cuModuleLoadData(&module, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu.cuModuleLoadData(&module, "no image at all") == CUDA_ERROR_INVALID_IMAGE);
  CHECK(cu.cuModuleLoadData(&module,
                            "\x7f"
                            "ELF and so on") == CUDA_ERROR_NO_BINARY_FOR_GPU);
  CHECK(cu.cuModuleLoadData(&module, ".version 7.0\n.target sm_80\n.address_size 64\n.entry x() { frobnicate.u32 1; }\n") ==
        CUDA_ERROR_INVALID_PTX);
}

TEST_CASE("of a fatbin's PTX that of the newest architecture runs that the device is not older than",
          "[emulator][driver][launch]") {
  const Emulated& cu = started();
  Primary zero(0);
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  const auto text = [](const std::string& name) {
    return ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry " + name + "() { ret; }\n";
  };
  const std::string several =
      fatbin({{1, 75, 0, text("old")}, {2, 90, 0, "machine code"}, {1, 90, 0, text("fitting")}, {1, 120, 0, text("later")}});
  REQUIRE_CU(cu.cuModuleLoadData(&module, several.data()));
  CHECK_CU(cu.cuModuleGetFunction(&function, module, "fitting"));
  CHECK(cu.cuModuleGetFunction(&function, module, "old") == CUDA_ERROR_NOT_FOUND);
  CHECK_CU(cu.cuModuleUnload(module));
  const std::string unfit = fatbin({{2, 90, 0, "machine code"}, {1, 80, 0x8000, "compressed"}, {1, 120, 0, text("later")}});
  CHECK(cu.cuModuleLoadData(&module, unfit.data()) == CUDA_ERROR_NO_BINARY_FOR_GPU);
  INFO(cu.emuLastError());
  CHECK(contains(cu.emuLastError(), "sm_90 compute_80 (compressed) compute_120"));
  CHECK(contains(cu.emuLastError(), "--compress-mode=none"));
  std::string cut = several;
  const uint64_t less = 100;
  std::memcpy(cut.data() + 8, &less, sizeof less);
  CHECK(cu.cuModuleLoadData(&module, cut.data()) == CUDA_ERROR_INVALID_IMAGE);
}

TEST_CASE("a fault ends its context, and no other", "[emulator][driver][launch]") {
  const Emulated& cu = started();
  Primary healthy(1);
  {
    OwnContext context(0);
    const CUmodule module = load(kPtx);
    const CUfunction poke = function_of(module, "poke");
    CUstream stream = nullptr;
    CHECK_CU(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUdeviceptr address = 0;
    CHECK_CU(cu.cuMemAlloc_v2(&address, 64));
    uint32_t value = 1;
    CUresult expected = CUDA_ERROR_ILLEGAL_ADDRESS;
    CUdeviceptr target = address + 64;
    SECTION("past the end of an allocation") {}
    SECTION("at an address of the host") { target = reinterpret_cast<CUdeviceptr>(&value); }
    SECTION("after the memory was freed") {
      target = address;
      CHECK_CU(cu.cuMemFree_v2(address));
    }
    SECTION("misaligned") {
      target = address + 2;
      expected = CUDA_ERROR_MISALIGNED_ADDRESS;
    }
    CHECK_CU(launch(poke, 1, 1, stream, {&target, &value}));
    CHECK(cu.cuStreamSynchronize(stream) == expected);
    CHECK(cu.cuStreamQuery(stream) == expected);
    CHECK(cu.cuMemAlloc_v2(&address, 64) == expected);
    CHECK(launch(poke, 1, 1, stream, {&target, &value}) == expected);
    CHECK(cu.cuCtxSynchronize() == expected);
    CHECK(contains(cu.emuLastError(), "kernel poke"));
  }
  Buffer buffer(4);
  CHECK_CU(cu.cuMemsetD32_v2(buffer.address, 3, 1));
  CHECK(words_at(buffer.address, 1)[0] == 3);
}

TEST_CASE("a trap is a failure of the launch", "[emulator][driver][launch]") {
  const Emulated& cu = started();
  OwnContext context(0);
  CHECK_CU(launch(function_of(load(kPtx), "halt"), 1, 1, nullptr, {}));
  CHECK(cu.cuCtxSynchronize() == CUDA_ERROR_LAUNCH_FAILED);
  CHECK(contains(cu.emuLastError(), "kernel halt, block (0,0,0), thread (0,0,0): trap"));
}

TEST_CASE("a fault ends the other kernels of its context", "[emulator][driver][launch]") {
  const Emulated& cu = started();
  OwnContext context(0);
  const CUmodule module = load(kPtx);
  CUstream waiting = nullptr;
  CHECK_CU(cu.cuStreamCreate(&waiting, CU_STREAM_NON_BLOCKING));
  CUdeviceptr address = 0;
  CHECK_CU(cu.cuMemAlloc_v2(&address, 8));
  CHECK_CU(cu.cuMemsetD32_v2(address, 0, 2));
  CUdeviceptr out = address + 4;
  CUdeviceptr wild = 64;
  uint32_t value = 1;
  CHECK_CU(launch(function_of(module, "hold"), 1, 1, waiting, {&address, &out}));
  CHECK_CU(launch(function_of(module, "poke"), 1, 1, CU_STREAM_PER_THREAD, {&wild, &value}));
  CHECK(cu.cuStreamSynchronize(waiting) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_CASE("a device reaches a peer's memory once it is allowed to", "[emulator][driver][launch]") {
  const Emulated& cu = started();
  Primary one(1);
  Buffer far(4);
  CHECK_CU(cu.cuMemsetD32_v2(far.address, 0, 1));
  uint32_t value = 5;
  {
    OwnContext zero(0);
    const CUfunction poke = function_of(load(kPtx), "poke");
    CHECK_CU(launch(poke, 1, 1, nullptr, {&far.address, &value}));
    CHECK(cu.cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
  }
  {
    OwnContext zero(0);
    const CUfunction poke = function_of(load(kPtx), "poke");
    CHECK_CU(cu.cuCtxEnablePeerAccess(one.handle, 0));
    CHECK_CU(launch(poke, 1, 1, nullptr, {&far.address, &value}));
    CHECK_CU(cu.cuCtxSynchronize());
    CHECK_CU(cu.cuCtxDisablePeerAccess(one.handle));
  }
  CHECK(words_at(far.address, 1)[0] == 5);
}

TEST_CASE("a kernel of nvcc's runs out of its fatbin", "[emulator][driver][launch]") {
#ifdef RONDE_TEST_FATBIN
  const Emulated& cu = started();
  std::ifstream file(RONDE_TEST_FATBIN, std::ios::binary);
  const std::string image((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  REQUIRE(image.size() > 1000);
  Primary zero(0);
  const CUmodule module = load(image.data());
  constexpr uint32_t count = 10000;
  Buffer buffer(4 * count);
  std::vector<uint32_t> words(count);
  for (uint32_t i = 0; i < count; ++i) words[i] = i;
  put_words(buffer.address, words);
  uint32_t n = count;
  uint32_t value = 3;
  CHECK_CU(launch(function_of(module, "scale_and_sum"), 8, 256, nullptr, {&buffer.address, &n, &value}));
  const auto got = words_at(buffer.address, count);
  uint64_t sum = 0;
  for (uint32_t i = 0; i < count; ++i) {
    CHECK(got[i] == i * value * 2);
    sum += got[i];
  }
  CUdeviceptr total = 0;
  size_t bytes = 0;
  CHECK_CU(cu.cuModuleGetGlobal_v2(&total, &bytes, module, "total"));
  REQUIRE(bytes == 8);
  const auto halves = words_at(total, 2);
  CHECK((uint64_t{halves[1]} << 32 | halves[0]) == sum + 100);
#else
  RONDE_SKIP("nvcc is not there");
#endif
}
