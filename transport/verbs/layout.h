// What lies in the registered block of an end, and what the immediate data of a write says.
//
// The receiver keeps the table of rooms and writes its new entries into the sender's copy. The sender writes messages into rooms.
// One that goes as one write says its number and length with it; of another, each part's last write is a PartNote into the
// receiver's table of notes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ronde::net {

/// Messages under way in one direction of a connection: as many as a FIFO has slots at most.
inline constexpr uint32_t kMaxMessages = 64;
inline constexpr uint32_t kMaxQueues = 128;
/// A part is not smaller than this: each costs a work request and a completion on both sides.
inline constexpr uint64_t kLeastSplit = 4096;

struct RoomNote {
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint32_t rkey = 0;
  uint32_t reserved = 0;
};
struct PartNote {
  uint64_t number = 0;
  uint64_t total = 0;
  uint32_t parts = 0;
  uint32_t reserved = 0;
};
static_assert(sizeof(RoomNote) == 24 && sizeof(PartNote) == 24);

constexpr size_t block_bytes(uint32_t queues) { return kMaxMessages * (sizeof(RoomNote) + queues * sizeof(PartNote)); }
constexpr size_t room_offset(uint64_t number) { return number % kMaxMessages * sizeof(RoomNote); }
/// Part `part` of message `number`.
constexpr size_t note_offset(uint64_t number, uint32_t part, uint32_t queues) {
  return kMaxMessages * sizeof(RoomNote) + (number % kMaxMessages * queues + part) * sizeof(PartNote);
}

/// Part i of message n goes over queue pair (n + i) % queues, so that small messages take turns.
constexpr uint32_t queue_of(uint64_t number, uint32_t part, uint32_t queues) {
  return static_cast<uint32_t>((number + part) % queues);
}
constexpr uint32_t part_on(uint64_t number, uint32_t queue, uint32_t queues) {
  return static_cast<uint32_t>((queue + queues - number % queues) % queues);
}

/// Immediate data of a message's writes: its number, and whether there is a PartNote.
constexpr uint32_t kNoted = 0x80000000u;
constexpr uint32_t immediate_of(uint64_t number, bool noted) {
  return static_cast<uint32_t>(number & ~kNoted) | (noted ? kNoted : 0);
}
/// The number from `first` on that it means; it is less than 2^31 further.
constexpr uint64_t number_from(uint32_t immediate, uint64_t first) {
  return first + ((immediate - static_cast<uint32_t>(first)) & ~kNoted);
}

}  // namespace ronde::net
