// ronde.h: host streams, errors of a communicator, and why a call runs as it does.
#include <cstring>
#include <fmt/core.h>
#include <set>

#include "api/border.h"
#include "api/config_arg.h"
#include "api/export.h"
#include "comm/group.h"
#include "comm/handles.h"
#include "exec/stream.h"
#include "ronde.h"
#include "tune/explain.h"

namespace {

using ronde::border;
using ronde::Code;
using ronde::fail;
using ronde::require_pointer;
using ronde::Result;
using Comm = std::shared_ptr<ronde::Communicator>;

Result<Comm> find(ncclComm_t comm) { return ronde::find_handle(reinterpret_cast<uintptr_t>(comm)); }

Result<std::shared_ptr<ronde::HostStream>> find_host_stream(cudaStream_t stream) {
  std::shared_ptr<ronde::HostStream> found = ronde::find_stream(reinterpret_cast<uintptr_t>(stream));
  if (found != nullptr) return found;
  return fail(Code::invalid_argument, fmt::format("{} is no live host stream: it was destroyed, or never was one", static_cast<const void*>(stream)));
}

/// Copies `text` with its final 0 into an array, cut where it is too long.
template <size_t N>
void copy_text(char (&out)[N], std::string_view text) {
  const size_t n = std::min(text.size(), N - 1);
  memcpy(out, text.data(), n);
  out[n] = '\0';
}

/// How the data of one pair of ranks travels, and why so.
std::string_view transport_of(ronde::Communicator& comm, int peer) {
  return comm.gpu_rank() != nullptr ? comm.gpu_rank()->slab().transport(peer) : comm.fabric().transport(peer);
}
std::string reason_of(ronde::Communicator& comm, int peer) {
  return comm.gpu_rank() != nullptr ? comm.gpu_rank()->slab().describe(peer) : comm.fabric().describe(peer);
}

/// "inproc", "P2P/CUDA+SHM/CUDA", "shm+NET/Socket": all ways to other ranks, the nearest first; "self" for one rank.
std::string transports_of(ronde::Communicator& comm) {
  const auto rank_of = [](std::string_view name) { return name == "inproc" || name.starts_with("P2P/") ? 0 : name == "shm" || name.starts_with("SHM/") ? 1 : 2; };
  const auto nearer = [&](std::string_view a, std::string_view b) { return std::pair(rank_of(a), a) < std::pair(rank_of(b), b); };
  std::set<std::string_view, decltype(nearer)> names(nearer);
  for (int peer = 0; peer < comm.ranks(); ++peer) {
    if (peer != comm.rank()) names.insert(transport_of(comm, peer));
  }
  std::string text;
  for (const std::string_view name : names) text.append(text.empty() ? "" : "+").append(name);
  return text.empty() ? "self" : text;
}

Result<ronde::Op> example_op(const Comm& comm, rondeCall_t call, size_t count, ncclDataType_t type, ncclRedOp_t op, int root) {
  constexpr ronde::Coll colls[] = {ronde::Coll::all_reduce, ronde::Coll::broadcast,  ronde::Coll::reduce, ronde::Coll::all_gather, ronde::Coll::reduce_scatter,
                                   ronde::Coll::all_to_all, ronde::Coll::gather,     ronde::Coll::scatter, ronde::Coll::send,      ronde::Coll::recv};
  if (call < rondeAllReduce || call > rondeRecv) return fail(Code::invalid_argument, fmt::format("call {} is unknown; calls are 0 to 9", static_cast<int>(call)));
  if (type < 0 || type >= ncclNumTypes) return fail(Code::invalid_argument, fmt::format("data type {} is unknown", static_cast<int>(type)));
  ronde::Op example;
  example.comm = comm;
  example.coll = colls[call];
  example.count = count;
  example.type = static_cast<ronde::DataType>(type);
  example.op = op >= 0 && op < ncclNumOps ? static_cast<ronde::ReduceOp>(op) : ronde::ReduceOp::premul_sum;
  if (ronde::has_root(example.coll) || call >= rondeSend) {
    if (root < 0 || root >= comm->ranks()) return fail(Code::invalid_argument, fmt::format("root {} is outside 0 to {}", root, comm->ranks() - 1));
    example.root = root;
  }
  return example;
}

Result<> explain(const Comm& comm, const ronde::Op& op, rondeChoice_t* out) {
  copy_text(out->protocol, "Simple");
  out->channels = 1;
  out->microseconds = -1;
  copy_text(out->transport, transports_of(*comm));
  if (op.count == 0 && op.coll != ronde::Coll::send && op.coll != ronde::Coll::recv) {
    copy_text(out->algorithm, "none");
    copy_text(out->reason, "a collective of no elements moves nothing");
    return {};
  }
  if (op.coll == ronde::Coll::send || op.coll == ronde::Coll::recv) {
    copy_text(out->algorithm, "message");
    copy_text(out->transport, transport_of(*comm, op.root));
    out->sliceBytes = comm->plans().inputs().slot_capacity;
    copy_text(out->reason, reason_of(*comm, op.root));
    return {};
  }
  RONDE_TRY(const ronde::Evaluation made, comm->plans().evaluate(ronde::shape_of(op)));
  const ronde::Choice& choice = made.choice;
  copy_text(out->algorithm, comm->ranks() == 1 ? "copy" : choice.algorithm->name);
  copy_text(out->protocol, choice.protocol);
  out->channels = choice.channels;
  out->sliceBytes = choice.slice;
  out->microseconds = choice.nanos == UINT64_MAX ? -1 : static_cast<double>(choice.nanos) * 1e-3;
  copy_text(out->reason, choice.reason);
  return {};
}

}  // namespace

RONDE_EXTENSION(ncclResult_t, rondeStreamCreate, (cudaStream_t * stream)) {
  return border("rondeStreamCreate", [&]() -> Result<> {
    RONDE_TRY(require_pointer(stream, "stream"));
    *stream = reinterpret_cast<cudaStream_t>(ronde::create_stream());
    return {};
  });
}

RONDE_EXTENSION(ncclResult_t, rondeStreamDestroy, (cudaStream_t stream)) {
  return border("rondeStreamDestroy", [&]() -> Result<> {
    RONDE_TRY(const auto found, find_host_stream(stream));
    Result<> result = found->synchronize();
    ronde::forget_stream(reinterpret_cast<uintptr_t>(stream));
    return result;
  });
}

RONDE_EXTENSION(ncclResult_t, rondeStreamSynchronize, (cudaStream_t stream)) {
  return border("rondeStreamSynchronize", [&]() -> Result<> {
    RONDE_TRY(const auto found, find_host_stream(stream));
    return found->synchronize();
  });
}

RONDE_EXTENSION(ncclResult_t, rondeStreamQuery, (cudaStream_t stream)) {
  return border("rondeStreamQuery", [&]() -> Result<Code> {
    RONDE_TRY(const auto found, find_host_stream(stream));
    RONDE_TRY(const bool idle, found->query());
    return idle ? Code::success : Code::in_progress;
  });
}

RONDE_EXTENSION(ncclResult_t, rondeCommGetLastError, (ncclComm_t comm, char* text, size_t size)) {
  return border("rondeCommGetLastError", [&]() -> Result<> {
    RONDE_TRY(require_pointer(text, "text"));
    if (size == 0) return fail(Code::invalid_argument, "size is 0: there is no room for the final 0");
    RONDE_TRY(const Comm found, find(comm));
    const std::string what = found->last_error();
    const size_t n = std::min(what.size(), size - 1);
    memcpy(text, what.data(), n);
    text[n] = '\0';
    return {};
  });
}

RONDE_EXTENSION(ncclResult_t, rondeExplain,
                (ncclComm_t comm, rondeCall_t call, size_t count, ncclDataType_t type, ncclRedOp_t op, int root, rondeChoice_t* choice)) {
  return border("rondeExplain", [&]() -> Result<> {
    RONDE_TRY(require_pointer(choice, "choice"));
    RONDE_TRY(const Comm found, find(comm));
    RONDE_TRY(found->usable());
    RONDE_TRY(const ronde::Op example, example_op(found, call, count, type, op, root));
    rondeChoice_t filled{};
    RONDE_TRY(explain(found, example, &filled));
    return ronde::store_choice(filled, choice);
  });
}

RONDE_EXTENSION(ncclResult_t, rondeExplainAll,
                (ncclComm_t comm, rondeCall_t call, size_t count, ncclDataType_t type, ncclRedOp_t op, int root, rondeForm_t form, char* text, size_t size,
                 size_t* needed)) {
  return border("rondeExplainAll", [&]() -> Result<> {
    if (text == nullptr && size != 0) return fail(Code::invalid_argument, fmt::format("text is NULL, but size is {}", size));
    int asked = 0;  // a C program may pass any number, which is no value of the enumeration to C++
    static_assert(sizeof asked == sizeof form);
    memcpy(&asked, &form, sizeof asked);
    if (asked != rondeText && asked != rondeJson) return fail(Code::invalid_argument, fmt::format("form {} is neither rondeText nor rondeJson", asked));
    RONDE_TRY(const Comm found, find(comm));
    RONDE_TRY(found->usable());
    RONDE_TRY(const ronde::Op example, example_op(found, call, count, type, op, root));
    if (example.coll == ronde::Coll::send || example.coll == ronde::Coll::recv) {
      return fail(Code::invalid_argument, "a message has no algorithm to choose, and so no alternatives; rondeExplain says how it travels");
    }
    const ronde::CallShape shape = ronde::shape_of(example);
    const ronde::Plans& plans = found->plans();
    RONDE_TRY(const ronde::Evaluation made, plans.evaluate(shape));
    const std::string transport = transports_of(*found);
    const std::string whole = asked == rondeJson ? ronde::explain_json(shape, plans.rules(), made, transport) : ronde::explain_text(shape, plans.rules(), made, transport);
    if (needed != nullptr) *needed = whole.size() + 1;
    if (size == 0) return {};
    const size_t n = std::min(whole.size(), size - 1);
    memcpy(text, whole.data(), n);
    text[n] = '\0';
    return {};
  });
}

RONDE_API(ncclResult_t, ncclGroupSimulateEnd, (ncclSimInfo_t * simInfo)) {
  return border("GroupSimulateEnd", [&]() -> Result<> {
    const Result<double> microseconds = ronde::Group::of_this_thread().simulate_end();  // first: whatever is wrong, the group ends
    RONDE_TRY(ronde::check_sim_info(simInfo));
    if (!microseconds.ok()) return microseconds.error();
    if (simInfo != nullptr) simInfo->estimatedTime = static_cast<float>(*microseconds);
    return {};
  });
}
