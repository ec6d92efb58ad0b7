// The calls that move data: arguments are turned into an Op, checked, and given to the thread's group.
#include <cstring>
#include <fmt/core.h>

#include "api/border.h"
#include "api/export.h"
#include "base/log.h"
#include "comm/group.h"
#include "comm/handles.h"
#include "exec/stream.h"
#include "nccl.h"

namespace {

using ronde::Code;
using ronde::Coll;
using ronde::fail;
using ronde::Group;
using ronde::Op;
using ronde::Result;

/// A call's arguments as the API has them; `op` and `root` where the call has them.
struct Arguments {
  Coll coll;
  const void* send;
  void* recv;
  size_t count;
  ncclDataType_t type;
  int op = ncclSum;
  int root = 0;
  ncclComm_t comm;
  cudaStream_t stream;
};

Result<> resolve_op(const Arguments& a, Op* op) {
  if (!ronde::has_reduction(a.coll)) return {};
  if (a.op >= ncclSum && a.op < ncclNumOps) {
    op->op = static_cast<ronde::ReduceOp>(a.op);
    return {};
  }
  if (a.op < 0) return fail(Code::invalid_argument, fmt::format("reduction operation {} is negative", a.op));
  RONDE_TRY(const ronde::PreMul premul, op->comm->premul(a.op));
  if (premul.type != op->type) {
    return fail(Code::invalid_argument, fmt::format("the operation was made for {} elements and the call has {}", name_of(premul.type), name_of(op->type)));
  }
  op->op = ronde::ReduceOp::premul_sum;
  op->factor = premul.factor;
  if (premul.pointer == nullptr) return {};
  if (op->comm->gpu_rank() != nullptr) {
    op->factor_at = reinterpret_cast<uintptr_t>(premul.pointer);
  } else {
    memcpy(&op->factor, premul.pointer, size_of(op->type));
  }
  return {};
}

Result<Op> make_op(const Arguments& a) {
  Op op;
  RONDE_TRY(op.comm, ronde::find_handle(reinterpret_cast<uintptr_t>(a.comm)));
  RONDE_TRY(op.comm->usable());
  if (a.type < 0 || a.type >= ncclNumTypes) {
    return fail(Code::invalid_argument, fmt::format("data type {} is unknown; types are 0 to {}", static_cast<int>(a.type), ncclNumTypes - 1));
  }
  op.coll = a.coll;
  op.send = a.send;
  op.recv = a.recv;
  op.count = a.count;
  op.type = static_cast<ronde::DataType>(a.type);
  op.root = a.root;
  RONDE_TRY(resolve_op(a, &op));
  RONDE_TRY(ronde::check_op(op));
  const auto stream = reinterpret_cast<uintptr_t>(a.stream);
  if (op.comm->gpu_rank() != nullptr) {
    op.cuda_stream = stream;
  } else if (stream > 2) {  // 0, 1 and 2: none, legacy, per thread
    op.stream = ronde::find_stream(stream);
    if (op.stream == nullptr) {
      return fail(Code::invalid_argument, fmt::format("{:#x} is no live host stream; make one with rondeStreamCreate, or pass NULL", stream));
    }
  }
  if (!op.comm->blocking() && !Group::of_this_thread().open() && op.comm->async_code() == Code::in_progress) {
    return fail(Code::invalid_argument, "the communicator's last call is still in progress; wait until ncclCommGetAsyncError says ncclSuccess");
  }
  return op;
}

ncclResult_t call(const Arguments& a) {
  const std::string_view name = ronde::name_of(a.coll);
  return ronde::border(name, [&]() -> Result<Code> {
    Group& group = Group::of_this_thread();
    Result<Op> op = make_op(a);
    if (!op.ok()) {
      group.spoil(op.error());
      return op.error();
    }
    if (ronde::log_enabled(ronde::Level::trace, ronde::Subsys::call)) {
      ronde::log_line(ronde::Level::trace, fmt::format("{} rank {} send {} recv {} count {} type {} op {} root {} stream {}", name, op->comm->rank(), a.send,
                                                       a.recv, a.count, name_of(op->type), a.op, a.root, static_cast<const void*>(a.stream)));
    }
    const std::shared_ptr<ronde::Communicator> comm = op->comm;
    Result<Code> result = group.add(std::move(op).value());
    if (!result.ok()) comm->note_error(result.error());
    return result;
  });
}

}  // namespace

RONDE_API(ncclResult_t, ncclAllReduce,
          (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)) {
  return call({Coll::all_reduce, sendbuff, recvbuff, count, datatype, op, 0, comm, stream});
}

RONDE_API(ncclResult_t, ncclReduce, (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, int root,
                                     ncclComm_t comm, cudaStream_t stream)) {
  return call({Coll::reduce, sendbuff, recvbuff, count, datatype, op, root, comm, stream});
}

RONDE_API(ncclResult_t, ncclBroadcast,
          (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream)) {
  return call({Coll::broadcast, sendbuff, recvbuff, count, datatype, ncclSum, root, comm, stream});
}

RONDE_API(ncclResult_t, ncclBcast, (void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream)) {
  return call({Coll::broadcast, buff, buff, count, datatype, ncclSum, root, comm, stream});
}

RONDE_API(ncclResult_t, ncclAllGather,
          (const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)) {
  return call({Coll::all_gather, sendbuff, recvbuff, sendcount, datatype, ncclSum, 0, comm, stream});
}

RONDE_API(ncclResult_t, ncclReduceScatter, (const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op,
                                            ncclComm_t comm, cudaStream_t stream)) {
  return call({Coll::reduce_scatter, sendbuff, recvbuff, recvcount, datatype, op, 0, comm, stream});
}

RONDE_API(ncclResult_t, ncclAlltoAll,
          (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)) {
  return call({Coll::all_to_all, sendbuff, recvbuff, count, datatype, ncclSum, 0, comm, stream});
}

RONDE_API(ncclResult_t, ncclGather,
          (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream)) {
  return call({Coll::gather, sendbuff, recvbuff, count, datatype, ncclSum, root, comm, stream});
}

RONDE_API(ncclResult_t, ncclScatter,
          (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream)) {
  return call({Coll::scatter, sendbuff, recvbuff, count, datatype, ncclSum, root, comm, stream});
}

RONDE_API(ncclResult_t, ncclSend, (const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream)) {
  return call({Coll::send, sendbuff, nullptr, count, datatype, ncclSum, peer, comm, stream});
}

RONDE_API(ncclResult_t, ncclRecv, (void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream)) {
  return call({Coll::recv, nullptr, recvbuff, count, datatype, ncclSum, peer, comm, stream});
}

RONDE_API(ncclResult_t, ncclGroupStart, (void)) {
  return ronde::border("GroupStart", []() -> Result<> {
    Group::of_this_thread().start();
    return {};
  });
}

RONDE_API(ncclResult_t, ncclGroupEnd, (void)) {
  return ronde::border("GroupEnd", []() -> Result<Code> { return Group::of_this_thread().end(); });
}
