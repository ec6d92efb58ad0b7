// What a memory that is weaker than the host's, or that watches for races, sees of a launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "gpu-emulator/exec/warp.h"

namespace emu {

/// Takes the place of plain accesses to global and shared memory. One for each launch; only its thread calls it.
class Model {
 public:
  virtual ~Model() = default;
  /// Copies `bytes` bytes for each lane of the warp's mask to `to` + lane * bytes.
  virtual void load(Warp& warp, const Instruction& in, const Addresses& from, uint32_t bytes, std::byte* to) = 0;
  virtual void store(Warp& warp, const Instruction& in, const Addresses& to, uint32_t bytes, const std::byte* from) = 0;
  /// Around an atomic instruction, which itself acts on memory.
  virtual void before_atomic(Warp& warp, const Instruction& in, const Addresses& at, uint32_t bytes) = 0;
  virtual void after_atomic(Warp& warp, const Instruction& in, const Addresses& at, uint32_t bytes) = 0;
  virtual void fence(Warp& warp, Order order, Reach reach) = 0;
  /// The lanes have met at a barrier of their warp.
  virtual void warp_barrier(Warp& warp, uint32_t lanes) = 0;
  virtual void barrier_arrive(Warp& warp, uint32_t lanes, uint32_t barrier) = 0;
  /// A barrier is complete; those that wait there are about to go on.
  virtual void barrier_release(Block& block, uint32_t barrier) = 0;
  /// A slice of the warp has ended. True while stores of its block are under way: there is something to wait for.
  virtual bool after_slice(Warp& warp) = 0;
  /// All threads of the block have ended; its shared memory goes.
  virtual void end_block(Block& block) = 0;
};

/// Stores that wait and loads that are stale, as the launch's options say.
std::unique_ptr<Model> make_weak_model(Launch& launch);
/// Watches for races; accesses themselves are the `inner` model's, or the host's where there is none.
std::unique_ptr<Model> make_race_model(Launch& launch, std::unique_ptr<Model> inner);

/// The model that the launch's options ask for; nullptr: none.
std::unique_ptr<Model> make_model(Launch& launch);

}  // namespace emu
