// Element types, reductions and collectives: numbers, sizes and names used by every layer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ronde {

/// The numbers of ncclDataType_t.
enum class DataType : uint8_t {
  int8 = 0, uint8 = 1, int32 = 2, uint32 = 3, int64 = 4, uint64 = 5,
  float16 = 6, float32 = 7, float64 = 8, bfloat16 = 9, float8e4m3 = 10, float8e5m2 = 11,
};
inline constexpr int kDataTypes = 12;

/// The numbers of ncclRedOp_t for the first five; premul_sum is what a handle of ncclRedOpCreatePreMulSum resolves to.
enum class ReduceOp : uint8_t { sum = 0, prod = 1, max = 2, min = 3, avg = 4, premul_sum = 5 };
inline constexpr int kReduceOps = 6;

/// What a call does. send and recv are messages; the rest are collectives.
enum class Coll : uint8_t {
  all_reduce, broadcast, reduce, all_gather, reduce_scatter, all_to_all, gather, scatter, send, recv,
};
inline constexpr int kColls = 10;

/// Bytes of one element.
constexpr size_t size_of(DataType type) {
  constexpr size_t sizes[kDataTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return sizes[static_cast<int>(type)];
}

/// The names that nccl-tests prints: int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16, f8e4m3, f8e5m2.
std::string_view name_of(DataType type);
/// sum, prod, max, min, avg, mulsum, as nccl-tests prints them.
std::string_view name_of(ReduceOp op);
/// The API's name without prefix: AllReduce, Broadcast, Reduce, AllGather, ReduceScatter, AlltoAll, Gather, Scatter, Send, Recv.
std::string_view name_of(Coll coll);

constexpr bool has_root(Coll c) { return c == Coll::broadcast || c == Coll::reduce || c == Coll::gather || c == Coll::scatter; }
/// Whether the API's count is one rank's part, of which the larger buffer holds one for each rank.
constexpr bool counts_per_rank(Coll c) {
  return c == Coll::all_gather || c == Coll::reduce_scatter || c == Coll::all_to_all || c == Coll::gather || c == Coll::scatter;
}
constexpr bool has_reduction(Coll c) { return c == Coll::all_reduce || c == Coll::reduce || c == Coll::reduce_scatter; }

}  // namespace ronde
