#include "base/types.h"

namespace ronde {

std::string_view name_of(DataType type) {
  constexpr std::string_view names[kDataTypes] = {"int8", "uint8", "int32",  "uint32",   "int64",  "uint64",
                                                  "half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2"};
  return names[static_cast<int>(type)];
}

std::string_view name_of(ReduceOp op) {
  constexpr std::string_view names[kReduceOps] = {"sum", "prod", "max", "min", "avg", "mulsum"};
  return names[static_cast<int>(op)];
}

std::string_view name_of(Coll coll) {
  constexpr std::string_view names[kColls] = {"AllReduce", "Broadcast", "Reduce",  "AllGather", "ReduceScatter",
                                              "AlltoAll",  "Gather",    "Scatter", "Send",      "Recv"};
  return names[static_cast<int>(coll)];
}

}  // namespace ronde
