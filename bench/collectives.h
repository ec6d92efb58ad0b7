// The table of collectives: one row, one program.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "bench/data.h"
#include "nccl.h"
#include "ronde.h"

namespace ronde::bench {

/// Elements of one call. In place, rank r sends from r * send_offset and receives at r * recv_offset of one buffer.
struct Shape {
  size_t send = 0;   ///< elements read at each rank
  size_t recv = 0;   ///< elements written at each rank that receives
  size_t count = 0;  ///< the call's count argument
  size_t send_offset = 0;
  size_t recv_offset = 0;

  size_t larger() const { return send > recv ? send : recv; }
};

/// One call by one rank.
struct Call {
  const void* send = nullptr;
  void* recv = nullptr;
  size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;
  int root = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  int rank = 0;
  int nranks = 1;
  int step = 0;  ///< 0 to Collective::steps(nranks) - 1
};

/// Elements [at, at + count) of a receive buffer hold elements [first, ...) of the input of `source`, or of the reduction over
/// all ranks.
struct Piece {
  static constexpr int kReduced = -1;
  size_t at = 0;
  size_t count = 0;
  int source = kReduced;
  size_t first = 0;
};

/// Bytes per second as nccl-tests counts them: algbw = bytes / time, busbw = algbw * factor.
struct Traffic {
  double bytes = 0;
  double factor = 1;
};

struct Collective {
  std::string_view name;  ///< "all_reduce"; the program is NAME_perf
  bool reduces = false;
  bool rooted = false;
  bool same_everywhere = false;  ///< every rank ends with the same data
  bool checks_in_place = true;   ///< false: the API does not promise the in-place form; it is timed only
  bool power_of_two = false;     ///< number of ranks
  rondeCall_t call = rondeAllReduce;
  Shape (*shape)(size_t elements, size_t element_bytes, int nranks) = nullptr;
  Traffic (*traffic)(const Shape& shape, size_t element_bytes, int nranks) = nullptr;
  int (*steps)(int nranks) = nullptr;  ///< groups that one operation takes one after the other
  ncclResult_t (*start)(const Call& call) = nullptr;
  std::vector<Piece> (*result)(const Shape& shape, int rank, int nranks, int root) = nullptr;
};

/// All rows.
std::span<const Collective> collectives();
/// The row of "NAME_perf" or a path to it; nullptr where there is none.
const Collective* collective_of_program(std::string_view program);

}  // namespace ronde::bench
