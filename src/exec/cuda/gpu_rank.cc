#include "exec/cuda/gpu_rank.h"

#include <fmt/core.h>

#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace ronde::gpu {
namespace {

constexpr size_t kPoolChunk = size_t{1} << 20;

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

/// Several arrays that are uploaded as one piece of memory.
class Packing {
 public:
  /// Appends; returns where it lies from the start.
  template <class T>
  uint64_t add(const T* data, size_t count) {
    bytes_.resize((bytes_.size() + 15) / 16 * 16);
    const uint64_t at = bytes_.size();
    bytes_.resize(at + count * sizeof(T));
    if (count != 0) memcpy(bytes_.data() + at, data, count * sizeof(T));
    return at;
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

/// Which of a Program's peers it receives from.
std::vector<bool> read_peers(const ronde::Program& program, size_t peers) {
  std::vector<bool> reads(peers);
  for (const auto& lane : program.lanes) {
    for (const Move& move : lane) {
      for (uint32_t i = 0; i < move.in_count; ++i) reads[move.in_first + i] = true;
    }
  }
  return reads;
}

}  // namespace

Result<std::unique_ptr<GpuRank>> GpuRank::make(std::unique_ptr<Slab> slab) {
  const std::shared_ptr<const device::Gpu> gpu = slab->gpu().shared_from_this();
  std::unique_ptr<GpuRank> rank(new GpuRank(std::move(slab), gpu));
  const SlabShape& shape = rank->slab_->shape();
  const size_t ports = size_t{shape.ranks} * shape.links;
  RONDE_TRY(rank->kernels_, KernelSet::of(gpu));
  RONDE_TRY(rank->memory_, gpu->allocate(sizeof(Rank) + ports * sizeof(gpu::Port)));
  RONDE_TRY(rank->status_, gpu->allocate_pinned(sizeof(Status)));
  RONDE_TRY(rank->abort_word_, gpu->allocate_pinned(sizeof(uint32_t)));
  RONDE_TRY(rank->last, gpu->make_event());
  RONDE_TRY(rank->before, gpu->make_event());
  rank->ports_made_.resize(ports);
  RONDE_TRY(rank->room(0));  // allocating later may wait for what runs on the GPU
  Rank self{};
  self.abort = rank->abort_word_.address();
  self.status = rank->status_.address();
  self.slots = shape.slots;
  self.slot_bytes = static_cast<uint32_t>(sizeof(SlotHeader)) + shape.slot_capacity;
  RONDE_TRY(gpu->copy_in(rank->address(), bytes_of(self)));
  return rank;
}

bool GpuRank::drain(const std::function<std::optional<bool>(int peer)>& ended) {
  for (size_t index = 0; index < ports_made_.size(); ++index) {
    if (ports_made_[index] == 0) continue;
    const uint64_t at = address() + sizeof(Rank) + index * sizeof(gpu::Port);
    while (true) {
      gpu::Port port{};
      uint64_t head = 0;
      const bool read = gpu_->copy_out(std::as_writable_bytes(std::span(&port, 1)), at).ok() &&
                        gpu_->copy_out(std::as_writable_bytes(std::span(&head, 1)), port.out_head).ok();
      if (!read) return false;
      if (head >= port.out_next) break;
      const std::optional<bool> gone = ended(port.peer);
      if (gone == false) return false;
      if (gone == true) break;
      usleep(200);
    }
  }
  return true;
}

void GpuRank::abort() { __atomic_store_n(static_cast<uint32_t*>(abort_word_.host()), 1u, __ATOMIC_SEQ_CST); }  // pairs with the kernels' loads

Result<uint64_t> GpuRank::port(const ronde::Port& port, bool reads) {
  const size_t index = static_cast<size_t>(port.rank) * slab_->shape().links + static_cast<size_t>(port.link);
  const uint64_t at = address() + sizeof(Rank) + index * sizeof(gpu::Port);
  uint8_t& made = ports_made_[index];
  if (made == 2 || (made == 1 && !reads)) return at;
  RONDE_TRY(const LinkPlaces places, slab_->places(port.rank, port.link, reads));
  gpu::Port it{};
  it.in_tail = places.in_tail;
  it.in_head = places.in_head;
  it.in_slots = places.in_slots;
  it.out_entry = places.out_entry;
  it.out_base = places.out_base;
  it.out_head = places.out_head;
  it.peer = port.rank;
  it.link = port.link;
  // What is there already belongs to the kernels, but for the incoming queue, which none has used yet.
  const auto all = bytes_of(it);
  RONDE_TRY(gpu_->copy_in(at, made == 0 ? all : all.first(offsetof(gpu::Port, out_entry))));
  made = reads ? 2 : 1;
  return at;
}

Result<uint64_t> GpuRank::room(size_t bytes) {
  if (pool_.empty() || pool_used_ + bytes > pool_.back().bytes()) {
    RONDE_TRY(device::DeviceMemory more, gpu_->allocate(std::max(kPoolChunk, bytes)));
    pool_.push_back(std::move(more));
    pool_used_ = 0;
  }
  const uint64_t at = pool_.back().address() + pool_used_;
  pool_used_ += (bytes + 255) / 256 * 256;
  return at;
}

Result<uint64_t> GpuRank::scratch(size_t bytes) {
  if (bytes == 0) return uint64_t{0};
  if (scratch_.empty() || scratch_.back().bytes() < bytes) {
    const size_t grown = scratch_.empty() ? kPoolChunk : 2 * scratch_.back().bytes();  // so that all of them together are twice the last
    RONDE_TRY(device::DeviceMemory more, gpu_->allocate(std::max(grown, bytes)));
    scratch_.push_back(std::move(more));
  }
  return scratch_.back().address();
}

Result<uint64_t> GpuRank::parameters(size_t bytes) {
  constexpr size_t kLeast = size_t{1} << 16;
  const uint64_t ended = __atomic_load_n(&status().launches, __ATOMIC_ACQUIRE);  // pairs with the kernels' release
  for (auto& [launch, memory] : parameters_) {
    if (launch > ended || memory.bytes() < bytes) continue;
    launch = launches + 1;
    return memory.address();
  }
  RONDE_TRY(device::DeviceMemory more, gpu_->allocate(std::max(kLeast, 2 * bytes)));
  parameters_.emplace_back(launches + 1, std::move(more));
  return parameters_.back().second.address();
}

Result<Uploaded> GpuRank::make_programs(std::span<const ronde::Part> parts) {
  Uploaded made;
  Packing packing;
  std::vector<gpu::Program> programs(std::max<size_t>(1, parts.size()));  // of a call that moves nothing: one without lanes
  const uint64_t programs_at = packing.add(programs.data(), programs.size());
  std::vector<std::pair<uint64_t, std::vector<gpu::Lane>>> lanes_of(parts.size());
  for (size_t c = 0; c < parts.size(); ++c) {
    const BoundProgram& bound = *parts[c].bound;
    const std::vector<bool> reads = read_peers(*bound.program, bound.ports.size());
    std::vector<uint64_t> ports;
    for (size_t i = 0; i < bound.ports.size(); ++i) {
      RONDE_TRY(ports.emplace_back(), port(*bound.ports[i], reads[i]));
    }
    gpu::Program& program = programs[c];
    program.ports = packing.add(ports.data(), ports.size());
    program.lane_count = static_cast<uint32_t>(bound.program->lanes.size());
    program.blocks = bound.program->blocks;
    program.scratch_blocks = bound.program->scratch_blocks;
    for (const auto& moves : bound.program->lanes) {
      lanes_of[c].second.push_back({packing.add(moves.data(), moves.size()), static_cast<uint32_t>(moves.size()), 0});
      for (const Move& move : moves) program.most_operands = std::max(program.most_operands, move.in_count + move.out_count + 2u);
    }
    made.most_lanes = std::max(made.most_lanes, program.lane_count);
    made.most_operands = std::max(made.most_operands, program.most_operands);
    lanes_of[c].first = packing.add(lanes_of[c].second.data(), lanes_of[c].second.size());
  }
  // Places become addresses now that the whole is known.
  RONDE_TRY(const uint64_t base, room(packing.bytes().size()));
  std::vector<std::byte> bytes = packing.bytes();
  for (size_t c = 0; c < parts.size(); ++c) {
    auto& [at, lanes] = lanes_of[c];
    for (gpu::Lane& lane : lanes) lane.moves += base;
    if (!lanes.empty()) memcpy(bytes.data() + at, lanes.data(), lanes.size() * sizeof(gpu::Lane));
    programs[c].lanes = base + at;
    programs[c].ports += base;
  }
  memcpy(bytes.data() + programs_at, programs.data(), programs.size() * sizeof(gpu::Program));
  RONDE_TRY(gpu_->copy_in(base, bytes));
  made.programs = base + programs_at;
  return made;
}

Result<const Uploaded*> GpuRank::upload(const Work& work) {
  // A message's Program is named by its port, since the plan is made anew for each call; one without parts by nothing.
  std::pair<const void*, int> name{nullptr, 0};
  if (work.call.message()) {
    name = {work.parts.front().bound->ports.front(), work.call.coll == Coll::send ? 1 : 2};
  } else if (!work.parts.empty()) {
    name = {work.parts.front().bound, 0};
  }
  const auto known = uploaded_.find(name);
  if (known != uploaded_.end()) return &known->second;
  RONDE_TRY(Uploaded made, make_programs(work.parts));
  if (!work.call.message()) made.keeps = work.keeps;
  return &(uploaded_[name] = std::move(made));
}

}  // namespace ronde::gpu
