// The communicator: one rank's membership, from init to its end.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/abort.h"
#include "base/config.h"
#include "base/result.h"
#include "boot/bootstrap.h"
#include "comm/algo_file.h"
#include "comm/layout.h"
#include "comm/options.h"
#include "comm/plans.h"
#include "exec/cuda/gpu_rank.h"
#include "exec/seat.h"
#include "exec/stream.h"
#include "kernels/cpu/reduce.h"
#include "plan/costs.h"
#include "transport/fabric.h"
#include "tune/choose.h"
#include "tune/plugin.h"

namespace ronde {

/// Where the communicator stands. Only GetAsyncError, GetLastError, Abort and Revoke may come from a second thread.
enum class Life : uint8_t { initializing, ready, revoked, finalized, failed_init };

/// A multiplier made by ncclRedOpCreatePreMulSum.
struct PreMul {
  DataType type = DataType::float32;
  uint64_t factor = 0;                ///< bits of one element
  const void* pointer = nullptr;      ///< not nullptr: read when the call is issued
};

class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  /// An object without peers yet; init() or child() brings it up.
  Communicator(int rank, int ranks, CommOptions options);
  ~Communicator();
  Communicator(const Communicator&) = delete;

  /// Joins the others. Collective, blocking. On failure the communicator can only be destroyed or aborted.
  Result<> init(const std::vector<UniqueId>& ids);
  /// Comes up over a bootstrap that a parent has made. Collective among its ranks.
  Result<> init_over(std::unique_ptr<Bootstrap> bootstrap, const Communicator& parent);

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  bool blocking() const { return blocking_; }
  const CommOptions& options() const { return options_; }
  const Config& config() const { return *config_; }

  Life life() const { return life_.load(std::memory_order_acquire); }  // pairs with the store at the end of init
  /// ncclCommGetAsyncError's answer: in_progress, success, or the code of the first fatal error.
  Code async_code();
  /// The first fatal error, or the last failed call's; "" for none.
  std::string last_error() const;
  void note_error(const Error& error);
  /// Not an error: the communicator can take a call now.
  Result<> usable();

  /// For one call at a time: fails (invalid_usage) while another thread is in a call of this communicator.
  Result<> enter();
  void leave();

  Seat& seat() { return *seat_; }
  const std::shared_ptr<Seat>& seat_ptr() { return seat_; }
  bool has_seat() const { return seat_up_.load(std::memory_order_acquire); }  // pairs with make_fabric: the monitor and Abort may ask early
  Fabric& fabric() { return seat_->fabric(); }
  Bootstrap& bootstrap() { return *bootstrap_; }
  const AbortWord& boot_abort() const { return boot_abort_; }
  Plans& plans() { return *plans_; }
  int message_link() const { return links_ - 1; }
  /// Not nullptr: this rank is on a GPU.
  gpu::GpuRank* gpu_rank() const { return gpu_rank_.get(); }

  /// Pre-multiplied sums: handles start at 5 and are never reused. invalid_argument for an unknown one.
  int add_premul(PreMul premul);
  Result<> remove_premul(int handle);
  Result<PreMul> premul(int handle) const;

  /// The stream on which a non-blocking communicator runs calls that name none.
  const std::shared_ptr<HostStream>& own_stream() const { return own_stream_; }

  /// Waits until what this rank has issued is done (its eager messages included).
  Result<> flush();
  /// Waits as flush() does where calls block; elsewhere async_code() says when all is done. Second and later calls are invalid_argument.
  Result<> finalize();
  /// Leaves: after it only the object's memory remains.
  void close(RankState how);
  /// Every wait of this rank ends; from any thread. `how` is what the calls that are cut report.
  void abort(const std::string& how);
  /// As abort for the data, but the bootstrap stays usable for shrink and split.
  void revoke(const std::string& how);

  /// Runs `job` (an init) in a thread of its own, or here when blocking; its end is seen by async_code().
  Result<> run_init(std::function<Result<>()> job);
  /// Waits for the thread of a non-blocking init.
  void join_init();

  /// The other ranks of this communicator that the calling thread has made too, if it has made this one.
  std::vector<std::shared_ptr<Communicator>> siblings_of_this_thread();
  /// True if the process has a thread, beside the calling one and the library's, that could make a sibling's calls. Once true it stays so.
  bool another_thread_may_help();

  /// A rank that takes no part in a non-blocking split of this communicator still has to answer in the background, until close().
  void keep(std::shared_ptr<Communicator> bystander);

 private:
  Result<> bring_up();
  Result<> agree();
  Result<> gather_inputs();
  Result<> agree_on_tuner(const TunerComm& comm, std::span<const uint64_t> loaded);
  Result<> make_fabric();
  Result<> make_gpu_rank(std::shared_ptr<const device::Gpu> gpu);
  LinkRates gpu_links() const;
  void close_gpu_rank();
  SeatLimits limits() const;
  void publish_state(RankState state);
  void peer_died(int rank, const std::string& how);
  void peer_lost(int rank, Error error);

  int rank_;   // of a child: known once its bootstrap is there
  int ranks_;
  CommOptions options_;
  std::shared_ptr<const Config> config_;
  bool blocking_ = true;
  int links_ = 1;
  AbortWord boot_abort_;  ///< raised by Abort alone; whatever ends the data path raises the Seat's
  std::unique_ptr<Bootstrap> bootstrap_;
  std::shared_ptr<Seat> seat_;
  const ReduceTable* table_ = nullptr;
  TuneRules rules_;
  Costs costs_;
  TuneInputs inputs_;
  AlgoFile algo_file_;
  std::shared_ptr<const Layout> layout_;
  std::unique_ptr<Tuner> tuner_;
  std::unique_ptr<Plans> plans_;
  std::unique_ptr<gpu::GpuRank> gpu_rank_;
  std::shared_ptr<HostStream> own_stream_;

  std::atomic<Life> life_{Life::initializing};
  std::atomic<bool> seat_up_{false};
  std::atomic<bool> init_running_{false};
  std::atomic<uint64_t> user_{0};  ///< id of the thread that is in a call; 0: none (acquire/release in enter and leave)
  std::thread init_thread_;
  std::thread::id creator_;
  bool closed_ = false;
  int ranks_in_process_ = 1;
  bool has_helpers_ = false;
  std::vector<std::shared_ptr<Communicator>> bystanders_;

  mutable std::mutex mutex_;  // guards the rest
  std::optional<Error> fatal_;
  std::string last_failed_;
  std::map<int, PreMul> premuls_;
  int next_premul_ = 5;
};

}  // namespace ronde
