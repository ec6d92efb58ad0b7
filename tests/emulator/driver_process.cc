// Several processes: memory shared between them, and machines that settings make.
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include "base/fd.h"
#include "emulator/emulated.h"
#include "support/children.h"
#include "support/scratch.h"
#include "topo/gpu_driver.h"

using namespace ronde;
using namespace ronde::test;

namespace {

constexpr size_t kChunk = size_t{2} << 20;

/// The environment of processes that are started while this lives.
class Environment {
 public:
  explicit Environment(std::map<std::string, std::string> values) : values_(std::move(values)) {
    for (const auto& [name, value] : values_) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, value] : values_) unsetenv(name.c_str());
  }

 private:
  std::map<std::string, std::string> values_;
};

std::string hex_of(const void* bytes, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += fmt::format("{:02x}", static_cast<const unsigned char*>(bytes)[i]);
  return text;
}

CUipcMemHandle handle_of(const std::string& text) {
  CUipcMemHandle handle{};
  for (size_t i = 0; i < sizeof handle && 2 * i + 1 < text.size(); ++i)
    handle.reserved[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return handle;
}

/// A role's own way to say what went wrong.
#define ROLE_CU(expression)                                                         \
  do {                                                                              \
    if (const CUresult result = (expression); result != CUDA_SUCCESS) {             \
      child.say(fmt::format("{} gives {}", #expression, static_cast<int>(result))); \
      return 1;                                                                     \
    }                                                                               \
  } while (0)

/// Makes the primary context of a device current.
CUresult begin(CUdevice device) {
  const Emulated& cu = emulated();
  CUcontext context = nullptr;
  CUresult result = cu.cuInit(0);
  if (result == CUDA_SUCCESS) result = cu.cuDevicePrimaryCtxRetain(&context, device);
  return result == CUDA_SUCCESS ? cu.cuCtxSetCurrent(context) : result;
}

/// Opens the handle that the test names, on device 1: reads a word, writes another, and lets a kernel add to both.
int open_ipc(Child& child) {
  const Emulated& cu = emulated();
  ROLE_CU(begin(1));
  const CUipcMemHandle handle = handle_of(child.hear());
  CUdeviceptr address = 0;
  ROLE_CU(cu.cuIpcOpenMemHandle_v2(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  uint32_t word = 0;
  ROLE_CU(cu.cuMemcpyDtoH_v2(&word, address, 4));
  ROLE_CU(cu.cuMemsetD32_v2(address + 4, word + 1, 1));
  CUmodule module = nullptr;
  CUfunction add = nullptr;
  ROLE_CU(cu.cuModuleLoadData(&module, kPtx));
  ROLE_CU(cu.cuModuleGetFunction(&add, module, "add"));
  uint32_t count = 2;
  uint32_t value = 100;
  void* parameters[] = {&address, &count, &value};
  ROLE_CU(cu.cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr));
  ROLE_CU(cu.cuCtxSynchronize());
  CUdeviceptr again = 0;
  ROLE_CU(cu.cuIpcOpenMemHandle_v2(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  ROLE_CU(cu.cuIpcCloseMemHandle(address));  // counted: it is open still
  ROLE_CU(cu.cuMemcpyDtoH_v2(&word, address, 4));
  ROLE_CU(cu.cuIpcCloseMemHandle(address));
  child.say(fmt::format("done {} {} {}", again == address, static_cast<int>(cu.cuIpcCloseMemHandle(address)),
                        static_cast<int>(cu.cuMemcpyDtoH_v2(&word, address, 4))));
  return 0;
}
const RegisterRole ipc_role("emulator_open_ipc", open_ipc);

/// A descriptor of another process, as a message would bring it.
UniqueFd take_descriptor(const std::string& text) {
  int pid = 0;
  int fd = 0;
  std::istringstream(text) >> pid >> fd;
  return UniqueFd(open(fmt::format("/proc/{}/fd/{}", pid, fd).c_str(), O_RDWR | O_CLOEXEC));
}

CUresult map_for(CUmemGenericAllocationHandle handle, CUdevice device, CUdeviceptr& address) {
  const Emulated& cu = emulated();
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUresult result = cu.cuMemAddressReserve(&address, kChunk, 0, 0, 0);
  if (result == CUDA_SUCCESS) result = cu.cuMemMap(address, kChunk, 0, handle, 0);
  return result == CUDA_SUCCESS ? cu.cuMemSetAccess(address, kChunk, &access, 1) : result;
}

CUresult create_on(CUdevice device, CUmemGenericAllocationHandle& handle) {
  CUmemAllocationProp wanted{};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  return emulated().cuMemCreate(&handle, kChunk, &wanted, 0);
}

int import_vmm(Child& child) {
  const Emulated& cu = emulated();
  ROLE_CU(begin(1));
  UniqueFd fd = take_descriptor(child.hear());
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  ROLE_CU(cu.cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(static_cast<intptr_t>(fd.get())),
                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  fd.reset();
  ROLE_CU(map_for(handle, 1, address));
  ROLE_CU(cu.cuMemRelease(handle));
  uint32_t word = 0;
  ROLE_CU(cu.cuMemcpyDtoH_v2(&word, address, 4));
  ROLE_CU(cu.cuMemsetD32_v2(address + 4, 2 * word, 1));
  int ordinal = -1;
  ROLE_CU(cu.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address));
  child.say(fmt::format("done {}", ordinal));
  return 0;
}
const RegisterRole vmm_role("emulator_import_vmm", import_vmm);

/// Gives device 1's memory to the test's multicast object; then waits, as memory ends with its process.
int join_multicast(Child& child) {
  const Emulated& cu = emulated();
  ROLE_CU(begin(1));
  UniqueFd fd = take_descriptor(child.hear());
  CUmemGenericAllocationHandle object = 0;
  CUmemGenericAllocationHandle memory = 0;
  CUdeviceptr address = 0;
  ROLE_CU(cu.cuMemImportFromShareableHandle(&object, reinterpret_cast<void*>(static_cast<intptr_t>(fd.get())),
                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  ROLE_CU(cu.cuMulticastAddDevice(object, 1));
  ROLE_CU(create_on(1, memory));
  ROLE_CU(cu.cuMulticastBindMem(object, 0, memory, 0, kChunk, 0));
  ROLE_CU(map_for(memory, 1, address));
  ROLE_CU(cu.cuMemsetD32_v2(address, 30, 1));
  child.say("bound");
  child.hear();
  uint32_t word = 0;
  ROLE_CU(cu.cuMemcpyDtoH_v2(&word, address, 4));
  child.say(fmt::format("{}", word));
  return 0;
}
const RegisterRole multicast_role("emulator_join_multicast", join_multicast);

/// Tells what it sees of the machine.
int describe(Child& child) {
  const Emulated& cu = emulated();
  int count = 0;
  std::string text = fmt::format("before {}", static_cast<int>(cu.cuDeviceGetCount(&count)));
  text += fmt::format(" init {}", static_cast<int>(cu.cuInit(0)));
  cu.cuDeviceGetCount(&count);
  text += fmt::format(" devices {}", count);
  for (int device = 0; device < count; ++device) {
    char bus[32];
    cu.cuDeviceGetPCIBusId(bus, sizeof bus, device);
    text += fmt::format(" {}", bus);
    for (int peer = 0; peer < count; ++peer) {
      int can = 0;
      cu.cuDeviceCanAccessPeer(&can, device, peer);
      text += can != 0 ? "+" : "-";
    }
  }
  int major = 0;
  size_t bytes = 0;
  if (count > 0) cu.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
  if (count > 0) cu.cuDeviceTotalMem_v2(&bytes, 0);
  child.say(text + fmt::format(" sm {} bytes {}", major, bytes));
  return 0;
}
const RegisterRole describe_role("emulator_describe", describe);

std::string described(const std::map<std::string, std::string>& settings) {
  Environment environment(settings);
  Children children({.role = "emulator_describe", .ranks = 1, .argument = "", .bootstraps = 0});
  return children.hear(0);
}

/// A wild store in a process of its own.
int fault(Child& child) {
  const Emulated& cu = emulated();
  ROLE_CU(begin(0));
  CUmodule module = nullptr;
  CUfunction poke = nullptr;
  ROLE_CU(cu.cuModuleLoadData(&module, kPtx));
  ROLE_CU(cu.cuModuleGetFunction(&poke, module, "poke"));
  CUdeviceptr wild = 4096;
  uint32_t value = 1;
  void* parameters[] = {&wild, &value};
  ROLE_CU(cu.cuLaunchKernel(poke, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  child.say(fmt::format("{}", static_cast<int>(cu.cuCtxSynchronize())));
  return 0;
}
const RegisterRole fault_role("emulator_fault", fault);

/// A kernel that waits for good; the argument says whether the process waits for it or ends.
int hang(Child& child) {
  const Emulated& cu = emulated();
  ROLE_CU(begin(0));
  CUmodule module = nullptr;
  CUfunction hold = nullptr;
  CUdeviceptr address = 0;
  ROLE_CU(cu.cuModuleLoadData(&module, kPtx));
  ROLE_CU(cu.cuModuleGetFunction(&hold, module, "hold"));
  ROLE_CU(cu.cuMemAlloc_v2(&address, 8));
  ROLE_CU(cu.cuMemsetD32_v2(address, 0, 2));
  CUdeviceptr out = address + 4;
  void* parameters[] = {&address, &out};
  ROLE_CU(cu.cuLaunchKernel(hold, 1, 1, 1, 1, 1, 1, 0, CU_STREAM_PER_THREAD, parameters, nullptr));
  if (child.argument == "wait") {
    child.say(fmt::format("{}", static_cast<int>(cu.cuCtxSynchronize())));
    return 0;
  }
  child.say("leaves");
  std::exit(0);
}
const RegisterRole hang_role("emulator_hang", hang);

}  // namespace

TEST_CASE("device memory is opened in another process by its handle", "[emulator][driver][processes]") {
  const Emulated& cu = started();
  Children children({.role = "emulator_open_ipc", .ranks = 1, .argument = "", .bootstraps = 0});
  Primary zero(0);
  Buffer before(100);
  Buffer buffer(4096);
  put_words(buffer.address, {11, 0, 5});
  CUipcMemHandle handle;
  // From within: the handle is the allocation's.
  CHECK_CU(cu.cuIpcGetMemHandle(&handle, buffer.address + 64));
  CUdeviceptr own = 0;
  CHECK(cu.cuIpcOpenMemHandle_v2(&own, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_ERROR_INVALID_CONTEXT);
  children.say(0, hex_of(&handle, sizeof handle));
  CHECK(children.hear(0) ==
        fmt::format("done true {} {}", static_cast<int>(CUDA_ERROR_INVALID_VALUE), static_cast<int>(CUDA_ERROR_INVALID_VALUE)));
  CHECK(children.wait(0) == "exited 0");
  CHECK(words_at(buffer.address, 3) == std::vector<uint32_t>{111, 112, 5});
  CHECK(cu.cuIpcGetMemHandle(&handle, 64) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("memory goes to another process by its descriptor", "[emulator][driver][processes]") {
  const Emulated& cu = started();
  Children children({.role = "emulator_import_vmm", .ranks = 1, .argument = "", .bootstraps = 0});
  Primary zero(0);
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  REQUIRE_CU(create_on(0, handle));
  REQUIRE_CU(map_for(handle, 0, address));
  put_words(address, {21, 0});
  int fd = -1;
  REQUIRE_CU(cu.cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  children.say(0, fmt::format("{} {}", getpid(), fd));
  CHECK(children.hear(0) == "done 0");
  CHECK(children.wait(0) == "exited 0");
  CHECK(words_at(address, 2) == std::vector<uint32_t>{21, 42});
  close(fd);
  CHECK_CU(cu.cuMemUnmap(address, kChunk));
  CHECK_CU(cu.cuMemAddressFree(address, kChunk));
  CHECK_CU(cu.cuMemRelease(handle));
}

TEST_CASE("a multicast object reaches memory of another process", "[emulator][driver][processes]") {
  const Emulated& cu = started();
  Children children({.role = "emulator_join_multicast", .ranks = 1, .argument = "", .bootstraps = 0});
  Primary zero(0);
  CUmulticastObjectProp wanted{2, kChunk, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0};
  CUmemGenericAllocationHandle object = 0;
  CUmemGenericAllocationHandle memory = 0;
  CUdeviceptr own = 0;
  CUdeviceptr address = 0;
  REQUIRE_CU(cu.cuMulticastCreate(&object, &wanted));
  REQUIRE_CU(cu.cuMulticastAddDevice(object, 0));
  int fd = -1;
  REQUIRE_CU(cu.cuMemExportToShareableHandle(&fd, object, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  children.say(0, fmt::format("{} {}", getpid(), fd));
  REQUIRE(children.hear(0) == "bound");
  REQUIRE_CU(create_on(0, memory));
  REQUIRE_CU(cu.cuMulticastBindMem(object, 0, memory, 0, kChunk, 0));
  REQUIRE_CU(map_for(memory, 0, own));
  REQUIRE_CU(map_for(object, 0, address));
  put_words(own, {12});
  CUmodule module = nullptr;
  CUfunction sum = nullptr;
  REQUIRE_CU(cu.cuModuleLoadData(&module, kMultimemPtx));
  REQUIRE_CU(cu.cuModuleGetFunction(&sum, module, "sum"));
  void* parameters[] = {&address};
  CHECK_CU(cu.cuLaunchKernel(sum, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  CHECK_CU(cu.cuCtxSynchronize());
  CHECK(words_at(own, 1)[0] == 42);
  children.say(0, "tell");
  CHECK(children.hear(0) == "42");
  close(fd);
  CHECK_CU(cu.cuModuleUnload(module));
}

TEST_CASE("settings make the machine", "[emulator][driver][processes]") {
  CHECK(described({{"RONDE_EMU_DEVICES", "3"},
                   {"RONDE_EMU_PEERS", "0,2"},
                   {"RONDE_EMU_MEMORY", "64M"},
                   {"RONDE_EMU_CAPABILITY", "8.0"}}) ==
        "before 3 init 0 devices 3 00E0:01:00.0--+ 00E0:02:00.0--- 00E0:03:00.0+-- sm 8 bytes 67108864");
  CHECK(described({{"RONDE_EMU_DEVICES", "3"},
                   {"CUDA_VISIBLE_DEVICES", "2,0"},
                   {"RONDE_EMU_PEERS", "none"},
                   {"RONDE_EMU_MEMORY", "1M"},
                   {"RONDE_EMU_PCI", "0000:01:00.0,0000:02:00.0,0000:03:00.0"}}) ==
        "before 3 init 0 devices 2 0000:03:00.0-- 0000:01:00.0-- sm 9 bytes 1048576");
  CHECK(described({{"RONDE_EMU_DEVICES", "0"}}) == "before 3 init 100 devices 0 sm 0 bytes 0");
  CHECK(described({{"RONDE_EMU_PEERS", "0,9"}}) == "before 3 init 802 devices 0 sm 0 bytes 0");
  CHECK(described({{"RONDE_EMU_MODES", "sloppy"}}) == "before 3 init 802 devices 0 sm 0 bytes 0");
}

TEST_CASE("what went wrong in a kernel is written to the file that is asked for", "[emulator][driver][processes]") {
  const Scratch scratch;
  const std::string path = scratch.path("errors.txt");
  Environment environment({{"RONDE_EMU_ERRORS", path}});
  Children children({.role = "emulator_fault", .ranks = 1, .argument = "", .bootstraps = 0});
  CHECK(children.hear(0) == "700");
  CHECK(children.wait(0) == "exited 0");
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  INFO(line);
  CHECK(contains(line, "device 0: kernel poke, block (0,0,0), thread (0,0,0)"));
  CHECK(contains(line, "outside of any allocation"));
}

TEST_CASE("a kernel that is over its limit ends with where it stands", "[emulator][driver][processes]") {
  const Scratch scratch;
  Environment environment({{"RONDE_EMU_ERRORS", scratch.path("errors.txt")}, {"RONDE_EMU_LIMIT", "50"}});
  Children children({.role = "emulator_hang", .ranks = 1, .argument = "wait", .bootstraps = 0});
  CHECK(children.hear(0) == "702");
  const std::string text = scratch.read("errors.txt");
  INFO(text);
  CHECK(contains(text, "not at its end after 50 ms"));
  CHECK(contains(text, "block (0,0,0) warp 0 lanes 00000001"));
}

TEST_CASE("a process ends while kernels run", "[emulator][driver][processes]") {
  Children children({.role = "emulator_hang", .ranks = 1, .argument = "leave", .bootstraps = 0});
  CHECK(children.hear(0) == "leaves");
  CHECK(children.wait(0) == "exited 0");
}

TEST_CASE("after a fork the driver has to be started anew", "[emulator][driver][processes]") {
  const Emulated& cu = started();
  const pid_t pid = fork();
  if (pid == 0) {
    int count = 0;
    _exit(cu.cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED && cu.cuInit(0) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  CHECK(status == 0);
}

TEST_CASE("detection sees the emulated GPUs and their links", "[emulator][driver][topo]") {
  started();
  ronde::topo::Notes notes;
  const auto drivers = ronde::topo::load_gpu_drivers(RONDE_TEST_EMULATOR, RONDE_TEST_EMULATOR);
  const auto gpus = ronde::topo::read_gpu_drivers(drivers, notes);
  REQUIRE(gpus.size() == 4);
  for (size_t i = 0; i < gpus.size(); ++i) {
    CHECK(gpus[i].facts.dev == static_cast<int>(i));
    CHECK(gpus[i].facts.sm == 90);
    REQUIRE(gpus[i].links.size() == 1);
    CHECK(gpus[i].links[0].end == ronde::topo::DriverLinks::End::nv_switch);
    CHECK(gpus[i].links[0].count == 18);
  }
  setenv("RONDE_EMU_NVLINKS", "2", 1);
  const auto meshed = ronde::topo::read_gpu_drivers(drivers, notes);
  unsetenv("RONDE_EMU_NVLINKS");
  REQUIRE(meshed.size() == 4);
  REQUIRE(meshed[1].links.size() == 3);
  for (const auto& link : meshed[1].links) {
    CHECK(link.end == ronde::topo::DriverLinks::End::gpu);
    CHECK(link.count == 2);
  }
  CHECK(meshed[1].links[0].address == meshed[0].address);
}
