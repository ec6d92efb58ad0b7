#include "device/gpus.h"

#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include "base/clock.h"
#include "kernels/cuda/kernels.h"
#include "support/catch.h"

namespace ronde::test {
namespace {

constexpr size_t kMargin = 256;
constexpr std::byte kFill{0x5a};

bool real_gpu() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(library, "cuInit"));
  const auto count = reinterpret_cast<int (*)(int*)>(dlsym(library, "cuDeviceGetCount"));
  int devices = 0;
  return init != nullptr && count != nullptr && init(0) == 0 && count(&devices) == 0 && devices > 0;
}

/// Before anything reads the variables.
const bool is_emulated = [] {
  if (getenv("RONDE_CUDA_LIBRARY") == nullptr) {
    if (real_gpu()) return false;
    setenv("RONDE_CUDA_LIBRARY", RONDE_TEST_EMULATOR, 1);
  }
  const std::string name = getenv("RONDE_CUDA_LIBRARY");
  if (name.find("libcuda-emu") == std::string::npos) return false;
  setenv("RONDE_EMU_DEVICES", "8", 0);
  setenv("RONDE_EMU_MEMORY", "64G", 0);  // taken when touched; communicators that failed leave theirs
  setenv("RONDE_EMU_LIMIT", "120000", 0);  // a kernel that hangs ends with a dump of its warps
  return true;
}();

const device::Driver& driver() { return *device::driver().value(); }

void must(cu::CUresult code, const char* what) {
  const Result<> checked = device::check(code, [&] { return what; });
  if (!checked.ok()) throw std::runtime_error(checked.error().what);
}

}  // namespace

std::string why_no_gpus() {
  if (gpu::images().empty()) return "this build has no kernels for GPUs: it was made without nvcc";
  const Result<const device::Driver*> there = device::driver();
  return there.ok() ? "" : there.error().what;
}

bool emulated() { return is_emulated; }

int gpu_count() {
  int count = 0;
  must(driver().cuDeviceGetCount(&count), "counting GPUs");
  return count;
}

void use_gpu(int number) {
  static std::mutex mutex;
  static auto& gpus = *new std::map<int, std::shared_ptr<const device::Gpu>>();  // kept, as a program's primary contexts are
  const std::lock_guard lock(mutex);
  const int ordinal = number % gpu_count();
  std::shared_ptr<const device::Gpu>& gpu = gpus[ordinal];
  if (gpu == nullptr) gpu = device::Gpu::open(ordinal).value();
  must(driver().cuCtxSetCurrent(gpu->context()), "cuCtxSetCurrent");
  rondeSetDevice(rondeDeviceCuda);
}

GpuBuffer::GpuBuffer(size_t bytes, size_t offset) : offset_(kMargin + offset), bytes_(bytes) {
  const size_t all = offset_ + bytes_ + kMargin;
  must(driver().cuMemAlloc_v2(&address_, all), "cuMemAlloc");
  const std::vector<std::byte> fill(all, kFill);
  must(driver().cuMemcpyHtoD_v2(address_, fill.data(), all), "filling a buffer");
}
GpuBuffer::GpuBuffer(std::span<const std::byte> content, size_t offset) : GpuBuffer(content.size(), offset) { set(content); }
GpuBuffer::~GpuBuffer() { driver().cuMemFree_v2(address_); }

void GpuBuffer::set(std::span<const std::byte> content, size_t byte) {
  if (!content.empty()) must(driver().cuMemcpyHtoD_v2(address_ + offset_ + byte, content.data(), content.size()), "writing a buffer");
}
std::vector<std::byte> GpuBuffer::get() const {
  std::vector<std::byte> content(bytes_);
  if (bytes_ != 0) must(driver().cuMemcpyDtoH_v2(content.data(), address_ + offset_, bytes_), "reading a buffer");
  return content;
}
bool GpuBuffer::surroundings_untouched() const {
  std::vector<std::byte> all(offset_ + bytes_ + kMargin);
  must(driver().cuMemcpyDtoH_v2(all.data(), address_, all.size()), "reading around a buffer");
  for (size_t i = 0; i < all.size(); ++i) {
    if ((i < offset_ || i >= offset_ + bytes_) && all[i] != kFill) return false;
  }
  return true;
}

GpuStream::GpuStream() { must(driver().cuStreamCreate(&stream_, cu::CU_STREAM_NON_BLOCKING), "cuStreamCreate"); }
GpuStream::~GpuStream() { driver().cuStreamDestroy_v2(stream_); }
std::string GpuStream::finish_stream(cudaStream_t stream, double seconds) {
  const Deadline limit = Deadline::in(seconds);
  while (true) {
    const cu::CUresult code = driver().cuStreamQuery(reinterpret_cast<cu::CUstream>(stream));
    if (code == cu::CUDA_SUCCESS) return "";
    if (code != cu::CUDA_ERROR_NOT_READY) return device::driver_error(code, "the stream").what;
    if (limit.passed()) return "the stream is still busy after " + std::to_string(seconds) + " s";
    std::this_thread::yield();
  }
}

std::string run_gpus(int ranks, const GpuBody& body, bool destroy) {
  ncclUniqueId id;
  const std::string made = check_code("ncclGetUniqueId", ncclGetUniqueId(&id));
  if (!made.empty()) return made;
  return run_threads(ranks, [&](int rank) -> std::string {
    use_gpu(rank);
    ncclComm_t comm = nullptr;
    RONDE_RANK_OK(ncclCommInitRank(&comm, ranks, id, rank));
    const GpuStream stream;
    std::string complaint = body(comm, rank, stream.get());
    if (complaint.empty() && destroy) complaint = stream.finish();
    if (!complaint.empty()) {
      ncclCommAbort(comm);
      return complaint;
    }
    if (destroy) RONDE_RANK_OK(ncclCommDestroy(comm));
    return "";
  });
}

GpuTeam::GpuTeam(int ranks, int gpus) : comms(static_cast<size_t>(ranks)), gpus_(gpus) {
  ncclUniqueId id;
  REQUIRE(check_code("ncclGetUniqueId", ncclGetUniqueId(&id)) == "");
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (int rank = 0; rank < ranks; ++rank) {
    on(rank);
    REQUIRE(check_code("ncclCommInitRank", ncclCommInitRank(&comms[static_cast<size_t>(rank)], ranks, id, rank)) == "");
    streams.push_back(std::make_unique<GpuStream>());
  }
  REQUIRE(check_code("ncclGroupEnd", ncclGroupEnd()) == "");
}

GpuTeam::~GpuTeam() {
  const bool idle = finish().empty();
  for (const ncclComm_t comm : comms) idle ? ncclCommDestroy(comm) : ncclCommAbort(comm);
}

std::string GpuTeam::finish(double seconds) const {
  for (size_t rank = 0; rank < streams.size(); ++rank) {
    const std::string complaint = streams[rank]->finish(seconds);
    if (!complaint.empty()) return "rank " + std::to_string(rank) + ": " + complaint;
  }
  return "";
}

}  // namespace ronde::test
