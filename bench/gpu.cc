#include "bench/gpu.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include "bench/failure.h"

namespace ronde::bench::gpu {
namespace {

using Address = unsigned long long;
constexpr int kNotReady = 600;
constexpr unsigned kNonBlocking = 1;

/// The driver's functions under their names; each returns 0 for success.
struct Driver {
  int (*init)(unsigned) = nullptr;
  int (*count)(int*) = nullptr;
  int (*get)(int*, int) = nullptr;
  int (*name)(char*, int, int) = nullptr;
  int (*bus_id)(char*, int, int) = nullptr;
  int (*retain)(void**, int) = nullptr;
  int (*set_current)(void*) = nullptr;
  int (*allocate)(Address*, size_t) = nullptr;
  int (*release)(Address) = nullptr;
  int (*upload)(Address, const void*, size_t) = nullptr;
  int (*download)(void*, Address, size_t) = nullptr;
  int (*stream_create)(cudaStream_t*, unsigned) = nullptr;
  int (*stream_destroy)(cudaStream_t) = nullptr;
  int (*stream_query)(cudaStream_t) = nullptr;
  int devices = 0;
};

template <class Function>
bool find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

Driver load() {
  Driver d;
  const char* const named = getenv("RONDE_CUDA_LIBRARY");
  void* const library = dlopen(named != nullptr && *named != '\0' ? named : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return d;
  const bool all = find(library, "cuInit", d.init) && find(library, "cuDeviceGetCount", d.count) && find(library, "cuDeviceGet", d.get) &&
                   find(library, "cuDeviceGetName", d.name) && find(library, "cuDeviceGetPCIBusId", d.bus_id) &&
                   find(library, "cuDevicePrimaryCtxRetain", d.retain) && find(library, "cuCtxSetCurrent", d.set_current) &&
                   find(library, "cuMemAlloc_v2", d.allocate) && find(library, "cuMemFree_v2", d.release) &&
                   find(library, "cuMemcpyHtoD_v2", d.upload) && find(library, "cuMemcpyDtoH_v2", d.download) &&
                   find(library, "cuStreamCreate", d.stream_create) && find(library, "cuStreamDestroy_v2", d.stream_destroy) &&
                   find(library, "cuStreamQuery", d.stream_query);
  if (!all || d.init(0) != 0 || d.count(&d.devices) != 0) d.devices = 0;
  return d;
}

const Driver& driver() {
  static const Driver& once = *new Driver(load());
  return once;
}

void check(int code, const char* attempted) {
  if (code != 0) throw TestFailure(Exit::device, fmt::format("{}: CUDA's driver gives error {}", attempted, code));
}

Address address(const void* memory) { return reinterpret_cast<Address>(memory); }

}  // namespace

int count() { return driver().devices; }

std::string name(int device) {
  char words[128] = "", bus[32] = "";
  int handle = 0;
  check(driver().get(&handle, device), "cuDeviceGet");
  check(driver().name(words, sizeof words, handle), "cuDeviceGetName");
  check(driver().bus_id(bus, sizeof bus, handle), "cuDeviceGetPCIBusId");
  return fmt::format("{} {}", bus, words);
}

void use(int device) {
  if (device >= count()) throw TestFailure(Exit::device, fmt::format("a rank needs GPU {}, and there are {}; start fewer ranks (-g, -t, -n)", device, count()));
  static std::mutex mutex;
  static std::map<int, void*> contexts;
  const std::lock_guard lock(mutex);
  void*& context = contexts[device];
  int handle = 0;
  check(driver().get(&handle, device), "cuDeviceGet");
  if (context == nullptr) check(driver().retain(&context, handle), "cuDevicePrimaryCtxRetain");
  check(driver().set_current(context), "cuCtxSetCurrent");
}

void* allocate(size_t bytes) {
  Address memory = 0;
  const int code = driver().allocate(&memory, bytes);
  if (code != 0) throw TestFailure(Exit::device, fmt::format("cuMemAlloc of {} bytes: CUDA's driver gives error {}", bytes, code));
  return reinterpret_cast<void*>(memory);
}
void release(void* memory) { check(driver().release(address(memory)), "cuMemFree"); }
void upload(void* to, const void* from, size_t bytes) {
  if (bytes != 0) check(driver().upload(address(to), from, bytes), "cuMemcpyHtoD");
}
void download(void* to, const void* from, size_t bytes) {
  if (bytes != 0) check(driver().download(to, address(from), bytes), "cuMemcpyDtoH");
}

cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  check(driver().stream_create(&stream, kNonBlocking), "cuStreamCreate");
  return stream;
}
void destroy_stream(cudaStream_t stream) { check(driver().stream_destroy(stream), "cuStreamDestroy"); }
bool idle(cudaStream_t stream) {
  const int code = driver().stream_query(stream);
  if (code == kNotReady) return false;
  check(code, "cuStreamQuery");
  return true;
}

}  // namespace ronde::bench::gpu
