// One call as the API received it, and the Works that it becomes.
#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "exec/work.h"

namespace ronde {

/// A validated call. `op` holds what the API's ncclRedOp_t meant; `premul` is filled for premul_sum.
struct Op {
  std::shared_ptr<Communicator> comm;
  Coll coll = Coll::all_reduce;
  const void* send = nullptr;
  void* recv = nullptr;
  size_t count = 0;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  uint64_t factor = 0;     ///< premul_sum
  uintptr_t factor_at = 0; ///< of a rank on a GPU: where it lies in device memory; 0: it is `factor`
  int root = 0;            ///< or the peer of a message
  std::shared_ptr<HostStream> stream;  ///< nullptr: none
  uintptr_t cuda_stream = 0;           ///< of a rank on a GPU: the driver's handle
};

/// Checks ranges, pointers and sizes as NCCL orders its checks. invalid_argument names the argument, its value and what would do.
Result<> check_op(const Op& op);

/// The call in the planner's terms.
CallShape shape_of(const Op& op);

/// Chooses, and builds the Work. For a message the slots are those of the pair's message link; `lend` false makes a Send complete without its Recv as long
/// as slots are free.
Result<std::unique_ptr<Work>> make_work(const Op& op, bool lend = true);

/// Gives the call its number: in the order of issue, inside enter()/leave(), and only when nothing can keep the Work from running any more.
void number(Work& work) noexcept;

/// Copies a Send's data into the Work, so that the caller's buffer is free at once.
void detach(Work& work);

/// Bytes of one element times `count`.
inline size_t bytes_of(const Op& op) { return op.count * size_of(op.type); }

}  // namespace ronde
