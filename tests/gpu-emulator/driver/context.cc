// Contexts.
#include "gpu-emulator/driver/driver.h"

namespace emu::driver {
namespace {

/// The current context, failed or not.
template <class Body>
CUresult with_current(Body body) {
  return call([&](Driver& driver) {
    std::shared_ptr<Context> context;
    const CUresult result = driver.current(context);
    return result != CUDA_SUCCESS ? result : body(driver, context);
  });
}

CUresult make_current(Driver& driver, CUcontext* out, unsigned flags, CUdevice device) {
  const int index = driver.index_of(device);
  if (index < 0) return CUDA_ERROR_INVALID_DEVICE;
  if (out == nullptr || flags > CU_CTX_FLAGS_MASK) return CUDA_ERROR_INVALID_VALUE;
  *out = driver.make_context(index, false, flags)->handle;
  context_stack().push_back(*out);
  return CUDA_SUCCESS;
}

void end_primary(Driver& driver, CUdevice device, bool release, CUresult& result) {
  const int index = driver.index_of(device);
  result = index < 0 ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
  if (index < 0) return;
  std::shared_ptr<Context> context;
  {
    std::lock_guard lock(driver.mutex);
    Device& known = driver.devices[static_cast<size_t>(index)];
    if (release && known.holders == 0) result = CUDA_ERROR_INVALID_CONTEXT;
    if (release && (known.holders == 0 || --known.holders > 0)) return;
    std::swap(context, known.primary);
  }
  if (context != nullptr) driver.end_context(context);
}

}  // namespace

extern "C" {

CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
  return call([&](Driver& driver) {
    const int index = driver.index_of(device);
    if (index < 0) return CUDA_ERROR_INVALID_DEVICE;
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(driver.mutex);
    Device& known = driver.devices[static_cast<size_t>(index)];
    if (known.primary == nullptr) known.primary = driver.make_context(index, true, known.flags);
    ++known.holders;
    *out = known.primary->handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return call([&](Driver& driver) {
    CUresult result;
    end_primary(driver, device, true, result);
    return result;
  });
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  return call([&](Driver& driver) {
    CUresult result;
    end_primary(driver, device, false, result);
    return result;
  });
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  return call([&](Driver& driver) {
    const int index = driver.index_of(device);
    if (index < 0) return CUDA_ERROR_INVALID_DEVICE;
    if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(driver.mutex);
    const Device& known = driver.devices[static_cast<size_t>(index)];
    *flags = known.flags;
    *active = known.primary != nullptr;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxCreate_v2(CUcontext* out, unsigned flags, CUdevice device) {
  return call([&](Driver& driver) { return make_current(driver, out, flags, device); });
}

CUresult cuCtxDestroy_v2(CUcontext handle) {
  return call([&](Driver& driver) {
    const auto context = driver.context(handle);
    if (context == nullptr || context->primary) return CUDA_ERROR_INVALID_CONTEXT;
    driver.end_context(context);
    auto& stack = context_stack();
    if (!stack.empty() && stack.back() == handle) stack.pop_back();
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetCurrent(CUcontext* out) {
  return call([&](Driver&) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto& stack = context_stack();
    *out = stack.empty() ? nullptr : stack.back();
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSetCurrent(CUcontext handle) {
  return call([&](Driver& driver) {
    if (handle != nullptr && driver.context(handle) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    auto& stack = context_stack();
    if (!stack.empty()) stack.pop_back();
    if (handle != nullptr) stack.push_back(handle);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxPushCurrent_v2(CUcontext handle) {
  return call([&](Driver& driver) {
    if (driver.context(handle) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    context_stack().push_back(handle);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxPopCurrent_v2(CUcontext* out) {
  return call([&](Driver&) {
    auto& stack = context_stack();
    if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (out != nullptr) *out = stack.back();
    stack.pop_back();
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetDevice(CUdevice* device) {
  return with_current([&](Driver& driver, const std::shared_ptr<Context>& context) {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *device = driver.ordinal_of(context->device);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetFlags(unsigned* flags) {
  return with_current([&](Driver&, const std::shared_ptr<Context>& context) {
    if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *flags = context->flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetApiVersion(CUcontext handle, unsigned* version) {
  return call([&](Driver& driver) {
    if (handle != nullptr && driver.context(handle) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *version = 3020;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSynchronize() {
  return in_context([&](Driver& driver, const std::shared_ptr<Context>& context) {
    if (const CUresult result = driver.refuse_in_capture(); result != CUDA_SUCCESS) return result;
    context->synchronize();
    return context->failed();
  });
}

CUresult cuCtxEnablePeerAccess(CUcontext peer_handle, unsigned flags) {
  return in_context([&](Driver& driver, const std::shared_ptr<Context>& context) {
    const auto peer = driver.context(peer_handle);
    if (peer == nullptr || peer == context) return CUDA_ERROR_INVALID_CONTEXT;
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    const uint64_t mine = uint64_t{1} << context->device;
    const uint64_t theirs = uint64_t{1} << peer->device;
    if (peer->device == context->device || (driver.settings().peers[static_cast<size_t>(peer->device)] & mine) == 0)
      return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    std::lock_guard lock(context->mutex);
    if ((context->peers & theirs) != 0) return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    context->peers |= theirs;
    driver.memory().set_peer(peer->device, context->device, true);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxDisablePeerAccess(CUcontext peer_handle) {
  return in_context([&](Driver& driver, const std::shared_ptr<Context>& context) {
    const auto peer = driver.context(peer_handle);
    if (peer == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    const uint64_t theirs = uint64_t{1} << peer->device;
    std::lock_guard lock(context->mutex);
    if ((context->peers & theirs) == 0) return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    context->peers &= ~theirs;
    driver.memory().set_peer(peer->device, context->device, false);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return with_current([&](Driver&, const std::shared_ptr<Context>&) {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = -5;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetLimit(size_t* value, CUlimit limit) {
  return with_current([&](Driver&, const std::shared_ptr<Context>&) {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (limit != CU_LIMIT_STACK_SIZE && limit != CU_LIMIT_PRINTF_FIFO_SIZE && limit != CU_LIMIT_MALLOC_HEAP_SIZE)
      return CUDA_ERROR_UNSUPPORTED_LIMIT;
    *value = limit == CU_LIMIT_STACK_SIZE ? 1024 : 8 << 20;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSetLimit(CUlimit limit, size_t) {
  // A kernel's stack, printf and heap take what they need.
  return with_current([&](Driver&, const std::shared_ptr<Context>&) {
    return limit >= CU_LIMIT_STACK_SIZE && limit <= CU_LIMIT_MALLOC_HEAP_SIZE ? CUDA_SUCCESS : CUDA_ERROR_UNSUPPORTED_LIMIT;
  });
}

}  // extern "C"

}  // namespace emu::driver
