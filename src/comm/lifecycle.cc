#include "comm/lifecycle.h"

#include <algorithm>
#include <fmt/core.h>

#include "comm/group.h"
#include "exec/watch.h"

namespace ronde {
namespace {

/// The parent may have failed (shrink) or been revoked, but it must have been up, and not be in a call.
Result<> fit_for_children(Communicator& parent) {
  if (parent.has_seat() && (parent.life() == Life::ready || parent.life() == Life::revoked)) return {};
  return fail(Code::invalid_argument, "the parent communicator is not up: it is still being initialised, failed in it, or was finalised");
}

/// Tells the other ranks that this one's thread is inside a Split, and so issues nothing before it ends.
class InSplit {
 public:
  InSplit(Seat& seat, bool alone) : word_(seat.control().in_split), counts_(alone && seat.works() == 0) {
    if (counts_) word_.fetch_add(1, std::memory_order_seq_cst);  // pairs with the watch's load
  }
  ~InSplit() {
    if (counts_) word_.fetch_sub(1, std::memory_order_seq_cst);
  }
  InSplit(const InSplit&) = delete;

 private:
  std::atomic<uint32_t>& word_;
  const bool counts_;
};

/// A thread that drives several ranks and splits one of them alone would wait for the others for ever.
Result<> check_own_splits(Communicator& parent) {
  if (Group::of_this_thread().open()) return {};
  const auto splits = [](Communicator& comm) { return comm.seat().control().splits.load(std::memory_order_relaxed); };
  for (const auto& sibling : parent.siblings_of_this_thread()) {
    if (splits(*sibling) > splits(parent) || parent.another_thread_may_help()) continue;
    return fail(Code::invalid_usage, fmt::format("CommSplit on rank {} would wait for rank {}, which the same thread drives: call it for all of the thread's "
                                                 "ranks between ncclGroupStart and ncclGroupEnd", parent.rank(), sibling->rank()));
  }
  return {};
}

}  // namespace

Result<Offspring> split(const std::shared_ptr<Communicator>& parent, int color, int key, const CommOptions& own) {
  RONDE_TRY(fit_for_children(*parent));
  if (parent->life() == Life::ready) RONDE_TRY(parent->usable());
  if (color < -1) {
    return fail(Code::invalid_argument, fmt::format("color {} is negative; colors are 0 or more, or NCCL_SPLIT_NOCOLOR (-1) for no part", color));
  }
  auto child = std::make_shared<Communicator>(0, 1, own);
  if (child->blocking()) RONDE_TRY(check_own_splits(*parent));
  const bool takes_part = color >= 0;
  // What ends the parent's calls (Revoke, a disagreement that another rank has found, a death) ends its Splits.
  // One that had failed before is split as it is.
  auto broken = [seat = parent->seat_ptr(), before = parent->seat().failed()] { return !before && (seat->failed() || take_mail(*seat)); };
  ChildJob exchange = parent->bootstrap().split(color, key, &child->boot_abort(), broken);
  parent->seat().control().splits.fetch_add(1, std::memory_order_seq_cst);  // pairs with the watch's load
  auto job = [parent, member = child.get(), takes_part, broken, exchange = std::move(exchange)]() -> Result<> {
    Result<std::unique_ptr<Bootstrap>> bootstrap = [&] {
      const InSplit inside(parent->seat(), member->blocking());
      return exchange();
    }();
    if (!bootstrap.ok() && broken()) return parent->seat().error();
    if (!bootstrap.ok()) return std::move(bootstrap).error();
    if (!takes_part) return {};
    return member->init_over(std::move(bootstrap).value(), *parent);
  };
  if (!takes_part && !child->blocking()) parent->keep(child);
  return Offspring{std::move(child), std::move(job)};
}

Result<Offspring> shrink(const std::shared_ptr<Communicator>& parent, std::span<const int> excluded, bool abort_first, const CommOptions& own) {
  RONDE_TRY(fit_for_children(*parent));
  if (excluded.empty()) return fail(Code::invalid_argument, "the list of excluded ranks is empty; Split with one color makes a copy");
  std::vector<int> survivors;
  for (int rank = 0; rank < parent->ranks(); ++rank) {
    if (std::find(excluded.begin(), excluded.end(), rank) == excluded.end()) survivors.push_back(rank);
  }
  for (const int rank : excluded) {
    if (rank < 0 || rank >= parent->ranks()) {
      return fail(Code::invalid_argument, fmt::format("excluded rank {} is outside the communicator's ranks 0 to {}", rank, parent->ranks() - 1));
    }
    if (rank == parent->rank()) {
      return fail(Code::invalid_argument, fmt::format("rank {} excludes itself; only the ranks that stay may call Shrink", rank));
    }
  }
  if (abort_first) {
    parent->revoke("the call was ended because the communicator is being shrunk");
  } else if (parent->life() == Life::ready) {
    RONDE_TRY(parent->usable());
  }
  auto child = std::make_shared<Communicator>(0, 1, own);
  auto job = [parent, member = child.get(), exchange = parent->bootstrap().shrink(survivors, &child->boot_abort())]() -> Result<> {
    RONDE_TRY(std::unique_ptr<Bootstrap> bootstrap, exchange());
    return member->init_over(std::move(bootstrap), *parent);
  };
  return Offspring{std::move(child), std::move(job)};
}

}  // namespace ronde
