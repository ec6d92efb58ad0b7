// A GPU of this process: its primary context, and what is made in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "device/driver.h"

namespace ronde::device {

class Gpu;

/// Device memory, of any content at first. Freed with its last owner, which must not be while a kernel may use it.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(std::shared_ptr<const Gpu> gpu, uint64_t address, size_t bytes) : gpu_(std::move(gpu)), address_(address), bytes_(bytes) {}
  DeviceMemory(DeviceMemory&& other) noexcept { swap(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    DeviceMemory(std::move(other)).swap(*this);
    return *this;
  }
  ~DeviceMemory();
  uint64_t address() const { return address_; }
  size_t bytes() const { return bytes_; }

 private:
  void swap(DeviceMemory& other) noexcept {
    std::swap(gpu_, other.gpu_);
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
  }
  std::shared_ptr<const Gpu> gpu_;
  uint64_t address_ = 0;
  size_t bytes_ = 0;
};

/// Pinned memory of the host that kernels of every GPU reach, zeroed.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  PinnedMemory(std::shared_ptr<const Gpu> gpu, void* host, uint64_t address) : gpu_(std::move(gpu)), host_(host), address_(address) {}
  PinnedMemory(PinnedMemory&& other) noexcept { swap(other); }
  PinnedMemory& operator=(PinnedMemory&& other) noexcept {
    PinnedMemory(std::move(other)).swap(*this);
    return *this;
  }
  ~PinnedMemory();
  void* host() const { return host_; }
  uint64_t address() const { return address_; }  ///< for kernels

 private:
  void swap(PinnedMemory& other) noexcept {
    std::swap(gpu_, other.gpu_);
    std::swap(host_, other.host_);
    std::swap(address_, other.address_);
  }
  std::shared_ptr<const Gpu> gpu_;
  void* host_ = nullptr;
  uint64_t address_ = 0;
};

/// A mark in a stream. Without timing.
class Event {
 public:
  Event() = default;
  Event(std::shared_ptr<const Gpu> gpu, cu::CUevent event) : gpu_(std::move(gpu)), event_(event) {}
  Event(Event&& other) noexcept : gpu_(std::move(other.gpu_)), event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(gpu_, other.gpu_);
    std::swap(event_, other.event_);
    return *this;
  }
  ~Event();
  cu::CUevent get() const { return event_; }
  /// Marks what is in the stream now.
  Result<> record(cu::CUstream stream);
  /// True when all that was marked is done, or was nothing. An error of the GPU.
  Result<bool> passed() const;

 private:
  std::shared_ptr<const Gpu> gpu_;
  cu::CUevent event_ = nullptr;
};

/// One GPU. Its primary context is kept as long as anything made in it lives. Thread-safe.
class Gpu : public std::enable_shared_from_this<Gpu> {
 public:
  /// The GPU of a number as the driver counts them (CUDA_VISIBLE_DEVICES has its effect). invalid_argument names how many there are.
  static Result<std::shared_ptr<const Gpu>> open(int ordinal);
  /// The number of the GPU whose context is current in this thread; 0 where none is.
  static Result<int> current();
  ~Gpu();
  Gpu(const Gpu&) = delete;

  int ordinal() const { return ordinal_; }
  const std::string& bus_id() const { return bus_id_; }  ///< "0000:81:00.0"
  int capability() const { return capability_; }         ///< 80 is 8.0
  int multiprocessors() const { return multiprocessors_; }
  const Driver& driver() const { return *driver_; }
  cu::CUcontext context() const { return context_; }
  cu::CUdevice device() const { return device_; }
  /// "GPU 2 (NVIDIA ..., 0000:81:00.0)", for texts.
  const std::string& name() const { return name_; }

  Result<DeviceMemory> allocate(size_t bytes) const;
  Result<PinnedMemory> allocate_pinned(size_t bytes) const;
  Result<Event> make_event() const;
  /// All four are done when they return, and wait for nothing that runs on any stream of the program's.
  Result<> copy_in(uint64_t to, std::span<const std::byte> from) const;
  Result<> copy_out(std::span<std::byte> to, uint64_t from) const;
  Result<> clear(uint64_t at, size_t bytes) const;
  /// Between places that kernels of this GPU reach.
  Result<> copy(uint64_t to, uint64_t from, size_t bytes) const;
  /// What kernels of this GPU need to reach memory of `peer`, which may be this GPU. False where the two cannot.
  Result<bool> reach(const Gpu& peer) const;

 private:
  Gpu() = default;
  const Driver* driver_ = nullptr;
  int ordinal_ = 0;
  int capability_ = 0;
  int multiprocessors_ = 0;
  cu::CUdevice device_ = 0;
  cu::CUcontext context_ = nullptr;
  cu::CUstream stream_ = nullptr;  ///< for copies of the library's own
  std::string bus_id_, name_;
};

/// Makes a GPU's context current in this thread while it lives; then it is what it was.
class Current {
 public:
  explicit Current(const Gpu& gpu) : driver_(gpu.driver()), pushed_(driver_.cuCtxPushCurrent_v2(gpu.context()) == cu::CUDA_SUCCESS) {}
  ~Current() {
    cu::CUcontext before = nullptr;
    if (pushed_) driver_.cuCtxPopCurrent_v2(&before);
  }
  Current(const Current&) = delete;

 private:
  const Driver& driver_;
  const bool pushed_;
};

}  // namespace ronde::device
