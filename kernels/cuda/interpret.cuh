// The interpreter: a block runs the lanes of its parts, warps dealt to lanes, each lane Move by Move and slice by slice.
//
// A group of warps serves one or more lanes. Its first warp looks which of them can go on (slots there, room there), and writes what is to be
// done into shared memory; all its warps fold; the first warp publishes. A group never waits inside one lane while another could go on.
#pragma once

#include "kernels/cuda/abi.h"
#include "kernels/cuda/fold.cuh"

namespace ronde::gpu {

constexpr uint32_t kFullWarp = 0xffffffffu;
constexpr uint32_t kLooksBetweenStops = 32;  ///< fruitless looks between two at the abort word, which lies in the host's memory
constexpr uint64_t kLongWait = 50'000'000;   ///< nanoseconds without a lane that can go on after which a group says why it stands still

struct LaneState {
  uint64_t moves;
  uint32_t count;
  uint32_t part;  ///< which PartState
  uint32_t slice, move, piece;
  uint32_t left;  ///< parts that the lane has still to run, this one included: messages of a pair follow each other. 0: it is done
  uint32_t at;    ///< of its part in the block's list
  uint32_t reserved;
};
static_assert(sizeof(LaneState) == kLaneBytes);

/// A part that is run; those that follow it take its place.
struct PartState {
  BlockTable table;
  Slicing slicing;
  const Call* call;
  uint64_t ports;  ///< addresses of Port
  uint64_t sequence;
};
static_assert(sizeof(PartState) == kPartBytes);

enum Job : uint32_t { kEnded = 0xfffffffe, kStopped = 0xffffffff };

/// The shared memory of a block.
struct Block {
  LaneState* lanes;
  PartState* parts;
  uint64_t* places;  ///< kWarps x most_operands
  const Part* list;
  const Call* calls;
  uint32_t lane_count, part_count, most_operands;
};

/// The warps that serve the same lanes.
struct Team {
  uint32_t number, teams, warps;  ///< warps of each
  uint32_t thread;                ///< of this one in the team
  __device__ uint32_t threads() const { return warps * kWarp; }
  __device__ bool leads() const { return thread < kWarp; }
  __device__ void sync() const {
    if (warps == 1) {
      __syncwarp();
    } else {
      ptx::barrier(1 + number, threads());
    }
  }
};

__device__ inline Rank& rank_of(const Call& call) { return *reinterpret_cast<Rank*>(call.rank); }
__device__ inline Port& port_at(const PartState& part, uint32_t index) {
  return *reinterpret_cast<Port*>(reinterpret_cast<const uint64_t*>(part.ports)[index]);
}
__device__ inline const Move& move_of(const LaneState& lane) { return reinterpret_cast<const Move*>(lane.moves)[lane.move]; }
__device__ inline Status& status_of(const Call& call) { return *reinterpret_cast<Status*>(rank_of(call).status); }

__device__ inline bool stopped(const Call& call) {
  const Rank& rank = rank_of(call);
  return ptx::load_relaxed_u32(reinterpret_cast<uint64_t>(&rank.stop)) != 0 || ptx::load_relaxed_u32(rank.abort) != 0;
}

/// Whether the reader has made the queue; notes where.
__device__ inline bool find_queue(Port& port) {
  const uint64_t place = ptx::load_acquire(port.out_entry);  // pairs with the reader's host, which clears the queue before it names it
  if (place == 0) return false;
  port.out_tail = port.out_base + place;
  port.out_slots = port.out_tail + kQueueHead;
  return true;
}

/// The port of the Move's `i`th end, arrivals first, cannot go on.
__device__ inline bool short_of(const PartState& part, const Move& move, uint32_t i) {
  if (i < move.in_count) {
    const Port& port = port_at(part, move.in_first + i);
    return ptx::load_acquire(port.in_tail) == port.in_next;  // pairs with the writer's publish(): the slot's data are there
  }
  Port& port = port_at(part, move.out_first + i - move.in_count);
  if (port.out_slots == 0 && !find_queue(port)) return true;
  return port.out_next - ptx::load_acquire(port.out_head) >= rank_of(*part.call).slots;  // with the reader's publish(): it has read the slot
}

/// Whether the lane can go on; by a whole warp. `lacking` is then the first end that cannot, else unchanged.
__device__ inline bool ready(const PartState& part, const Move& move, uint32_t* lacking) {
  const uint32_t ends = move.in_count + move.out_count;
  for (uint32_t first = 0; first < ends; first += kWarp) {
    const uint32_t i = first + threadIdx.x % kWarp;
    const bool lacking_one = i < ends && short_of(part, move, i);
    __syncwarp();  // what find_queue noted is read by other threads
    const uint32_t lacks = __ballot_sync(kFullWarp, lacking_one);
    if (lacks == 0) continue;
    *lacking = first + static_cast<uint32_t>(__ffs(static_cast<int>(lacks))) - 1;
    return false;
  }
  return true;
}

/// Says where the team stands, or that it goes on.
__device__ inline void tell_stand(const Block& block, const Team& team, uint32_t lane, uint32_t lacking, bool waiting) {
  if (threadIdx.x % kWarp != 0) return;
  const LaneState& state = block.lanes[lane];
  const PartState& part = block.parts[state.part];
  const Move& move = move_of(state);
  const bool outward = lacking >= move.in_count;
  const Port& port = port_at(part, outward ? move.out_first + lacking - move.in_count : move.in_first + lacking);
  Stand& stand = status_of(*part.call).stands[blockIdx.x % 64 * kWarps + team.number];
  if (waiting) {
    stand.sequence = part.sequence;
    stand.channel = block.list[state.at].channel;
    stand.lane = static_cast<uint16_t>(lane);
    stand.slice = state.slice;
    stand.move = state.move;
    stand.peer = port.peer;
    stand.outward = outward ? 1 : 0;
  }
  // The host reads `waiting` with acquire, then the rest.
  ptx::store_release_u32(reinterpret_cast<uint64_t>(&stand.waiting), waiting ? 1 : 0);
}

/// A lane of the team that can go on, kEnded when all are done, kStopped when the communicator is at its end. By the team's first warp.
__device__ inline uint32_t find_work(const Block& block, const Team& team, uint32_t after) {
  const uint32_t mine = (block.lane_count - team.number + team.teams - 1) / team.teams;
  uint32_t told = kEnded, lacking = 0;
  uint64_t since = 0;
  for (uint32_t looks = 1;; ++looks) {
    uint32_t left = kEnded;
    for (uint32_t k = 1; k <= mine; ++k) {
      const uint32_t lane = team.number + (after + k) % mine * team.teams;
      const LaneState& state = block.lanes[lane];
      if (state.left == 0) continue;
      const PartState& part = block.parts[state.part];
      if (looks % kLooksBetweenStops == 0 && __any_sync(kFullWarp, stopped(*part.call))) return kStopped;
      if (ready(part, move_of(state), &lacking)) {
        if (told != kEnded) tell_stand(block, team, told, lacking, false);
        return lane;
      }
      left = lane;
    }
    if (left == kEnded) return kEnded;
    if (looks % kLooksBetweenStops != 0) continue;
    const uint64_t now = ptx::nanoseconds();
    if (since == 0) since = now;
    if (now - since >= kLongWait && told == kEnded) tell_stand(block, team, told = left, lacking, true);
  }
}

__device__ inline uint64_t slot_at(uint64_t slots, uint32_t index, const Call& call) {
  return slots + static_cast<uint64_t>(index) * rank_of(call).slot_bytes;
}

/// What a slot of this call says in its head.
__device__ inline SlotHeader header_of(const PartState& part, uint64_t bytes) {
  const Call& call = *part.call;
  return {call.fingerprint, part.sequence, bytes, call.count, call.coll_type_op, call.root, {}};
}

/// The first to find a fault leaves it for the host and stops all blocks of the rank.
__device__ inline void report(const PartState& part, const Port& port, Fault fault, const SlotHeader& theirs, uint64_t bytes) {
  if (!ptx::claim(reinterpret_cast<uint64_t>(&rank_of(*part.call).stop))) return;
  Status& status = status_of(*part.call);
  status.peer = port.peer;
  status.theirs = theirs;
  status.mine = header_of(part, bytes);
  // The host reads `fault` with acquire, then the rest. `stop`, claimed above, guards no data: who sees it only ends.
  ptx::store_release_u32(reinterpret_cast<uint64_t>(&status.fault), static_cast<uint32_t>(fault));
}

/// Bytes of the lane's piece: by the local block where there is one, else as the first arrival says (a Move that only passes on).
__device__ inline uint64_t piece_bytes(const PartState& part, const LaneState& lane, const Move& move) {
  if (move.src == Buf::none && move.dst == Buf::none) {
    if (move.in_count == 0) return 0;
    const Port& port = port_at(part, move.in_first);
    return reinterpret_cast<const SlotHeader*>(slot_at(port.in_slots, port.in_index, *part.call))->bytes;
  }
  const uint64_t block = (move.src != Buf::none ? move.src_block : move.dst_block) + lane.piece;
  if (part.slicing.merged) return part.table.length(block, move.n_blocks);
  const uint64_t length = part.table.length(block);
  const uint64_t at = lane.slice * part.slicing.slice;
  return at >= length ? 0 : min(static_cast<uint64_t>(part.slicing.slice), length - at);
}

/// The factor of a pre-multiplied sum.
__device__ inline uint64_t factor_of(const Call& call) {
  switch (call.factor_at != 0 ? call.premultiplied : 0) {
    case 1: return *reinterpret_cast<const uint8_t*>(call.factor_at);
    case 2: return *reinterpret_cast<const uint16_t*>(call.factor_at);
    case 4: return *reinterpret_cast<const uint32_t*>(call.factor_at);
    case 8: return *reinterpret_cast<const uint64_t*>(call.factor_at);
    default: return call.factor;
  }
}

/// Writes the lane's piece into shared memory, by the team's first warp. False: a slot does not fit (which is reported).
__device__ inline bool prepare(const Block& block, uint32_t number, Piece* piece, uint64_t* place) {
  const LaneState& lane = block.lanes[number];
  const PartState& part = block.parts[lane.part];
  const Call& call = *part.call;
  const Move& move = move_of(lane);
  const uint64_t bytes = piece_bytes(part, lane, move);
  const uint64_t at = part.slicing.merged ? 0 : lane.slice * part.slicing.slice;
  const bool has_src = move.src != Buf::none, has_dst = move.dst != Buf::none;
  const uint32_t sources = move.in_count + (has_src ? 1 : 0);
  const uint32_t src_at = has_src ? min(move.src_at, move.in_count) : kFullWarp;
  const uint32_t thread = threadIdx.x % kWarp;
  uint64_t low = 0;
  bool fits = true;
  const auto put = [&](uint32_t index, uint64_t address) {
    place[index] = address;
    low |= address;
  };
  for (uint32_t i = thread; i < move.in_count; i += kWarp) {
    const Port& port = port_at(part, move.in_first + i);
    const uint64_t slot = slot_at(port.in_slots, port.in_index, call);
    const SlotHeader& header = *reinterpret_cast<const SlotHeader*>(slot);
    const bool same = header.fingerprint == call.fingerprint && header.sequence == part.sequence;
    if (!same || header.bytes != bytes) {
      report(part, port, same ? Fault::bytes : Fault::mismatch, header, bytes);
      fits = false;
    }
    put(i + (i >= src_at ? 1 : 0), slot + sizeof(SlotHeader));
  }
  for (uint32_t i = thread; i < move.out_count; i += kWarp) {
    const Port& port = port_at(part, move.out_first + i);
    put(sources + (has_dst ? 1 : 0) + i, slot_at(port.out_slots, port.out_index, call) + sizeof(SlotHeader));
  }
  if (thread == 0) {
    if (has_src) put(src_at, part.table.address(move.src, move.src_block + lane.piece) + at);
    if (has_dst) put(sources, part.table.address(move.dst, move.dst_block + lane.piece) + at);
    piece->sources = sources;
    piece->places = move.out_count + (has_dst ? 1 : 0);
    piece->bytes = static_cast<uint32_t>(bytes);
    piece->multiplied = call.premultiplied != 0 && move.src == Buf::input ? src_at : kNoSource;
    if (piece->multiplied != kNoSource) piece->factor = factor_of(call);
    piece->divisor = call.average != 0 && (move.flags & kMoveFinal) != 0 ? call.divisor : 1;
    piece->plain = sources == 1 && piece->multiplied == kNoSource && piece->divisor == 1;
  }
  uint32_t width = 1;
  while (width < 16 && !__any_sync(kFullWarp, (low & width) != 0)) width *= 2;
  if (thread == 0) piece->width = width;
  return __all_sync(kFullWarp, fits);
}

/// Makes `part` the channel of the call, or, where the call follows another, of the one after it. By one thread.
__device__ inline void begin_part(const Call& call, uint32_t channel, PartState* part) {
  const Program& program = reinterpret_cast<const Program*>(call.programs)[channel];
  part->table = channel_table(call.buffers, channel, call.channels, program.blocks);
  part->table.base[static_cast<size_t>(Buf::scratch)] = call.scratch + channel * call.scratch_share;
  part->slicing = slicing_of(part->table, call.slicing);
  part->call = &call;
  part->ports = program.ports;
  const uint64_t* const ports = reinterpret_cast<const uint64_t*>(program.ports);
  part->sequence = call.follows != 0                              ? part->sequence + 1
                   : call.numbering == Numbering::collective ? rank_of(call).collectives
                   : call.numbering == Numbering::send       ? reinterpret_cast<const Port*>(ports[0])->sent
                                                             : reinterpret_cast<const Port*>(ports[0])->received;
}

/// Moves the lane on, also to the part that follows. By one thread, which is the last to look at the part that ends.
__device__ inline void next_piece(const Block& block, LaneState& lane) {
  PartState& part = block.parts[lane.part];
  const Call& call = *part.call;
  const uint32_t pieces = part.slicing.merged ? 1 : move_of(lane).n_blocks;
  if (++lane.piece < pieces) return;
  lane.piece = 0;
  if (++lane.move < lane.count) return;
  lane.move = 0;
  if (++lane.slice < part.slicing.slices) return;
  lane.slice = 0;
  if (call.numbering != Numbering::collective) {
    Port& port = port_at(part, 0);
    ++(call.numbering == Numbering::send ? port.sent : port.received);
  }
  if (--lane.left == 0) return;
  const Part& next = block.list[++lane.at];
  begin_part(block.calls[next.call], next.channel, &part);  // the lane's Moves are the same
}

/// Gives slots back and publishes slots, and moves the lane on. By the team's first warp, after all have folded: what the team's other threads have
/// loaded and stored is before their barrier, and so before the releases here, which pair with the acquires in short_of() at the other end.
__device__ inline void publish(const Block& block, uint32_t number, uint64_t bytes) {
  LaneState& lane = block.lanes[number];
  const PartState& part = block.parts[lane.part];
  const Call& call = *part.call;
  const Move& move = move_of(lane);
  const uint32_t thread = threadIdx.x % kWarp;
  const uint32_t slots = rank_of(call).slots;
  for (uint32_t i = thread; i < move.in_count; i += kWarp) {
    Port& port = port_at(part, move.in_first + i);
    port.in_index = port.in_index + 1 == slots ? 0 : port.in_index + 1;
    ptx::store_release(port.in_head, ++port.in_next);
  }
  for (uint32_t i = thread; i < move.out_count; i += kWarp) {
    Port& port = port_at(part, move.out_first + i);
    *reinterpret_cast<SlotHeader*>(slot_at(port.out_slots, port.out_index, call)) = header_of(part, bytes);
    port.out_index = port.out_index + 1 == slots ? 0 : port.out_index + 1;
    ptx::store_release(port.out_tail, ++port.out_next);
  }
  __syncwarp();
  if (thread == 0) next_piece(block, lane);
  __syncwarp();
}

/// A team's life. False: it was stopped.
template <class Op>
__device__ bool run_lanes(const Block& block, const Team& team, Piece* piece, uint32_t* job) {
  uint64_t* const place = block.places + team.number * block.most_operands;
  uint32_t turn = 0;
  for (;; ++turn) {
    if (team.leads()) {
      uint32_t lane = find_work(block, team, turn);
      if (lane < kEnded && !prepare(block, lane, piece, place)) lane = kStopped;
      if (team.thread == 0) *job = lane;
    }
    team.sync();
    const uint32_t lane = *job;
    if (lane >= kEnded) return lane == kEnded;
    if (std::is_same_v<Op, Copy> || piece->plain != 0) {
      copy(*piece, place, team.thread, team.threads());
    } else if constexpr (!std::is_same_v<Op, Copy>) {
      fold<Op>(*piece, place, team.thread, team.threads());
    }
    const uint32_t bytes = piece->bytes;
    team.sync();
    if (team.leads()) publish(block, lane, bytes);
  }
}

/// Lays the block's parts and lanes out in shared memory. By all threads, which have to wait for each other before they read it.
__device__ inline void lay_out(const Launch& launch, uint8_t* shared, Block* out) {
  LaneState* const lane_states = reinterpret_cast<LaneState*>(shared);
  PartState* const part_states = reinterpret_cast<PartState*>(shared + launch.most_lanes * sizeof(LaneState));
  const Part* const list = (launch.far_parts != 0 ? reinterpret_cast<const Part*>(launch.far_parts) : launch.parts) + blockIdx.x * launch.parts_each;
  const Call* const calls = launch.far_calls != 0 ? reinterpret_cast<const Call*>(launch.far_calls) : launch.calls;
  uint32_t part_count = 0, lane_count = 0;
  for (uint32_t p = 0; p < launch.parts_each && list[p].call != kNoCall; ++p) {
    const Call& call = calls[list[p].call];
    if (call.follows != 0) {
      if (threadIdx.x == 0) ++lane_states[lane_count - 1].left;
      continue;
    }
    if (threadIdx.x == 0) begin_part(call, list[p].channel, &part_states[part_count]);
    const Program& program = reinterpret_cast<const Program*>(call.programs)[list[p].channel];
    const Lane* const lanes = reinterpret_cast<const Lane*>(program.lanes);
    for (uint32_t l = threadIdx.x; l < program.lane_count; l += kThreads) {
      lane_states[lane_count + l] = {lanes[l].moves, lanes[l].count, part_count, 0, 0, 0, lanes[l].count == 0 ? 0u : 1u, p, 0};
    }
    lane_count += program.lane_count;
    ++part_count;
  }
  if (threadIdx.x != 0) return;
  out->lanes = lane_states;
  out->parts = part_states;
  out->places = reinterpret_cast<uint64_t*>(part_states + launch.most_states);
  out->list = list;
  out->calls = calls;
  out->lane_count = lane_count;
  out->part_count = part_count;
  out->most_operands = launch.most_operands;
}

/// The last of a rank's parts in the launch counts its calls as ended. By one thread, after the block's lanes.
__device__ inline void count_ended(const Block& block) {
  for (uint32_t p = 0; p < block.part_count; ++p) {
    const Call& call = *block.parts[p].call;
    Rank& rank = rank_of(call);
    if (ptx::count_up(reinterpret_cast<uint64_t>(&rank.arrived)) + 1 < call.parts_of_rank) continue;
    // Every block of the rank has been seen to arrive: none reads these numbers any more, and the next launch begins after this one.
    ptx::store_relaxed_u32(reinterpret_cast<uint64_t>(&rank.arrived), 0);
    rank.collectives += call.numbering == Numbering::collective ? 1 : 0;
    rank.launches += 1;
    // The host reads it with acquire: all results are stored.
    ptx::store_release(reinterpret_cast<uint64_t>(&status_of(call).launches), rank.launches);
  }
}

/// The kernel of one type and operation.
template <class Op>
__device__ void interpret(const Launch& launch) {
  extern __shared__ __align__(16) uint8_t shared[];
  __shared__ Piece pieces[kWarps];
  __shared__ uint32_t jobs[kWarps];
  __shared__ Block block;
  lay_out(launch, shared, &block);
  __syncthreads();
  bool ended = true;
  Team team;
  team.teams = min(block.lane_count, kWarps);
  if (team.teams != 0) {
    team.warps = kWarps / team.teams;
    team.number = threadIdx.x / kWarp / team.warps;
    team.thread = threadIdx.x - team.number * team.threads();
    if (team.number < team.teams) ended = run_lanes<Op>(block, team, &pieces[team.number], &jobs[team.number]);
  }
  const bool all = __syncthreads_and(ended ? 1 : 0) != 0;
  if (threadIdx.x == 0 && all) count_ended(block);
}

}  // namespace ronde::gpu
