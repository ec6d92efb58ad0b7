// The state of a launch while it runs: blocks of warps, warps of groups of lanes that stand at one place.
#pragma once

#include <array>
#include <bit>
#include <memory>
#include <string>
#include <vector>

#include "gpu-emulator/exec/code.h"
#include "gpu-emulator/exec/launch.h"
#include "gpu-emulator/memory.h"

namespace emu {

struct Block;
struct Launch;
class Model;

/// A function that some lanes are in.
struct Frame {
  const Code* code = nullptr;
  std::unique_ptr<std::byte[]> registers;
  const std::byte* symbols = nullptr;
  uint32_t local = 0;  ///< where its local memory begins in each lane's
  uint32_t depth = 0;
  uint32_t live = 0;  ///< lanes that have not returned
  Frame* parent = nullptr;
  const Instruction* back = nullptr;  ///< in the parent's code, after the call
  const Call* call = nullptr;
};

enum class Wait : uint8_t {
  ready,
  lanes,    ///< at a .sync instruction, for the other lanes it names
  warp,     ///< at a barrier that the whole warp must reach together
  barrier,  ///< arrived at a barrier of the block
};

/// Lanes that stand at one place.
struct Group {
  Frame* frame = nullptr;
  const Instruction* pc = nullptr;
  uint32_t mask = 0;
  Wait wait = Wait::ready;
  const Instruction* at = nullptr;  ///< what it waits at
  uint32_t members = 0;             ///< Wait::lanes: named by the instruction
  uint32_t barrier = 0;             ///< Wait::barrier: its number
  uint32_t fruitless = 0;           ///< slices in a row that ended in a poll that saw nothing new
  uint32_t passed_over = 0;         ///< slices that others got while it polled in vain
};

enum class Event : uint8_t { none, reselect, yield, blocked, fault };

/// What a poll returned last.
struct Poll {
  uint64_t key = 0;  ///< instruction, lanes and addresses
  uint64_t values = 0;
  uint64_t stores = 0;
};

/// An allocation as a warp remembers it.
struct Mapping {
  uint64_t begin = 0, end = 0;
  uint64_t delta = 0;  ///< host address minus device address
  uint64_t generation = 0;
};

/// Host addresses of the lanes' accesses.
using Addresses = std::array<uint64_t, kLanes>;

struct Warp {
  // The running group, as instructions see it.
  std::byte* bases[4] = {};
  uint32_t active = 0;  ///< its lanes
  uint32_t mask = 0;    ///< those whose guard is true
  const Instruction* pc = nullptr;
  Frame* frame = nullptr;
  Event event = Event::none;
  bool fruitless = false;  ///< the slice ended in a poll that saw nothing new
  bool hopeful = false;    ///< but other lanes of the warp may soon run, whom it waits for perhaps
  uint64_t stores = 0;     ///< stores so far
  uint32_t carry = 0;      ///< of each lane, set by .cc

  Launch* launch = nullptr;
  Block* block = nullptr;
  uint32_t index = 0;  ///< in its block
  uint32_t live = 0;   ///< lanes that have not ended
  std::vector<Group> groups;
  size_t current = 0;
  std::vector<std::unique_ptr<Frame>> frames, spare_frames;
  std::vector<std::byte> local;
  uint32_t local_stride = 0;
  std::array<Poll, 16> polls;
  std::array<Mapping, 8> mappings;
  uint64_t random = 0;

  template <class T>
  T* at(Slot slot) {
    return reinterpret_cast<T*>(bases[slot >> 30] + (slot & 0x3fffffff));
  }
  /// The allocation that the instruction, or one that shares its place, met last.
  Mapping& mapping_of(const Instruction& in) { return mappings[(reinterpret_cast<uintptr_t>(&in) >> 7) % mappings.size()]; }
  Slot entry(const Instruction& in, unsigned i) const { return frame->code->lists[in.list + i]; }

  void begin(const Code& code, uint32_t lanes);
  /// Runs about `budget` instructions. False: nothing can run before others do something.
  bool run(int budget);
  /// The rest of the program is wrong: ends the launch. `lane` may be kLanes for the whole group.
  void fault(const Instruction& in, unsigned lane, const std::string& what);
  uint32_t next_random();

  /// Host addresses of an access of `bytes` bytes a lane, checked; false: there was a fault.
  bool resolve(const Instruction& in, uint32_t bytes, Addresses& to);

  /// A polling load or atomic has returned `values` (a hash) from `addresses`: ends the slice where nothing is new.
  void polled(const Instruction& in, const Addresses& addresses, uint64_t values);

  Frame* enter(const Code& code, Frame* parent, uint32_t lanes);
  void leave(Frame* frame, uint32_t lanes);
  void split(uint32_t lanes, const Instruction* pc);
  void end_lanes(uint32_t lanes);
  void load_group();

 private:
  bool resolve_fast(const Instruction& in, uint32_t bytes, uint64_t offset, Addresses& to);
  bool select();
  void merge();
  size_t choose();
  bool complete_exchanges();
  bool converge();
};

struct Barrier {
  uint32_t arrived = 0, expected = 0;
  uint32_t count = 0;  ///< of a reduction: true predicates
};

struct Block {
  Launch* launch = nullptr;
  std::array<uint32_t, 3> index{};
  uint32_t number = 0;
  std::unique_ptr<std::byte[]> shared;
  std::vector<std::unique_ptr<Warp>> warps;
  std::array<Barrier, 16> barriers;
  uint32_t threads = 0;
};

/// One running grid.
struct Launch {
  const Grid* grid = nullptr;
  const Module::Parts* module = nullptr;
  Memory* memory = nullptr;
  Options options;
  std::vector<std::byte> parameters;
  uint32_t shared_bytes = 0;
  std::vector<std::unique_ptr<Block>> blocks;
  std::vector<std::pair<const Code*, std::unique_ptr<std::byte[]>>> symbols;
  std::unique_ptr<Model> model;  ///< of weak memory and of races; nullptr: memory is sequential
  std::string error;
  uint64_t random = 0;

  Launch();
  ~Launch();
  const std::byte* symbols_of(const Code& code);
  /// "kernel k, block (0,0,0), thread (5,0,0)"; lane kLanes: the warp.
  std::string place_of(const Warp& warp, unsigned lane) const;
  /// "PTX line 12 (bar.sync 0;), k.cu:7".
  std::string place_of(const Code& code, const Instruction& in) const;
  std::string dump() const;
};

/// Arrives at a barrier of the block with the group's lanes in `mask`; `count` 0: all threads.
void arrive(Warp& warp, const Instruction& in, uint32_t mask, uint32_t id, uint32_t count, uint32_t true_lanes, bool waits);
/// The lanes of all `groups` (indices into warp.groups), which wait at the same kind of .sync instruction, exchange what they
/// have.
void meet(Warp& warp, const std::vector<size_t>& groups);

inline uint64_t mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdull;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ull;
  return x ^ x >> 33;
}

}  // namespace emu

// Lanes do not depend on each other: registers overlap entirely or not at all.
#if defined(__clang__)
#define EMU_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define EMU_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace emu {

/// Calls f(lane) for each lane of `mask`.
template <class F>
inline void lanes(uint32_t mask, F f) {
  if (mask == ~uint32_t{0}) {
    EMU_INDEPENDENT
    for (unsigned i = 0; i < kLanes; i++) f(i);
  } else {
    for (; mask != 0; mask &= mask - 1) f(static_cast<unsigned>(std::countr_zero(mask)));
  }
}

}  // namespace emu
