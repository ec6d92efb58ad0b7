#include "transport/arena.h"

#include <algorithm>

#include <fmt/core.h>

namespace ronde {

struct ArenaHeader {
  uint64_t magic;
  ArenaShape shape;
  std::atomic<uint32_t> closed;                 ///< owner: leaves in order
  alignas(64) std::atomic<uint64_t> heap_used;  ///< bytes; writers, by compare-exchange
};

namespace {

constexpr uint64_t kMagic = 0x61726e6564726f31u;
constexpr size_t round_up(size_t size, size_t unit) { return (size + unit - 1) / unit * unit; }

// header | control block with wait set | table: writers x links offsets | heap
constexpr size_t kControlAt = round_up(sizeof(ArenaHeader), 64);
size_t table_at(const ArenaShape& s) { return kControlAt + control_bytes(static_cast<int>(s.ranks)); }
size_t heap_at(const ArenaShape& s, size_t connections) { return round_up(table_at(s) + connections * sizeof(uint64_t), page_size()); }
size_t stride(const ArenaShape& s) { return round_up(fifo_bytes(s.slots, s.slot_capacity), 64); }
size_t arena_bytes(const ArenaShape& s, size_t connections) { return round_up(heap_at(s, connections) + connections * stride(s), page_size()); }

}  // namespace

ArenaShape arena_shape(const Config& config, int ranks, int links) {
  constexpr size_t kFloor = 4096;
  const auto slots = static_cast<size_t>(config.integer(Setting::slots));
  const size_t wanted = config.bytes(Setting::buffsize) / slots;
  size_t room = kArenaRoom / (static_cast<size_t>(ranks) * static_cast<size_t>(links));
  if (!config.is_set(Setting::buffsize)) room = std::min(room, kConnectionRoom);
  const size_t overhead = sizeof(FifoHeader) + slots * sizeof(Slot);
  const size_t fits = room > overhead ? (room - overhead) / slots : 0;
  const size_t capacity = std::max<size_t>(64, std::min(wanted, std::max(fits, kFloor)) / 64 * 64);
  return ArenaShape{static_cast<uint32_t>(ranks), static_cast<uint32_t>(links), static_cast<uint32_t>(slots),
                    static_cast<uint32_t>(capacity)};
}

Result<std::shared_ptr<Arena>> Arena::create(const ArenaShape& shape, Writers writers, bool shareable) {
  const size_t bytes = arena_bytes(shape, size_t{writers.count} * shape.links);
  UniqueFd fd;
  Mapping memory;
  if (shareable) {
    RONDE_TRY(fd, make_memfd("ronde-arena", bytes));
    RONDE_TRY(memory, Mapping::shared(fd.get(), bytes));
  } else {
    RONDE_TRY(memory, Mapping::anonymous(bytes));
  }
  std::shared_ptr<Arena> arena(new Arena(shape, writers, std::move(memory)));
  RONDE_TRY(commit_pages(arena->memory_.data(), arena->heap()));
  arena->fd_ = std::move(fd);
  arena->header().magic = kMagic;
  arena->header().shape = shape;
  return arena;
}

Result<std::shared_ptr<Arena>> Arena::create(const ArenaShape& shape, bool shareable) { return create(shape, all_ranks(shape), shareable); }

Result<std::shared_ptr<Arena>> Arena::mirror(const ArenaShape& shape, int writer) { return create(shape, {writer, 1}, false); }

Result<std::shared_ptr<Arena>> Arena::open(int fd, const ArenaShape& shape) {
  const Writers writers = all_ranks(shape);
  RONDE_TRY(Mapping memory, Mapping::shared(fd, arena_bytes(shape, size_t{writers.count} * shape.links)));
  std::shared_ptr<Arena> arena(new Arena(shape, writers, std::move(memory)));
  if (arena->header().magic != kMagic || arena->header().shape != shape) {
    return fail(Code::internal_error,
                "mapping a peer's arena: what the peer has sent is not laid out as an arena of this communicator");
  }
  return arena;
}

size_t Arena::heap() const { return heap_at(shape_, size_t{writers_.count} * shape_.links); }
ArenaHeader& Arena::header() const { return *reinterpret_cast<ArenaHeader*>(memory_.data()); }
ControlBlock& Arena::control() const { return *reinterpret_cast<ControlBlock*>(memory_.data() + kControlAt); }
void Arena::mark_closed() { header().closed.store(1, std::memory_order_seq_cst); }
bool Arena::closed() const { return header().closed.load(std::memory_order_seq_cst) != 0; }

std::atomic<uint64_t>& Arena::entry(int writer, int link) const {
  auto* table = reinterpret_cast<std::atomic<uint64_t>*>(memory_.data() + table_at(shape_));
  return table[static_cast<size_t>(writer - writers_.first) * shape_.links + static_cast<size_t>(link)];
}

FifoView Arena::view_at(uint64_t offset) const {
  return view_fifo(memory_.data() + offset, shape_.slots, shape_.slot_capacity);
}

FifoView Arena::find_fifo(int writer, int link) const {
  const uint64_t offset = entry(writer, link).load(std::memory_order_acquire);  // pairs with the release in make_fifo
  return offset == 0 ? FifoView{} : view_at(offset);
}

Result<FifoView> Arena::make_fifo(int writer, int link) {
  if (FifoView found = find_fifo(writer, link)) return found;
  const size_t bytes = stride(shape_);
  std::atomic<uint64_t>& used = header().heap_used;
  uint64_t start = used.load(std::memory_order_relaxed);  // only a number to be had; the table's release publishes what is in it
  do {
    if (heap() + start + bytes > memory_.size()) {
      return fail(Code::internal_error,
                  fmt::format("making a connection: the arena's heap of {} bytes is used up", memory_.size() - heap()),
                  Scope::communicator);
    }
  } while (!used.compare_exchange_weak(start, start + bytes, std::memory_order_relaxed));
  const uint64_t offset = heap() + start;
  if (auto done = commit_pages(memory_.data() + offset, bytes); !done) {
    // Given back if nobody has taken more since; otherwise the next attempt takes another place, which the heap has as long as
    // writers fail no more often than connections are left unused.
    uint64_t end = start + bytes;
    used.compare_exchange_strong(end, start, std::memory_order_relaxed);
    return std::move(done).error();
  }
  entry(writer, link).store(offset, std::memory_order_release);  // pairs with the acquire in find_fifo
  return view_at(offset);
}

}  // namespace ronde
