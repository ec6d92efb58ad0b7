// How messages lie on the streams (TCP connections) of one connection. A message is cut into parts, at most one for each stream,
// by its number and size alone, so that the reader knows where each part belongs; before each part goes a Frame.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/hash.h"
#include "base/integers.h"

namespace ronde::net {

inline constexpr uint32_t kMaxStreams = 64;
/// Messages under way in one direction of a connection: as many as a FIFO has slots at most.
inline constexpr uint32_t kMaxUnderWay = 64;
/// A part is not smaller than this: the messages beside it keep the other streams busy, and each part costs a call.
inline constexpr uint64_t kLeastPart = 128 * 1024;

struct Frame {
  uint32_t magic = 0;
  uint32_t check = 0;   ///< of the other fields
  uint64_t number = 0;  ///< of the message, from 0
  uint64_t total = 0;   ///< bytes of the whole message
};
static_assert(sizeof(Frame) == 24 && std::is_trivially_copyable_v<Frame>);

inline Frame make_frame(uint64_t number, uint64_t total) {
  constexpr uint32_t kMagic = 0x464e5253;  // "SRNF"
  const uint64_t hash = fnv1a_u64(total, fnv1a_u64(number, kMagic));
  return {kMagic, static_cast<uint32_t>(hash ^ (hash >> 32)), number, total};
}
/// True for what make_frame makes; anything else is broken.
inline bool is_frame(const Frame& frame) {
  const Frame right = make_frame(frame.number, frame.total);
  return frame.magic == right.magic && frame.check == right.check;
}

/// One part of a message.
struct Part {
  uint64_t begin = 0;
  uint64_t bytes = 0;
};

/// How message `number` of `total` bytes lies on `streams` streams: part i goes over stream (number + i) % streams, so that small
/// messages take turns.
struct Cut {
  Cut(uint64_t number, uint64_t total, uint32_t streams)
      : first(static_cast<uint32_t>(number % streams)),
        parts(static_cast<uint32_t>(std::clamp<uint64_t>(total / kLeastPart, 1, streams))),
        streams_(streams),
        total_(total),
        share_(ceil_div(ceil_div(total, parts), 64) * 64) {}

  uint32_t stream_of(uint32_t part) const { return (first + part) % streams_; }
  /// The part that goes over a stream; at least `parts`: none does.
  uint32_t part_on(uint32_t stream) const { return (stream + streams_ - first) % streams_; }
  Part part(uint32_t index) const {
    const uint64_t begin = share_ * index;
    return {begin, std::min(share_, total_ - begin)};
  }

  uint32_t first;
  uint32_t parts;

 private:
  uint32_t streams_;
  uint64_t total_;
  uint64_t share_;
};

}  // namespace ronde::net
