// The ranks of this process: communicators, buffers, streams.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "bench/collectives.h"
#include "bench/job.h"
#include "bench/options.h"
#include "bench/result.h"

namespace ronde::bench {

/// One rank of this process.
struct LocalRank {
  int rank = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  void* send = nullptr;
  void* recv = nullptr;
  int device = -1;             ///< the GPU that the buffers and the stream are on; -1: the host
  std::vector<std::byte> kept_send, kept_recv;  ///< of a GPU: what is written to its buffers, and what came from them

  /// Where the host sees what `data`, in one of the buffers, holds. On a GPU: what was there when it was last brought or taken.
  std::byte* seen(const void* data) const;
  /// Takes `bytes` that the host wrote at seen(data) to the buffer, and brings them from it. Nothing to do on the host.
  void take(void* data, size_t bytes) const;
  void bring(const void* data, size_t bytes) const;
  ncclRedOp_t mulsum = ncclSum;  ///< while a table with mulsum runs
};

/// Where this process's ranks stand among all: processes x threads x ranks per thread, processes of one colour form a
/// communicator.
struct Placement {
  int colour = 0;
  int nranks = 1;                   ///< of the communicator
  int first_rank = 0;               ///< of this process
  int first_device = 0;             ///< index on the host of this process's first rank
  bool on_gpus = false;             ///< every rank has a GPU: that of its index
  int processes_here = 1;           ///< on this host
  std::vector<DeviceLine> devices;  ///< of all processes
  ncclUniqueId id{};
};

/// The colour of a process by NCCL_TESTS_SPLIT ("AND 3", "MOD 2", "DIV 4", "OR 1" or &, %, /, |) or NCCL_TESTS_SPLIT_MASK (hex).
/// Throws TestFailure for what makes no sense.
int split_colour(const Environment& environment, int process);

/// Asks all processes; every process calls it.
Placement place_ranks(Job& job, const Options& options, const Environment& environment);

/// Throws TestFailure for anything but success; `attempted` is the call's name.
void check(ncclResult_t result, const char* attempted, ncclComm_t comm = nullptr, const char* file = __builtin_FILE(),
           int line = __builtin_LINE());

/// The communicators and buffers of all ranks of this process. abort_all() may be called by any thread at any time; the rest by
/// one.
class Ranks {
 public:
  Ranks(const Options& options, const Placement& placement);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  /// Joins the communicators of ranks [first, first + count) of this process, in one group.
  void init(int first, int count);
  /// Allocates `send_bytes` and `recv_bytes` for each rank and registers them as -R says; with a stream each if --streams.
  void allocate(size_t send_bytes, size_t recv_bytes);
  void create_mulsum(ncclDataType_t type);
  void destroy_mulsum();
  /// Frees everything in order; errors are thrown.
  void finish();
  /// Ends all communicators wherever their threads are.
  void abort_all();

  std::vector<LocalRank>& all() { return ranks_; }
  LocalRank& operator[](int i) { return ranks_[static_cast<size_t>(i)]; }

 private:
  void register_buffers();
  const Options& options_;
  const Placement& placement_;
  std::vector<LocalRank> ranks_;
  std::vector<std::vector<void*>> handles_;         // of ncclCommRegister, by rank
  std::vector<std::vector<ncclWindow_t>> windows_;  // of ncclCommWindowRegister, by rank
  size_t send_bytes_ = 0;
  size_t recv_bytes_ = 0;
  std::mutex mutex_;
  bool ended_ = false;  // communicators are gone
};

}  // namespace ronde::bench
