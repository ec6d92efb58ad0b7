// Ranks on GPUs: those of the machine, or emulated ones where it has none.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "device/gpu.h"
#include "support/world.h"

namespace ronde::test {

/// "" where ranks can be on GPUs here, else why they cannot.
std::string why_no_gpus();
/// Whether they are emulated: then their number is 8, or what RONDE_EMU_DEVICES says.
bool emulated();
int gpu_count();

/// The primary context of GPU `number` modulo their count becomes the calling thread's, and ranks that it makes from now on are on it. Where the
/// driver fails, the next call of the library says so.
void use_gpu(int number);

/// Memory of a GPU, `offset` bytes behind an address that is a multiple of 256, filled with 0x5a.
class GpuBuffer {
 public:
  explicit GpuBuffer(size_t bytes, size_t offset = 0);
  GpuBuffer(std::span<const std::byte> content, size_t offset = 0);
  ~GpuBuffer();
  GpuBuffer(const GpuBuffer&) = delete;

  void* at(size_t byte = 0) const { return reinterpret_cast<void*>(address_ + offset_ + byte); }
  void set(std::span<const std::byte> content, size_t byte = 0);
  std::vector<std::byte> get() const;
  /// What lies around the buffer is as it was.
  bool surroundings_untouched() const;

 private:
  cu::CUdeviceptr address_ = 0;
  size_t offset_ = 0, bytes_ = 0;
};

/// A stream of the current GPU that waits for no other.
class GpuStream {
 public:
  GpuStream();
  ~GpuStream();
  GpuStream(const GpuStream&) = delete;
  cudaStream_t get() const { return reinterpret_cast<cudaStream_t>(stream_); }
  /// Waits; a complaint after `seconds`, or with the driver's code.
  std::string finish(double seconds = 60) const { return finish_stream(get(), seconds); }
  static std::string finish_stream(cudaStream_t stream, double seconds = 60);

 private:
  cu::CUstream stream_ = nullptr;
};

/// As run_world, with rank r on GPU r modulo their count, and a stream of its own that is idle at the end.
using GpuBody = std::function<std::string(ncclComm_t comm, int rank, cudaStream_t stream)>;
std::string run_gpus(int ranks, const GpuBody& body, bool destroy = true);

/// All ranks in the calling thread, made by a group. Destroys (or aborts) them at its end.
class GpuTeam {
 public:
  /// Rank r is on GPU r modulo `gpus`.
  GpuTeam(int ranks, int gpus);
  ~GpuTeam();
  GpuTeam(const GpuTeam&) = delete;
  int size() const { return static_cast<int>(comms.size()); }
  /// The rank's GPU becomes the current one.
  void on(int rank) const { use_gpu(rank % gpus_); }
  /// Waits for all streams.
  std::string finish(double seconds = 60) const;

  std::vector<ncclComm_t> comms;
  std::vector<std::unique_ptr<GpuStream>> streams;

 private:
  int gpus_ = 1;
};

}  // namespace ronde::test

/// Ends the test case as skipped where no rank can be on a GPU.
#define RONDE_NEED_GPUS()                               \
  do {                                                  \
    const std::string why = ronde::test::why_no_gpus(); \
    if (!why.empty()) RONDE_SKIP(why);                  \
  } while (0)

/// In a body: returns a complaint that is not empty.
#define RONDE_NO_COMPLAINT(expression)              \
  do {                                              \
    const std::string complaint = (expression);     \
    if (!complaint.empty()) return complaint;       \
  } while (0)
