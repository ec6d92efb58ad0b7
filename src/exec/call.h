// What a rank calls, in the forms that travel: packed into control blocks and slots, and as text for people.
#pragma once

#include <cstdint>
#include <string>

#include "base/hash.h"
#include "base/types.h"

namespace ronde {

/// One call of one rank. Everything that ranks must agree on is in it.
struct Call {
  Coll coll = Coll::all_reduce;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  uint8_t algorithm = 0;   ///< index in algorithms(); part of the fingerprint
  int32_t root = -1;       ///< or the peer of a message; -1: none
  uint64_t count = 0;      ///< elements, as the API's argument
  uint64_t sequence = 0;   ///< number among the communicator's collectives, or among the pair's messages in one direction
  uint64_t choice = 0;     ///< hash of channels, slice and the like: ranks that chose differently disagree

  bool message() const { return coll == Coll::send || coll == Coll::recv; }
  uint64_t packed() const {
    return static_cast<uint64_t>(coll) | static_cast<uint64_t>(type) << 8 | static_cast<uint64_t>(op) << 16 |
           static_cast<uint64_t>(algorithm) << 24 | static_cast<uint64_t>(static_cast<uint32_t>(root)) << 32;
  }
  /// Equal at both ends exactly when the calls fit. A message's two ends differ in coll and peer, which are left out.
  uint64_t fingerprint() const {
    const uint64_t what = message() ? static_cast<uint64_t>(type) << 8 : packed();
    return fnv1a_u64(choice, fnv1a_u64(count, fnv1a_u64(what, fnv1a(message() ? "message" : "collective"))));
  }
};

/// "AllReduce(count 10, float, sum)", "Broadcast(count 3, int8, root 2)", "Send(count 5, float, to rank 1)" from packed fields.
std::string describe_call(uint64_t packed, uint64_t count);
inline std::string describe_call(const Call& call) { return describe_call(call.packed(), call.count); }

}  // namespace ronde
