#include "transport/cuda/slab.h"

#include <fmt/core.h>

#include <cstring>
#include <span>

#include "base/lists.h"

namespace ronde::gpu {
namespace {

constexpr uint64_t kLine = 64;
constexpr uint64_t kQueueHead = 128;  ///< bytes before a queue's first slot: its tail, alone on its cache lines (kernels/cuda/abi.h)
constexpr uint64_t kSlotHead = 64;    ///< bytes of a slot before its data (kernels/cuda/abi.h)
constexpr uint64_t kUnit = 4096;

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

/// What a rank tells the others of its slab.
struct Told {
  Id process{};
  int32_t code = 0;     ///< of what failed; 0: nothing
  int32_t ordinal = 0;  ///< of the GPU, in the process
  uint64_t base = 0;
  cu::CUipcMemHandle handle{};
  char bus_id[16] = "";
  char problem[256] = "";
};

/// Gathers what all ranks tell. Where one has a problem it is an error on all.
Result<std::vector<Told>> gather(Bootstrap& bootstrap, Told mine, const Result<>& own) {
  if (!own.ok()) {
    mine.code = static_cast<int32_t>(own.code());
    strncpy(mine.problem, own.error().what.c_str(), sizeof mine.problem - 1);
  }
  std::vector<Told> all(static_cast<size_t>(bootstrap.size()));
  all[static_cast<size_t>(bootstrap.rank())] = mine;
  RONDE_TRY(bootstrap.all_gather(std::as_writable_bytes(std::span(all))));
  if (!own.ok()) return own.error();
  for (size_t rank = 0; rank < all.size(); ++rank) {
    all[rank].problem[sizeof all[rank].problem - 1] = '\0';
    if (all[rank].code != 0) return fail(Code::remote_error, fmt::format("rank {} failed: {}", rank, all[rank].problem), Scope::communicator);
  }
  return all;
}

}  // namespace

Slab::Slab(std::shared_ptr<const device::Gpu> gpu, const SlabShape& shape, device::DeviceMemory memory, int rank)
    : gpu_(std::move(gpu)), shape_(shape), memory_(std::move(memory)), rank_(rank), peers_(shape.ranks) {}

Slab::~Slab() {
  const device::Current current(*gpu_);
  for (const Peer& peer : peers_) {
    if (peer.opened) gpu_->driver().cuIpcCloseMemHandle(peer.base);
  }
}

uint64_t Slab::head_at(int peer, int link) const {
  return round_up(uint64_t{shape_.ranks} * shape_.links * sizeof(uint64_t), kLine) + index(peer, link) * kLine;
}
uint64_t Slab::heap_at() const { return round_up(head_at(static_cast<int>(shape_.ranks), 0), kUnit); }

Result<std::unique_ptr<Slab>> Slab::make(Bootstrap& bootstrap, std::shared_ptr<const device::Gpu> gpu, const SlabShape& shape, size_t heap) {
  const int rank = bootstrap.rank();
  const Slab measure(gpu, shape, {}, rank);
  std::unique_ptr<Slab> slab;
  Told mine;
  const auto prepare = [&]() -> Result<> {
    RONDE_TRY(device::DeviceMemory memory, gpu->allocate(measure.heap_at() + heap));
    RONDE_TRY(gpu->clear(memory.address(), measure.heap_at()));
    RONDE_TRY(const std::shared_ptr<Process> process, Process::current());
    mine.process = process->id();
    mine.ordinal = gpu->ordinal();
    mine.base = memory.address();
    strncpy(mine.bus_id, gpu->bus_id().c_str(), sizeof mine.bus_id - 1);
    const device::Current current(*gpu);
    slab.reset(new Slab(gpu, shape, std::move(memory), rank));
    return device::check(gpu->driver().cuIpcGetMemHandle(&mine.handle, mine.base), [&] { return fmt::format("sharing memory of {}", gpu->name()); });
  };
  RONDE_TRY(const std::vector<Told> all, gather(bootstrap, mine, prepare()));
  Result<> opened;
  for (size_t peer = 0; peer < all.size() && opened.ok(); ++peer) opened = slab->open(static_cast<int>(peer), &all[peer], all[static_cast<size_t>(rank)].process);
  RONDE_TRY(gather(bootstrap, all[static_cast<size_t>(rank)], opened));
  return slab;
}

Result<> Slab::open(int number, const void* told, const Id& process) {
  const Told& theirs = *static_cast<const Told*>(told);
  Peer& peer = peers_[static_cast<size_t>(number)];
  if (theirs.process == process) {
    RONDE_TRY(peer.gpu, device::Gpu::open(theirs.ordinal));
    RONDE_TRY(const bool reached, gpu_->reach(*peer.gpu));
    if (!reached) {
      return fail(Code::invalid_usage, fmt::format("rank {} on {} cannot reach the memory of rank {} on {}: the driver allows no peer access between the two", rank_,
                                                   gpu_->name(), number, peer.gpu->name()), Scope::communicator);
    }
    peer.base = theirs.base;
    peer.way = peer.gpu == gpu_ ? "the same GPU" : "peer memory";
    return {};
  }
  const device::Current current(*gpu_);
  cu::CUdeviceptr address = 0;
  RONDE_TRY(device::check(gpu_->driver().cuIpcOpenMemHandle_v2(&address, theirs.handle, cu::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), [&] {
    return fmt::format("rank {} on {} opens the memory of rank {} on GPU {}", rank_, gpu_->name(), number, theirs.bus_id);
  }));
  peer.base = address;
  peer.opened = true;
  peer.way = "peer memory of another process";
  return {};
}

/// The place of the queue from `writer`, made if need be. With mutex_ held.
Result<uint64_t> Slab::queue_from(int writer, int link) {
  const auto known = queues_.find(index(writer, link));
  if (known != queues_.end()) return known->second;
  const uint64_t bytes = round_up(kQueueHead + uint64_t{shape_.slots} * (kSlotHead + shape_.slot_capacity), kUnit);
  const uint64_t at = heap_at() + heap_used_;
  if (at + bytes > memory_.bytes()) {
    return fail(Code::system_error, fmt::format("connecting rank {} to rank {}: the {} bytes of {} for connections are used up, at {} bytes each; set "
                                                "RONDE_BUFFSIZE smaller or use fewer channels (RONDE_MAX_NCHANNELS)", writer, rank_, memory_.bytes(), gpu_->name(),
                                                bytes), Scope::communicator);
  }
  RONDE_TRY(gpu_->clear(memory_.address() + at, kQueueHead));  // done before the table tells the writer
  RONDE_TRY(gpu_->copy_in(memory_.address() + entry_at(writer, link), std::as_bytes(std::span(&at, 1))));
  heap_used_ += bytes;
  queues_[index(writer, link)] = at;
  return at;
}

Result<LinkPlaces> Slab::places(int peer, int link, bool reads) {
  const std::lock_guard lock(mutex_);
  const uint64_t theirs = peers_[static_cast<size_t>(peer)].base;
  LinkPlaces places;
  places.out_base = theirs;
  places.out_entry = theirs + entry_at(rank_, link);
  places.out_head = memory_.address() + head_at(peer, link);
  const auto known = queues_.find(index(peer, link));
  if (!reads && known == queues_.end()) return places;
  RONDE_TRY(const uint64_t at, queue_from(peer, link));
  places.in_tail = memory_.address() + at;
  places.in_slots = places.in_tail + kQueueHead;
  places.in_head = theirs + head_at(rank_, link);
  return places;
}

}  // namespace ronde::gpu
