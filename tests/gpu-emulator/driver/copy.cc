// Copies and fills.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "gpu-emulator/driver/driver.h"

namespace emu::driver {
namespace {

using Pieces = std::vector<std::pair<std::byte*, size_t>>;

uint64_t address_at(const void* at) { return reinterpret_cast<uint64_t>(at); }

void copy_pieces(Pieces to, Pieces from) {
  for (auto target = to.begin(), source = from.begin(); target != to.end() && source != from.end();) {
    const size_t part = std::min(target->second, source->second);
    std::memmove(target->first, source->first, part);
    for (auto* it : {&target, &source}) {
      (*it)->first += part;
      (*it)->second -= part;
      if ((*it)->second == 0) ++*it;
    }
  }
}

template <class T>
void fill_pieces(const Pieces& to, T value) {
  for (const auto& [at, bytes] : to) {
    for (size_t done = 0; done + sizeof value <= bytes; done += sizeof value) std::memcpy(at + done, &value, sizeof value);
  }
}

/// A range that is gone when its turn comes has been freed too early.
CUresult gone(Driver& driver, const char* what, uint64_t address, size_t bytes) {
  driver.report(fmt::format("a {} of {} bytes at {:#x} meets memory that was freed or unmapped after it was asked for", what,
                            bytes, address));
  return CUDA_ERROR_ILLEGAL_ADDRESS;
}

bool there(Driver& driver, uint64_t address, size_t bytes) { return !driver.memory().pieces(address, bytes).empty(); }

/// Whether what a device copies to or from an address goes wrong (RONDE_EMU_CORRUPT).
bool corrupts(Driver& driver, int device, uint64_t address) {
  if (driver.settings().corrupt.empty()) return false;
  const auto memory = driver.memory().at(address);
  if (!memory) return false;
  return std::any_of(driver.settings().corrupt.begin(), driver.settings().corrupt.end(), [&](const auto& pair) {
    return pair == std::pair(device, memory->device) || pair == std::pair(memory->device, device);
  });
}

CUresult copy_now(Driver& driver, int device, uint64_t to, uint64_t from, size_t bytes) {
  Pieces target = driver.memory().pieces(to, bytes);
  Pieces source = driver.memory().pieces(from, bytes);
  if (target.empty() || source.empty()) return gone(driver, "copy", target.empty() ? to : from, bytes);
  std::byte& first = *target.front().first;
  copy_pieces(std::move(target), std::move(source));
  if (corrupts(driver, device, to) || corrupts(driver, device, from)) first ^= std::byte{1};
  return CUDA_SUCCESS;
}

template <class T>
CUresult fill_now(Driver& driver, uint64_t to, T value, size_t bytes) {
  const Pieces target = driver.memory().pieces(to, bytes);
  if (target.empty()) return gone(driver, "fill", to, bytes);
  fill_pieces(target, value);
  return CUDA_SUCCESS;
}

/// Does `work` after the legacy stream and what it waits for, in the calling thread.
CUresult do_now(Driver& driver, Context& context, const Work& work) {
  if (const CUresult result = driver.refuse_in_capture(); result != CUDA_SUCCESS) return result;
  driver.drain_legacy(context);
  if (const CUresult result = context.failed(); result != CUDA_SUCCESS) return result;
  return work();
}

CUresult copy(uint64_t to, uint64_t from, size_t bytes) {
  return in_context([&](Driver& driver, const std::shared_ptr<Context>& context) {
    if (bytes == 0) return CUDA_SUCCESS;
    if (to == 0 || from == 0 || !there(driver, to, bytes) || !there(driver, from, bytes)) return CUDA_ERROR_INVALID_VALUE;
    return do_now(driver, *context, [&] { return copy_now(driver, context->device, to, from, bytes); });
  });
}

CUresult copy(uint64_t to, uint64_t from, size_t bytes, CUstream stream) {
  return in_context([&](Driver& driver, const std::shared_ptr<Context>& context) {
    if (bytes == 0) return CUDA_SUCCESS;
    if (to == 0 || from == 0 || !there(driver, to, bytes) || !there(driver, from, bytes)) return CUDA_ERROR_INVALID_VALUE;
    Op op;
    op.type = CU_GRAPH_NODE_TYPE_MEMCPY;
    op.run = [&driver, device = context->device, to, from, bytes] { return copy_now(driver, device, to, from, bytes); };
    return driver.submit(stream, std::move(op));
  });
}

template <class T>
CUresult check_fill(Driver& driver, uint64_t to, size_t count) {
  const bool fits = count <= SIZE_MAX / sizeof(T) && to % sizeof(T) == 0;
  return fits && to != 0 && there(driver, to, count * sizeof(T)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

template <class T>
CUresult fill(uint64_t to, T value, size_t count) {
  return in_context([&](Driver& driver, const std::shared_ptr<Context>& context) {
    if (count == 0) return CUDA_SUCCESS;
    if (const CUresult result = check_fill<T>(driver, to, count); result != CUDA_SUCCESS) return result;
    return do_now(driver, *context, [&] { return fill_now(driver, to, value, count * sizeof value); });
  });
}

template <class T>
CUresult fill(uint64_t to, T value, size_t count, CUstream stream) {
  return in_context([&](Driver& driver, const std::shared_ptr<Context>&) {
    if (count == 0) return CUDA_SUCCESS;
    if (const CUresult result = check_fill<T>(driver, to, count); result != CUDA_SUCCESS) return result;
    Op op;
    op.type = CU_GRAPH_NODE_TYPE_MEMSET;
    op.run = [&driver, to, value, count] { return fill_now(driver, to, value, count * sizeof value); };
    return driver.submit(stream, std::move(op));
  });
}

/// Copies between contexts name both.
CUresult check_contexts(CUcontext one, CUcontext other) {
  return call([&](Driver& driver) {
    return driver.context(one) == nullptr || driver.context(other) == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
  });
}

/// Copies that say which side is the device's.
CUresult check_device(CUdeviceptr address) {
  return call([&](Driver& driver) {
    return driver.memory().at(address).has_value() || driver.memory().is_device_address(address) ? CUDA_SUCCESS
                                                                                                 : CUDA_ERROR_INVALID_VALUE;
  });
}

}  // namespace

extern "C" {

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) { return copy(to, from, bytes); }
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) { return copy(to, from, bytes, stream); }

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes) {
  const CUresult result = check_contexts(to_context, from_context);
  return result != CUDA_SUCCESS ? result : copy(to, from, bytes);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
                           CUstream stream) {
  const CUresult result = check_contexts(to_context, from_context);
  return result != CUDA_SUCCESS ? result : copy(to, from, bytes, stream);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  const CUresult result = check_device(to);
  return result != CUDA_SUCCESS ? result : copy(to, address_at(from), bytes);
}

CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  const CUresult result = check_device(from);
  return result != CUDA_SUCCESS ? result : copy(address_at(to), from, bytes);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) { return copy(to, from, bytes); }

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  const CUresult result = check_device(to);
  return result != CUDA_SUCCESS ? result : copy(to, address_at(from), bytes, stream);
}

CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  const CUresult result = check_device(from);
  return result != CUDA_SUCCESS ? result : copy(address_at(to), from, bytes, stream);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy(to, from, bytes, stream);
}

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) { return fill(to, value, count); }
CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count) { return fill(to, value, count); }
CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count) { return fill(to, value, count); }
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return fill(to, value, count, stream);
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  return fill(to, value, count, stream);
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  return fill(to, value, count, stream);
}

}  // extern "C"

}  // namespace emu::driver
