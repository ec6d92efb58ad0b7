// One rank of one communicator on a GPU: what its kernels need in device memory, and the launch of its calls.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "device/gpu.h"
#include "exec/cuda/kernel_set.h"
#include "exec/work.h"
#include "kernels/cuda/abi.h"
#include "transport/cuda/slab.h"

namespace ronde::gpu {

/// Programs in device memory, and what a launch has to know of them.
struct Uploaded {
  uint64_t programs = 0;
  uint32_t most_lanes = 0;     ///< of a channel
  uint32_t most_operands = 0;  ///< of a Move
  std::shared_ptr<const void> keeps;  ///< the plan, so that its address stays its name
};

class GpuRank {
 public:
  static Result<std::unique_ptr<GpuRank>> make(std::unique_ptr<Slab> slab);

  const std::shared_ptr<const device::Gpu>& gpu() const { return gpu_; }
  const KernelSet& kernels() const { return *kernels_; }
  const Slab& slab() const { return *slab_; }
  uint64_t address() const { return memory_.address(); }  ///< of gpu::Rank
  const Status& status() const { return *static_cast<const Status*>(status_.host()); }
  /// Waits until its peers have taken all that it has sent: after it none of their kernels writes into its memory. `ended` is asked of each that has not:
  /// true, it never will and its kernels have ended; false, nobody knows, and so does drain() return; nothing: wait on.
  bool drain(const std::function<std::optional<bool>(int peer)>& ended);
  /// Every kernel of this rank ends soon, and none does anything any more.
  void abort();

  /// The Programs of a Work in device memory; made once for each plan. From one thread at a time.
  Result<const Uploaded*> upload(const Work& work);
  /// Device memory for the scratch blocks of a call. Calls of a rank run one after the other, so they share it; it grows to what the largest needs.
  Result<uint64_t> scratch(size_t bytes);
  /// Device memory for the parameters of this rank's next launch; used again when that has ended.
  Result<uint64_t> parameters(size_t bytes);

  /// Launches so far, counted as Status::launches is. `last` marks the end of the latest.
  uint64_t launches = 0;
  device::Event last;
  device::Event before;  ///< for who launches: what a stream holds before
  cu::CUstream last_stream = nullptr;

 private:
  GpuRank(std::unique_ptr<Slab> slab, std::shared_ptr<const device::Gpu> gpu) : slab_(std::move(slab)), gpu_(std::move(gpu)) {}
  Result<uint64_t> port(const ronde::Port& port, bool reads);
  Result<uint64_t> room(size_t bytes);
  Result<Uploaded> make_programs(std::span<const ronde::Part> parts);

  std::unique_ptr<Slab> slab_;
  std::shared_ptr<const device::Gpu> gpu_;
  std::shared_ptr<const KernelSet> kernels_;
  device::DeviceMemory memory_;  ///< Rank, then Port[ranks * links]
  device::PinnedMemory status_, abort_word_;
  std::vector<uint8_t> ports_made_;  ///< by peer * links + link: 1 made, 2 with its incoming queue
  std::vector<device::DeviceMemory> scratch_;  ///< the last one serves; a kernel may still use those before it
  std::vector<std::pair<uint64_t, device::DeviceMemory>> parameters_;  ///< each with the launch that uses it
  std::vector<device::DeviceMemory> pool_;
  uint64_t pool_used_ = 0;
  std::map<std::pair<const void*, int>, Uploaded> uploaded_;
};

/// A Work and its rank.
struct Item {
  Work* work = nullptr;
  GpuRank* rank = nullptr;
};

/// Launches Works of ranks on one GPU as one kernel on `stream`: of each rank one collective, or messages alone. All fold alike (the same
/// kernel). Numbers the launch with each rank.
Result<> launch(std::span<const Item> items, cu::CUstream stream);
/// The kernel that a Work needs.
KernelName kernel_of(const Work& work);

}  // namespace ronde::gpu
