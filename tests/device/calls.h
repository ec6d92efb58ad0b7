// One collective call of one GPU rank, with exact inputs: made, issued, and looked at afterwards.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "base/types.h"
#include "device/gpus.h"

namespace ronde::test {

inline constexpr std::array kCollectives = {Coll::all_reduce, Coll::reduce, Coll::reduce_scatter, Coll::broadcast,
                                            Coll::all_gather, Coll::gather, Coll::scatter,        Coll::all_to_all};

struct CallCase {
  Coll coll = Coll::all_reduce;
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;
  size_t count = 0;
  int root = 0;
  bool in_place = false;
  size_t offset = 0;  ///< elements by which the buffers begin behind an aligned address

  std::string text() const;
};

/// Its buffers are of the GPU that is the calling thread's when it is made.
class GpuCall {
 public:
  GpuCall(const CallCase& it, int rank, int ranks);
  ncclResult_t issue(ncclComm_t comm, cudaStream_t stream) const;
  /// When the stream has passed it: "" or what is wrong.
  std::string check() const;

 private:
  void reduction();
  void movement();
  /// Places the buffers: `send` and `recv` are what they hold before, empty where the rank has none; `own` is where in the other the smaller one lies in place.
  void place(const std::vector<std::byte>& send, size_t recv_bytes, size_t own);

  CallCase it_;
  int rank_, ranks_;
  std::unique_ptr<GpuBuffer> send_buffer_, recv_buffer_;
  const void* send_ = nullptr;
  void* recv_ = nullptr;
  size_t result_at_ = 0;           ///< in the buffer of the result
  std::vector<std::byte> want_;    ///< of the result; empty: this rank gets none
};

}  // namespace ronde::test
