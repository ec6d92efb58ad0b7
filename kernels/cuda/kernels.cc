#include "kernels/cuda/kernels.h"

#include "kernels/cuda/images.h"

namespace ronde::gpu {
namespace {

// In the order of meson.build.
enum Family : int { copy, int8, int32, int64, half, single, dual, bfloat16, f8e4m3, f8e5m2 };

/// Family of a type and the name that its kernels have.
struct Naming {
  int family;
  std::string_view name;
  std::string_view wraps;  ///< where nothing depends on the sign
};

Naming naming(DataType type) {
  switch (type) {
    case DataType::int8: return {int8, "int8", "uint8"};
    case DataType::uint8: return {int8, "uint8", "uint8"};
    case DataType::int32: return {int32, "int32", "uint32"};
    case DataType::uint32: return {int32, "uint32", "uint32"};
    case DataType::int64: return {int64, "int64", "uint64"};
    case DataType::uint64: return {int64, "uint64", "uint64"};
    case DataType::float16: return {half, "half", "half"};
    case DataType::float32: return {single, "float", "float"};
    case DataType::float64: return {dual, "double", "double"};
    case DataType::bfloat16: return {bfloat16, "bfloat16", "bfloat16"};
    case DataType::float8e4m3: return {f8e4m3, "f8e4m3", "f8e4m3"};
    case DataType::float8e5m2: return {f8e5m2, "f8e5m2", "f8e5m2"};
  }
  return {copy, "", ""};
}

bool is_integer(DataType type) { return type <= DataType::uint64; }

}  // namespace

std::span<const Image> images() { return kImages; }

KernelName reducing_kernel(DataType type, ReduceOp op) {
  const Naming it = naming(type);
  const auto named = [&](std::string_view element, std::string_view operation) {
    std::string name = "ronde_";
    return KernelName{it.family, name.append(element).append("_").append(operation)};
  };
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::premul_sum: return named(it.wraps, "sum");
    case ReduceOp::prod: return named(it.wraps, "prod");
    case ReduceOp::max: return named(it.name, "max");
    case ReduceOp::min: return named(it.name, "min");
    case ReduceOp::avg: return is_integer(type) ? named(it.name, "avg") : named(it.name, "sum");  // of reals: a sum that is divided
  }
  return copying_kernel();
}

KernelName copying_kernel() { return {copy, "ronde_copy"}; }

}  // namespace ronde::gpu
