// Communicators: making, asking, ending.
#include <cstring>
#include <fmt/core.h>
#include <vector>

#include "api/border.h"
#include "api/config_arg.h"
#include "api/device.h"
#include "api/export.h"
#include "api/first_init.h"
#include "comm/group.h"
#include "comm/handles.h"
#include "comm/lifecycle.h"
#include "exec/runner.h"
#include "nccl.h"

namespace {

using ronde::border;
using ronde::Code;
using ronde::Communicator;
using ronde::fail;
using ronde::Group;
using ronde::require_pointer;
using ronde::Result;
using Comm = std::shared_ptr<Communicator>;

ncclComm_t to_handle(uintptr_t handle) { return reinterpret_cast<ncclComm_t>(handle); }
Result<Comm> find(ncclComm_t comm) { return ronde::find_handle(reinterpret_cast<uintptr_t>(comm)); }

ronde::UniqueId to_id(const ncclUniqueId& id) {
  ronde::UniqueId out;
  static_assert(sizeof(out.bytes) == NCCL_UNIQUE_ID_BYTES);
  memcpy(out.bytes.data(), id.internal, NCCL_UNIQUE_ID_BYTES);
  return out;
}

/// Gives `job` to the thread's group; the caller's handle is written when it has run: a live one on success and while in progress, NULL on failure.
Result<Code> launch(Comm comm, std::function<Result<>()> job, ncclComm_t* out, bool gives_handle = true) {
  *out = nullptr;
  ronde::InitJob init;
  init.comm = comm;
  init.run = std::move(job);
  init.publish = [comm, out, gives_handle](const Result<>& result) {
    const bool alive = result.ok() || result.code() == Code::in_progress;
    *out = alive && gives_handle ? to_handle(ronde::add_handle(comm)) : nullptr;
  };
  return Group::of_this_thread().add(std::move(init));
}

/// `device`: of a CUDA rank; below 0: the thread's current one.
Result<Code> init_rank(ncclComm_t* out, int nranks, std::vector<ronde::UniqueId> ids, int rank, const ncclConfig_t* config, int device = -1) {
  RONDE_TRY(require_pointer(out, "comm"));
  *out = nullptr;
  if (nranks < 1) return fail(Code::invalid_argument, fmt::format("nranks is {}; a communicator has at least one rank", nranks));
  if (rank < 0 || rank >= nranks) return fail(Code::invalid_argument, fmt::format("rank {} is outside 0 to {}", rank, nranks - 1));
  RONDE_TRY(const std::optional<int> gpu, ronde::gpu_of_next_rank());
  ronde::note_init();
  RONDE_TRY(ronde::CommOptions options, ronde::parse_config(config));
  options.gpu = gpu.has_value() && device >= 0 ? device : gpu;
  auto comm = std::make_shared<Communicator>(rank, nranks, std::move(options));
  return launch(comm, [member = comm.get(), ids = std::move(ids)] { return member->init(ids); }, out);
}

/// Errors of calls that may stand in a group spoil it.
template <class Body>
ncclResult_t grouped(std::string_view name, Body&& body) {
  return border(name, [&]() -> Result<Code> {
    Result<Code> result = body();
    if (!result.ok() && result.code() != Code::in_progress) Group::of_this_thread().spoil(result.error());
    return result;
  });
}

Result<Code> offspring(ncclComm_t* out, Result<ronde::Offspring> made, bool takes_part) {
  if (!made.ok()) return std::move(made).error();
  return launch(std::move(made->child), std::move(made->job), out, takes_part);
}

}  // namespace

RONDE_API(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * uniqueId)) {
  return border("GetUniqueId", [&]() -> Result<> {
    RONDE_TRY(require_pointer(uniqueId, "uniqueId"));
    RONDE_TRY(const ronde::UniqueId id, ronde::make_unique_id(*ronde::current_config()));
    memcpy(uniqueId->internal, id.bytes.data(), NCCL_UNIQUE_ID_BYTES);
    return {};
  });
}

RONDE_API(ncclResult_t, ncclCommInitRank, (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank)) {
  return grouped("CommInitRank", [&] { return init_rank(comm, nranks, {to_id(commId)}, rank, nullptr); });
}

RONDE_API(ncclResult_t, ncclCommInitRankConfig, (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t* config)) {
  return grouped("CommInitRankConfig", [&] { return init_rank(comm, nranks, {to_id(commId)}, rank, config); });
}

RONDE_API(ncclResult_t, ncclCommInitRankScalable,
          (ncclComm_t * newcomm, int nranks, int myrank, int nId, ncclUniqueId* commIds, ncclConfig_t* config)) {
  return grouped("CommInitRankScalable", [&]() -> Result<Code> {
    RONDE_TRY(require_pointer(commIds, "commIds"));
    if (nId < 1 || nId > nranks) return fail(Code::invalid_argument, fmt::format("nId is {}; from 1 to nranks ({}) ids are possible", nId, nranks));
    std::vector<ronde::UniqueId> ids;
    for (int i = 0; i < nId; ++i) ids.push_back(to_id(commIds[i]));
    return init_rank(newcomm, nranks, std::move(ids), myrank, config);
  });
}

RONDE_API(ncclResult_t, ncclCommInitAll, (ncclComm_t * comm, int ndev, const int* devlist)) {
  return grouped("CommInitAll", [&]() -> Result<Code> {
    RONDE_TRY(require_pointer(comm, "comm"));
    if (ndev < 1) return fail(Code::invalid_argument, fmt::format("ndev is {}; at least one rank is needed", ndev));
    for (int i = 0; devlist != nullptr && i < ndev; ++i) {
      if (devlist[i] < 0) return fail(Code::invalid_argument, fmt::format("devlist[{}] is {}; devices count from 0", i, devlist[i]));
      for (int j = 0; j < i; ++j) {
        if (devlist[i] == devlist[j]) return fail(Code::invalid_usage, fmt::format("devlist names device {} twice", devlist[i]));
      }
    }
    RONDE_TRY(const ronde::UniqueId id, ronde::make_unique_id(*ronde::current_config()));
    Group& group = Group::of_this_thread();
    group.start();
    for (int i = 0; i < ndev; ++i) {
      Result<Code> one = init_rank(&comm[i], ndev, {id}, i, nullptr, devlist != nullptr ? devlist[i] : i);
      if (!one.ok()) group.spoil(one.error());
    }
    Result<Code> result = group.end();
    if (result.ok() || group.open()) return result;
    for (int i = 0; i < ndev; ++i) {  // none or all
      if (comm[i] != nullptr) {
        Result<Comm> made = ronde::take_handle(reinterpret_cast<uintptr_t>(comm[i]));
        if (made.ok()) (*made)->abort("another rank of ncclCommInitAll failed");
      }
      comm[i] = nullptr;
    }
    return result;
  });
}

RONDE_API(ncclResult_t, ncclCommSplit, (ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config)) {
  return grouped("CommSplit", [&]() -> Result<Code> {
    RONDE_TRY(require_pointer(newcomm, "newcomm"));
    *newcomm = nullptr;
    RONDE_TRY(const Comm parent, find(comm));
    RONDE_TRY(const ronde::CommOptions own, ronde::parse_config(config));
    return offspring(newcomm, ronde::split(parent, color, key, ronde::inherit(parent->options(), own)), color >= 0);
  });
}

RONDE_API(ncclResult_t, ncclCommShrink,
          (ncclComm_t comm, int* excludeRanksList, int excludeRanksCount, ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags)) {
  return grouped("CommShrink", [&]() -> Result<Code> {
    RONDE_TRY(require_pointer(newcomm, "newcomm"));
    *newcomm = nullptr;
    RONDE_TRY(const Comm parent, find(comm));
    RONDE_TRY(require_pointer(excludeRanksList, "excludeRanksList"));
    if (excludeRanksCount < 1) return fail(Code::invalid_argument, fmt::format("excludeRanksCount is {}; at least one rank must go", excludeRanksCount));
    if (shrinkFlags != NCCL_SHRINK_DEFAULT && shrinkFlags != NCCL_SHRINK_ABORT) {
      return fail(Code::invalid_argument, fmt::format("shrinkFlags is {}; 0 (NCCL_SHRINK_DEFAULT) and 1 (NCCL_SHRINK_ABORT) exist", shrinkFlags));
    }
    RONDE_TRY(const ronde::CommOptions own, ronde::parse_config(config));
    const std::span<const int> excluded(excludeRanksList, static_cast<size_t>(excludeRanksCount));
    return offspring(newcomm, ronde::shrink(parent, excluded, shrinkFlags == NCCL_SHRINK_ABORT, ronde::inherit(parent->options(), own)), true);
  });
}

RONDE_API(ncclResult_t, ncclCommFinalize, (ncclComm_t comm)) {
  return border("CommFinalize", [&]() -> Result<Code> {
    if (comm == nullptr) return Code::success;
    RONDE_TRY(const Comm found, find(comm));
    if (found->async_code() == Code::in_progress && found->life() != ronde::Life::ready) {
      return fail(Code::invalid_argument, "the communicator is still being initialised; wait until ncclCommGetAsyncError says ncclSuccess");
    }
    RONDE_TRY(found->finalize());
    return found->blocking() ? Code::success : found->async_code();
  });
}

RONDE_API(ncclResult_t, ncclCommDestroy, (ncclComm_t comm)) {
  return border("CommDestroy", [&]() -> Result<> {
    if (comm == nullptr) return {};
    RONDE_TRY(const Comm found, ronde::take_handle(reinterpret_cast<uintptr_t>(comm)));
    found->join_init();
    found->close(ronde::RankState::closed);
    return {};
  });
}

RONDE_API(ncclResult_t, ncclCommAbort, (ncclComm_t comm)) {
  return border("CommAbort", [&]() -> Result<> {
    if (comm == nullptr) return {};
    RONDE_TRY(const Comm found, ronde::take_handle(reinterpret_cast<uintptr_t>(comm)));
    found->abort("the communicator was aborted by ncclCommAbort");
    found->join_init();
    found->close(ronde::RankState::aborted);
    return {};
  });
}

RONDE_API(ncclResult_t, ncclCommRevoke, (ncclComm_t comm, int revokeFlags)) {
  return border("CommRevoke", [&]() -> Result<> {
    if (comm == nullptr) return {};
    if (revokeFlags != NCCL_REVOKE_DEFAULT) return fail(Code::invalid_argument, fmt::format("revokeFlags is {}; only 0 (NCCL_REVOKE_DEFAULT) exists", revokeFlags));
    RONDE_TRY(const Comm found, find(comm));
    found->revoke("the call was ended by ncclCommRevoke");
    return {};
  });
}

RONDE_API(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t* asyncError)) {
  return border("CommGetAsyncError", [&]() -> Result<> {
    RONDE_TRY(require_pointer(asyncError, "asyncError"));
    RONDE_TRY(const Comm found, find(comm));
    *asyncError = static_cast<ncclResult_t>(found->async_code());
    return {};
  });
}

namespace {

/// The three questions about a communicator that is up. `parameter` is the name of `out` in nccl.h.
template <class Answer>
ncclResult_t ask(std::string_view name, ncclComm_t comm, int* out, std::string_view parameter, Answer&& answer) {
  return border(name, [&]() -> Result<Code> {
    RONDE_TRY(require_pointer(out, parameter));
    RONDE_TRY(const Comm found, find(comm));
    if (found->life() == ronde::Life::initializing && found->async_code() == Code::in_progress) return Code::in_progress;
    *out = answer(*found);
    return Code::success;
  });
}

}  // namespace

RONDE_API(ncclResult_t, ncclCommCount, (const ncclComm_t comm, int* count)) {
  return ask("CommCount", comm, count, "count", [](const Communicator& c) { return c.ranks(); });
}
// The device of a CPU rank is the rank's own index, that of a CUDA rank the GPU's number.
RONDE_API(ncclResult_t, ncclCommCuDevice, (const ncclComm_t comm, int* device)) {
  return ask("CommCuDevice", comm, device, "device", [](const Communicator& c) { return c.options().gpu.value_or(c.rank()); });
}
RONDE_API(ncclResult_t, ncclCommUserRank, (const ncclComm_t comm, int* rank)) {
  return ask("CommUserRank", comm, rank, "rank", [](const Communicator& c) { return c.rank(); });
}
