#include "exec/call.h"

#include <fmt/core.h>

namespace ronde {

std::string describe_call(uint64_t packed, uint64_t count) {
  const auto coll = static_cast<Coll>(packed & 0xff);
  const auto type = static_cast<DataType>(packed >> 8 & 0xff);
  const auto op = static_cast<ReduceOp>(packed >> 16 & 0xff);
  const auto root = static_cast<int32_t>(packed >> 32);
  if (static_cast<int>(coll) >= kColls || static_cast<int>(type) >= kDataTypes) return "an unreadable call";
  std::string text = fmt::format("{}(count {}, {}", name_of(coll), count, name_of(type));
  if (has_reduction(coll) && static_cast<int>(op) < kReduceOps) text += fmt::format(", {}", name_of(op));
  if (has_root(coll)) text += fmt::format(", root {}", root);
  if (coll == Coll::send) text += fmt::format(", to rank {}", root);
  if (coll == Coll::recv) text += fmt::format(", from rank {}", root);
  return text + ")";
}

}  // namespace ronde
