// Memory of other processes by handles that are plain bytes: the sharing process, its descriptor, and where in it.
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cstring>

#include "base/fd.h"
#include "gpu-emulator/driver/driver.h"

namespace emu::driver {
namespace {

struct Handle {
  uint64_t magic;
  int pid;
  int fd;
  int device;
  uint64_t offset;
  uint64_t bytes;
};
static_assert(sizeof(Handle) <= CU_IPC_HANDLE_SIZE);
constexpr uint64_t kMagic = 0x656d756c61746564;

/// What an open handle stands for, and how often its context has opened it: each context of the process has a mapping of its own.
struct Opened {
  int pid = 0;
  uint64_t offset = 0;
  int device = 0;   ///< of the memory
  int context = 0;  ///< the device of the context that opened it
  int times = 1;
};
std::mutex open_mutex;
std::map<uint64_t, Opened>& open_handles() {
  static auto* handles = new std::map<uint64_t, Opened>;  // by address
  return *handles;
}

CUresult open_handle(Driver& driver, Context& context, const Handle& handle, CUdeviceptr& address) {
  if (handle.magic != kMagic || handle.device < 0 || handle.device >= driver.settings().devices) return CUDA_ERROR_INVALID_VALUE;
  // The driver cannot open what the same process shares.
  if (handle.pid == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
  const uint64_t mine = uint64_t{1} << context.device;
  const bool reachable =
      handle.device == context.device || (driver.settings().peers[static_cast<size_t>(handle.device)] & mine) != 0;
  if (!reachable) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  const ronde::UniqueFd fd(open(fmt::format("/proc/{}/fd/{}", handle.pid, handle.fd).c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(open_mutex);
  for (auto& [at, other] : open_handles()) {
    if (other.pid != handle.pid || other.offset != handle.offset || other.device != handle.device ||
        other.context != context.device)
      continue;
    ++other.times;
    address = at;
    return CUDA_SUCCESS;
  }
  const auto made = driver.memory().share_in({fd.get(), handle.offset, handle.bytes, handle.device}, mine);
  if (!made) return CUDA_ERROR_MAP_FAILED;
  open_handles()[*made] = {handle.pid, handle.offset, handle.device, context.device};
  address = *made;
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr address) {
  return in_context([&](Driver& driver, const std::shared_ptr<Context>&) {
    if (!driver.settings().ipc) return CUDA_ERROR_NOT_SUPPORTED;
    const auto share = driver.memory().share(address);
    if (out == nullptr || !share) return CUDA_ERROR_INVALID_VALUE;
    const Handle handle{kMagic, getpid(), share->fd, share->device, share->offset, share->bytes};
    *out = {};
    std::memcpy(out->reserved, &handle, sizeof handle);
    return CUDA_SUCCESS;
  });
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* address, CUipcMemHandle from, unsigned flags) {
  return in_context([&](Driver& driver, const std::shared_ptr<Context>& context) {
    if (!driver.settings().ipc) return CUDA_ERROR_NOT_SUPPORTED;
    if (address == nullptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
    Handle handle;
    std::memcpy(&handle, from.reserved, sizeof handle);
    return open_handle(driver, *context, handle, *address);
  });
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  return in_context([&](Driver& driver, const std::shared_ptr<Context>& context) {
    context->synchronize();
    std::lock_guard lock(open_mutex);
    const auto at = open_handles().find(address);
    if (at == open_handles().end()) return CUDA_ERROR_INVALID_VALUE;
    if (--at->second.times > 0) return CUDA_SUCCESS;
    open_handles().erase(at);
    driver.memory().unshare(address);
    return CUDA_SUCCESS;
  });
}

}  // extern "C"

}  // namespace emu::driver
