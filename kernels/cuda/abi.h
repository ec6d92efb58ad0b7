// What the host and the interpreter kernel both see. Plain data, laid out alike by both compilers; addresses are 64-bit numbers.
#pragma once

#include <cstdint>

#include "fifo/device_queue.h"
#include "plan/blocks.h"
#include "plan/move.h"

namespace ronde::gpu {

/// Threads of a block. A block runs one channel of a collective, or some messages; its warps are dealt to the lanes.
inline constexpr uint32_t kThreads = 512;
inline constexpr uint32_t kWarp = 32;
inline constexpr uint32_t kWarps = kThreads / kWarp;

/// Head of a slot, with its data right behind it. As ronde::Slot, without what only CPU ranks need.
struct SlotHeader {
  uint64_t fingerprint;
  uint64_t sequence;
  uint64_t bytes;
  uint64_t count;         ///< this and the rest are for the text of an error
  uint32_t coll_type_op;  ///< packed as Call::packed()
  int32_t root;
  uint64_t reserved[3];
};
static_assert(sizeof(SlotHeader) == kSlotHead);

/// Both directions of a link as one rank sees it, kept in that rank's device memory between calls. A queue's tail and slots lie with its reader, its
/// head with its writer, so that each end polls its own memory. The reader makes a queue; where its writer has not found it yet, out_slots is 0.
struct Port {
  uint64_t in_tail, in_head, in_slots;
  uint64_t out_entry;  ///< where the reader writes the place of the queue, counted from out_base; 0 until then
  uint64_t out_base;
  uint64_t out_tail, out_head, out_slots;
  uint64_t in_next, out_next;    ///< numbers of the next slot to read and to write
  uint32_t in_index, out_index;  ///< the same modulo the number of slots
  uint64_t sent, received;       ///< messages: how many have ended
  int32_t peer;
  int32_t link;
  uint64_t reserved[2];
};
static_assert(sizeof(Port) == 128);

/// One lane of a Program.
struct Lane {
  uint64_t moves;  ///< Move[count]
  uint32_t count;
  uint32_t reserved;
};

/// A Program bound to a rank's ports, uploaded once.
struct Program {
  uint64_t lanes;  ///< Lane[lane_count]
  uint64_t ports;  ///< addresses of Port, as Program::peers lists them
  uint32_t lane_count;
  uint32_t blocks;
  uint32_t scratch_blocks;
  uint32_t most_operands;  ///< of a Move: sources and destinations together
};

/// Why a block stands still, for whoever asks after a long wait. Written only once a wait is long, so that it costs nothing before.
struct Stand {
  uint64_t sequence;
  uint16_t channel, lane;  ///< lane: of the block
  uint32_t slice, move;
  int32_t peer;      ///< the rank that is waited for
  uint32_t outward;  ///< 1: for room in a queue to it, 0: for a slot from it
  uint32_t waiting;  ///< 0: the rest means nothing
};

enum class Fault : uint32_t { none = 0, mismatch = 1, bytes = 2 };

/// A rank's page in pinned host memory: written by its kernels, read by the host while they run.
struct Status {
  uint32_t fault;  ///< Fault; published last
  int32_t peer;
  SlotHeader theirs;  ///< of the slot that does not fit
  SlotHeader mine;    ///< what was expected
  uint64_t launches;      ///< that have ended
  Stand stands[64 * kWarps];  ///< by block of the launch (modulo 64) and group of warps
};

/// A rank of a communicator, in device memory.
struct Rank {
  uint64_t abort;   ///< uint32_t in pinned host memory: not 0 ends every kernel
  uint64_t status;  ///< Status in pinned host memory
  uint64_t collectives;  ///< that have ended: the number of the one that runs now
  uint64_t launches;     ///< that have ended
  uint32_t arrived;      ///< parts of the running launch that are done
  uint32_t stop;         ///< not 0: a block has found a fault
  uint32_t slots;
  uint32_t slot_bytes;   ///< from one slot to the next
};

/// From where a call's number comes.
enum class Numbering : uint8_t { collective = 0, send = 1, receive = 2 };

/// One call of one rank. A parameter of the kernel: nothing in it changes when a graph replays the launch.
struct Call {
  uint64_t rank;      ///< Rank
  uint64_t programs;  ///< Program[channels]
  CallBuffers buffers;
  uint64_t scratch;      ///< address of the call's scratch memory; a channel's share is scratch_share
  uint64_t scratch_share;
  SlicingRule slicing;
  uint64_t fingerprint;
  uint64_t count;
  uint64_t factor;       ///< bits of a pre-multiplied sum's factor
  uint64_t factor_at;    ///< where they lie when the call runs; 0: the above
  uint32_t coll_type_op;
  int32_t root;
  uint32_t channels;
  uint32_t divisor;      ///< of an average; 1: none
  Numbering numbering;
  uint8_t average;        ///< 1: Final Moves divide
  uint8_t premultiplied;  ///< bytes of the factor; 0: none
  uint8_t follows;        ///< a message: 1 after another of its pair and direction in the launch, whose part is the one before and whose lane it shares
  uint32_t parts_of_rank; ///< in this launch, without those that follow
};

/// Channel `channel` of call number `call` of a launch.
struct Part {
  uint16_t call;
  uint16_t channel;
};
/// Number of no call: the block has no more parts.
inline constexpr uint16_t kNoCall = 0xffff;

/// So many calls and parts travel with the launch itself.
inline constexpr uint32_t kMostCalls = 16;
inline constexpr uint32_t kMostParts = 256;

/// The kernel's one parameter. Block b runs the parts from b * parts_each on, `parts_each` at most.
struct Launch {
  uint64_t far_parts;      ///< Part[parts_count] and Call[] in device memory; 0: those below
  uint64_t far_calls;
  uint32_t parts_count;    ///< a multiple of parts_each
  uint32_t parts_each;
  uint32_t most_operands;  ///< of all Programs: sizes the shared memory
  uint32_t most_lanes;     ///< of a block
  uint32_t most_states;    ///< of a block: parts that follow none
  uint32_t reserved;
  Part parts[kMostParts];
  Call calls[kMostCalls];
};
static_assert(sizeof(Launch) <= 4096, "what every driver takes as a kernel's parameters");

inline constexpr uint32_t kLaneBytes = 40;  ///< of shared memory for a lane
inline constexpr uint32_t kPartBytes = 96;  ///< of shared memory for a part that follows none
/// What every GPU gives a block without being asked for more, less what the kernel's own variables take.
inline constexpr uint32_t kMostShared = 46 << 10;
/// Bytes of dynamic shared memory that a block of `launch` needs.
constexpr uint32_t shared_bytes(uint32_t most_lanes, uint32_t most_operands, uint32_t most_states) {
  return most_lanes * kLaneBytes + most_states * kPartBytes + kWarps * most_operands * 8;
}

}  // namespace ronde::gpu
