// Memory that GPUs of several processes reach: of a GPU, passed on as a descriptor, and of the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/fd.h"
#include "device/gpu.h"

namespace ronde::device {

/// Device memory with addresses of its own (CUDA's VMM), made here or by another process. Freed when the last mapping of it is gone, which must not be
/// while a kernel may use it.
class ShareableMemory {
 public:
  ShareableMemory() = default;
  ShareableMemory(ShareableMemory&& other) noexcept { swap(other); }
  ShareableMemory& operator=(ShareableMemory&& other) noexcept {
    ShareableMemory(std::move(other)).swap(*this);
    return *this;
  }
  ~ShareableMemory();

  /// Whether the driver and the GPU have it.
  static bool possible(const Gpu& gpu);
  /// At least `bytes` on a GPU, of any content at first, for its kernels alone.
  static Result<ShareableMemory> make(std::shared_ptr<const Gpu> gpu, size_t bytes);
  /// Maps what another process has made, for kernels of `gpu`; `bytes` as bytes() is there. The descriptor stays the caller's.
  static Result<ShareableMemory> open(std::shared_ptr<const Gpu> gpu, int descriptor, size_t bytes);

  /// Lets kernels of another GPU of this process reach it.
  Result<> grant(const Gpu& peer) const;
  Result<UniqueFd> descriptor() const;
  uint64_t address() const { return address_; }
  size_t bytes() const { return bytes_; }

 private:
  void swap(ShareableMemory& other) noexcept {
    std::swap(gpu_, other.gpu_);
    std::swap(handle_, other.handle_);
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    std::swap(mapped_, other.mapped_);
  }
  Result<> map();

  std::shared_ptr<const Gpu> gpu_;
  cu::CUmemGenericAllocationHandle handle_ = 0;
  uint64_t address_ = 0;
  size_t bytes_ = 0;
  bool mapped_ = false;
};

/// Host memory of this process that is given to all GPUs while this lives.
class RegisteredMemory {
 public:
  RegisteredMemory() = default;
  RegisteredMemory(RegisteredMemory&& other) noexcept : gpu_(std::move(other.gpu_)), at_(std::exchange(other.at_, nullptr)) {}
  RegisteredMemory& operator=(RegisteredMemory&& other) noexcept {
    std::swap(gpu_, other.gpu_);
    std::swap(at_, other.at_);
    return *this;
  }
  ~RegisteredMemory();
  /// `at` and `bytes` are whole pages, mapped as long as this lives.
  static Result<RegisteredMemory> make(std::shared_ptr<const Gpu> gpu, std::byte* at, size_t bytes);
  std::byte* host() const { return at_; }

 private:
  std::shared_ptr<const Gpu> gpu_;
  std::byte* at_ = nullptr;
};

/// For kernels of `gpu`, the address of host memory that is registered in this process.
Result<uint64_t> address_of_registered(const Gpu& gpu, std::byte* at);

}  // namespace ronde::device
