#include "comm/communicator.h"

#include <algorithm>
#include <fmt/core.h>
#include <functional>

#include "base/log.h"
#include "base/thread.h"
#include "comm/local_ranks.h"
#include "exec/cuda/flights.h"
#include "exec/runner.h"
#include "exec/watch.h"

namespace ronde {
namespace {

uint64_t thread_number() { return std::hash<std::thread::id>()(std::this_thread::get_id()) | 1; }

}  // namespace

Communicator::Communicator(int rank, int ranks, CommOptions options)
    : rank_(rank), ranks_(ranks), options_(std::move(options)), config_(current_config()), creator_(std::this_thread::get_id()) {
  const int64_t forced = config_->integer(Setting::comm_blocking);
  blocking_ = forced >= 0 ? forced == 1 : options_.blocking.value_or(1) == 1;
}

Communicator::~Communicator() {
  join_init();
  close(RankState::closed);
}

Code Communicator::async_code() {
  if (init_running_.load(std::memory_order_acquire)) return Code::in_progress;  // pairs with the store in run_init
  if ((life() == Life::ready || life() == Life::finalized) && has_seat() && !seat_->failed()) {
    seat_->fabric().report_lost();
    take_mail(*seat_);
    if (own_stream_ != nullptr) {
      const Result<bool> idle = own_stream_->query();
      if (!idle.ok()) note_error(idle.error());
      if (idle.ok() && !*idle) return Code::in_progress;
    }
    // Also what was put on host streams, and messages that Send copied, which end with the peer's Recv: only Finalize has to wait for them.
    if (life() == Life::finalized) {
      if (seat_->works() != 0) return Code::in_progress;
      publish_state(RankState::finalized);
    }
  }
  const std::lock_guard lock(mutex_);
  if (fatal_.has_value()) return fatal_->code;
  if (has_seat() && seat_->failed() && life() != Life::initializing) return seat_->error().code;
  return Code::success;
}

std::string Communicator::last_error() const {
  const std::lock_guard lock(mutex_);
  if (fatal_.has_value()) return fatal_->what;
  if (has_seat() && seat_->failed()) return seat_->error().what;
  return last_failed_;
}

void Communicator::note_error(const Error& error) {
  const std::lock_guard lock(mutex_);
  last_failed_ = error.what;
}

Result<> Communicator::usable() {
  if (init_running_.load(std::memory_order_acquire)) {
    return fail(Code::invalid_argument, "the communicator is still being initialised; wait until ncclCommGetAsyncError says ncclSuccess");
  }
  {
    const std::lock_guard lock(mutex_);
    if (fatal_.has_value()) return *fatal_;
  }
  switch (life()) {
    case Life::ready: break;
    case Life::revoked: return fail(Code::invalid_usage, "the communicator was revoked; shrink, split, destroy or abort it");
    case Life::finalized: return fail(Code::invalid_usage, "the communicator was finalised; only destroy and abort may follow");
    case Life::initializing:
    case Life::failed_init: return fail(Code::invalid_usage, "the communicator was never initialised; destroy it");
  }
  seat_->fabric().report_lost();
  take_mail(*seat_);
  if (seat_->failed()) return seat_->error();
  return {};
}

Result<> Communicator::enter() {
  const uint64_t self = thread_number();
  uint64_t nobody = 0;
  // acquire pairs with the release in leave(): what the last caller wrote is seen when a communicator is handed from thread to thread.
  if (user_.compare_exchange_strong(nobody, self, std::memory_order_acquire)) return {};
  return fail(Code::invalid_usage, fmt::format("two threads are in calls of one communicator (rank {}) at once; only GetAsyncError, GetLastError, "
                                               "Revoke and Abort may come from a second thread", rank_));
}

void Communicator::leave() { user_.store(0, std::memory_order_release); }

int Communicator::add_premul(PreMul premul) {
  const std::lock_guard lock(mutex_);
  premuls_[next_premul_] = premul;
  return next_premul_++;
}

Result<> Communicator::remove_premul(int handle) {
  const std::lock_guard lock(mutex_);
  if (premuls_.erase(handle) != 0) return {};
  return fail(Code::invalid_argument, fmt::format("reduction operation {} was not made by ncclRedOpCreatePreMulSum for this communicator, or is destroyed", handle));
}

Result<PreMul> Communicator::premul(int handle) const {
  const std::lock_guard lock(mutex_);
  const auto at = premuls_.find(handle);
  if (at != premuls_.end()) return at->second;
  return fail(Code::invalid_argument, fmt::format("reduction operation {} is neither built in (0 to 4) nor made for this communicator", handle));
}

Result<> Communicator::flush() {
  if (!has_seat()) return {};
  if (gpu_rank_ != nullptr) {
    while (!seat_->failed() && !gpu::wait_landed(*gpu_rank_, 0.1)) {
    }
  } else if (seat_->works() != 0) {
    RONDE_TRY(Runner * runner, Runner::of_this_thread());
    seat_->tell_when_idle(&runner->bell());
    runner->claim(*seat_);
    runner->run_until([this] { return seat_->works() == 0 || seat_->failed(); }, false);
    seat_->tell_when_idle(nullptr);
  }
  if (seat_->failed()) return seat_->error();
  return {};
}

Result<> Communicator::finalize() {
  if (life() == Life::finalized) return fail(Code::invalid_argument, "the communicator is finalised already");
  if (life() == Life::revoked) return fail(Code::invalid_usage, "a revoked communicator cannot be finalised; destroy or abort it");
  if (has_seat() && seat_->failed()) return seat_->error();
  if (blocking_) RONDE_TRY(flush());
  Life before = Life::ready;  // a Revoke that came meanwhile stays
  if (!life_.compare_exchange_strong(before, Life::finalized, std::memory_order_acq_rel)) return usable();
  if (has_seat() && seat_->works() == 0) publish_state(RankState::finalized);
  return {};
}

void Communicator::publish_state(RankState state) {
  seat_->control().state.store(static_cast<uint32_t>(state), std::memory_order_seq_cst);  // pairs with the watch's load
}

void Communicator::close(RankState how) {
  if (closed_) return;
  closed_ = true;
  for (const auto& bystander : bystanders_) bystander->join_init();  // their threads hold this object
  forget_local_rank(*this);
  if (!has_seat()) return;
  if (how == RankState::closed && (life() == Life::ready || life() == Life::finalized) && !seat_->failed()) {
    const Result<> flushed = flush();
    if (!flushed.ok()) note_error(flushed.error());
  }
  if (how == RankState::aborted || seat_->failed()) {
    if (!seat_->failed()) abort("the communicator was aborted while it came up");
    fabric().revoke_loans();
    if (how == RankState::closed) how = life() == Life::revoked ? RankState::revoked : RankState::aborted;
  }
  if (gpu_rank_ != nullptr) close_gpu_rank();
  wait_until_free(*seat_);
  publish_state(how);
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer != rank_) fabric().ring(peer);
  }
  fabric().close();
}

void Communicator::keep(std::shared_ptr<Communicator> bystander) {
  std::erase_if(bystanders_, [](const auto& one) {
    return one->init_thread_.joinable() && !one->init_running_.load(std::memory_order_acquire);  // it has answered
  });
  bystanders_.push_back(std::move(bystander));
}

void Communicator::abort(const std::string& how) {
  boot_abort_.raise();
  if (has_seat()) seat_->fail(fail(Code::remote_error, how, Scope::communicator), true);
}

void Communicator::revoke(const std::string& how) {
  life_.exchange(Life::revoked, std::memory_order_acq_rel);  // what follows is seen by the end of init, or this sees its Seat
  if (!has_seat()) return;
  publish_state(RankState::revoked);
  seat_->fail(fail(Code::remote_error, how, Scope::communicator), true);
}

void Communicator::peer_died(int rank, const std::string& how) {
  Error error = fail(Code::remote_error, fmt::format("rank {} died: {}; abort this communicator, then shrink it or start again", rank, how),
                     Scope::communicator);
  if (has_seat()) {
    // Ranks of other hosts may have nothing to do with the one that died, and so not see it.
    if (layout_->nodes.several()) {
      seat_->fail_all(error);
    } else {
      seat_->fail(std::move(error));
    }
    return;
  }
  const std::lock_guard lock(mutex_);
  if (!fatal_.has_value()) fatal_ = std::move(error);
}

void Communicator::peer_lost(int rank, Error error) {
  error.code = Code::remote_error;
  error.what = fmt::format("rank {} has lost its connection with rank {}: {}; abort this communicator, then shrink it or start again", rank_, rank, error.what);
  error.scope = Scope::communicator;
  if (has_seat()) {
    seat_->fail_all(error);
    return;
  }
  const std::lock_guard lock(mutex_);
  if (!fatal_.has_value()) fatal_ = std::move(error);
}

std::vector<std::shared_ptr<Communicator>> Communicator::siblings_of_this_thread() {
  if (ranks_in_process_ == 1 || creator_ != std::this_thread::get_id()) return {};
  std::vector<std::shared_ptr<Communicator>> siblings = local_ranks(bootstrap_->token());
  std::erase_if(siblings, [this](const auto& other) { return other.get() == this || other->creator_ != creator_; });
  return siblings;
}

bool Communicator::another_thread_may_help() {
  has_helpers_ = has_helpers_ || process_threads() != own_threads() + 1;
  return has_helpers_;
}

}  // namespace ronde
