// Memory, registration, windows and pre-multiplied sums.
#include <cstring>
#include <fmt/core.h>
#include <map>
#include <mutex>

#include "api/border.h"
#include "api/device.h"
#include "api/export.h"
#include "comm/communicator.h"
#include "comm/handles.h"
#include "nccl.h"
#include "transport/fabric.h"

namespace {

using ronde::border;
using ronde::Code;
using ronde::fail;
using ronde::require_pointer;
using ronde::Result;
using Comm = std::shared_ptr<ronde::Communicator>;

/// What ncclMemAlloc has given out of GPUs' memory.
class GpuMemory {
 public:
  static GpuMemory& of_process() {
    static GpuMemory& one = *new GpuMemory();  // never destroyed: a program may free at its exit
    return one;
  }
  void* add(ronde::device::DeviceMemory memory) {
    const std::lock_guard lock(mutex_);
    const uint64_t address = memory.address();
    live_[address] = std::move(memory);
    return reinterpret_cast<void*>(address);
  }
  /// False: it is none of these.
  bool free(const void* pointer) {
    const std::lock_guard lock(mutex_);
    return live_.erase(reinterpret_cast<uintptr_t>(pointer)) != 0;
  }

 private:
  std::mutex mutex_;
  std::map<uint64_t, ronde::device::DeviceMemory> live_;
};

Result<> alloc_on(int gpu, size_t size, void** pointer) {
  RONDE_TRY(const std::shared_ptr<const ronde::device::Gpu> device, ronde::device::Gpu::open(gpu));
  RONDE_TRY(ronde::device::DeviceMemory memory, device->allocate(size));
  *pointer = GpuMemory::of_process().add(std::move(memory));
  return {};
}

Result<Comm> find(ncclComm_t comm) { return ronde::find_handle(reinterpret_cast<uintptr_t>(comm)); }

/// Memory of ncclMemAlloc is shared by itself and other memory is read in place or by the kernel, so that registering brings nothing: a NULL handle.
Result<> check_registration(ncclComm_t comm, const void* buff, size_t size) {
  RONDE_TRY(find(comm));
  RONDE_TRY(require_pointer(buff, "buff"));
  if (size == 0) return fail(Code::invalid_argument, "the size of the buffer is 0");
  return {};
}

Result<> check_no_handle(ncclComm_t comm, const void* handle) {
  RONDE_TRY(find(comm));
  if (handle == nullptr) return {};
  return fail(Code::invalid_usage, fmt::format("{} is no handle of this communicator; ronde gives out NULL handles only", handle));
}

}  // namespace

RONDE_API(ncclResult_t, ncclMemAlloc, (void** ptr, size_t size)) {
  return border("MemAlloc", [&]() -> Result<> {
    RONDE_TRY(require_pointer(ptr, "ptr"));
    *ptr = nullptr;
    if (size == 0) return fail(Code::invalid_argument, "the size is 0");
    RONDE_TRY(const std::optional<int> gpu, ronde::gpu_of_next_rank());
    if (gpu.has_value()) return alloc_on(*gpu, size, ptr);
    RONDE_TRY(*ptr, ronde::alloc_shareable(size));
    return {};
  });
}

RONDE_API(ncclResult_t, ncclMemFree, (void* ptr)) {
  return border("MemFree", [&]() -> Result<> {
    if (ptr == nullptr) return {};
    return GpuMemory::of_process().free(ptr) ? Result<>() : ronde::free_shareable(ptr);
  });
}

RONDE_API(ncclResult_t, ncclCommRegister, (const ncclComm_t comm, void* buff, size_t size, void** handle)) {
  return border("CommRegister", [&]() -> Result<> {
    RONDE_TRY(require_pointer(handle, "handle"));
    *handle = nullptr;
    return check_registration(comm, buff, size);
  });
}

RONDE_API(ncclResult_t, ncclCommDeregister, (const ncclComm_t comm, void* handle)) {
  return border("CommDeregister", [&] { return check_no_handle(comm, handle); });
}

RONDE_API(ncclResult_t, ncclCommWindowRegister, (ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win, int winFlags)) {
  return border("CommWindowRegister", [&]() -> Result<> {
    RONDE_TRY(require_pointer(win, "win"));
    *win = nullptr;
    if ((winFlags & ~NCCL_WIN_COLL_SYMMETRIC) != 0) {
      return fail(Code::invalid_argument, fmt::format("winFlags is {:#x}; only NCCL_WIN_COLL_SYMMETRIC (1) exists", winFlags));
    }
    return check_registration(comm, buff, size);
  });
}

RONDE_API(ncclResult_t, ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t win)) {
  return border("CommWindowDeregister", [&] { return check_no_handle(comm, win); });
}

RONDE_API(ncclResult_t, ncclRedOpCreatePreMulSum,
          (ncclRedOp_t * op, void* scalar, ncclDataType_t datatype, ncclScalarResidence_t residence, ncclComm_t comm)) {
  return border("RedOpCreatePreMulSum", [&]() -> Result<> {
    RONDE_TRY(require_pointer(op, "op"));
    RONDE_TRY(require_pointer(scalar, "scalar"));
    RONDE_TRY(const Comm found, find(comm));
    if (datatype < 0 || datatype >= ncclNumTypes) return fail(Code::invalid_argument, fmt::format("data type {} is unknown", static_cast<int>(datatype)));
    if (residence != ncclScalarDevice && residence != ncclScalarHostImmediate) {
      return fail(Code::invalid_argument, fmt::format("residence {} is unknown; ncclScalarDevice (0) and ncclScalarHostImmediate (1) exist", static_cast<int>(residence)));
    }
    ronde::PreMul premul{static_cast<ronde::DataType>(datatype), 0, nullptr};
    if (residence == ncclScalarHostImmediate) {
      memcpy(&premul.factor, scalar, size_of(premul.type));
    } else {
      premul.pointer = scalar;  // a GPU's kernel reads it; a CPU rank's device memory is host memory: read when a call is issued
    }
    *op = static_cast<ncclRedOp_t>(found->add_premul(premul));
    return {};
  });
}

RONDE_API(ncclResult_t, ncclRedOpDestroy, (ncclRedOp_t op, ncclComm_t comm)) {
  return border("RedOpDestroy", [&]() -> Result<> {
    RONDE_TRY(const Comm found, find(comm));
    if (op >= 0 && op < ncclNumOps) return fail(Code::invalid_argument, fmt::format("reduction operation {} is built in and cannot be destroyed", static_cast<int>(op)));
    return found->remove_premul(op);
  });
}
