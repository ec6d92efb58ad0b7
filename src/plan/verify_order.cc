// Which accesses to memory may meet. An event touches local blocks, and, where the slots that it reads lend, blocks of the
// sender. Each write has to come after everything that touched the block before it, and each read after the last write, by lanes
// and messages. Those pairs are collected first and then answered together, by vector clocks that count only the lanes that some
// pair asks for.
#include <fmt/core.h>
#include <algorithm>

#include "plan/verify_impl.h"

namespace ronde::plan {
namespace {

constexpr uint32_t kNever = UINT32_MAX;

/// `before` has to come before `after`, since one of them writes `cell`. `lender`: the event whose loan `before` reads, or
/// kNever.
struct Pair {
  uint32_t before = 0;
  uint32_t after = 0;
  uint32_t lender = kNever;
  size_t cell = 0;
};

class Accesses {
 public:
  Accesses(const Net& net, const Trace& trace, const Cells& cells)
      : net_(net), trace_(trace), cells_(cells), history_(cells.count()) {}

  std::vector<Pair> collect() {
    for (uint32_t id = 0; id < trace_.events.size(); ++id) {
      const Event& event = trace_.events[id];
      const Move& m = *event.move;
      if (net_.subject.options.lending) {
        for (uint32_t i = 0; i < m.in_count; ++i) borrow(id, trace_.arrivals[event.arrivals + i]);
      }
      each_cell(event, m.src, m.src_block, [&](size_t cell) { read(id, cell, kNever); });
      each_cell(event, m.dst, m.dst_block, [&](size_t cell) { write(id, cell); });
    }
    return std::move(pairs_);
  }

 private:
  struct Read {
    uint32_t event = 0;
    uint32_t lender = kNever;
    uint32_t next = kNever;
  };
  struct History {
    uint32_t last_write = kNever;
    uint32_t reads = kNever;  ///< since then: a list
  };

  template <class Do>
  void each_cell(const Event& event, Buf buf, uint32_t first, const Do& act) const {
    if (buf == Buf::none) return;
    const int rank = net_.lanes[event.lane].rank;
    for (uint32_t i = 0; i < event.width; ++i) act(cells_.of(rank, buf, first + event.block + i));
  }

  /// Reads what `sender` lent: its dst where it has one, the src that it passes on as it is.
  void borrow(uint32_t id, uint32_t sender) {
    const Event& event = trace_.events[sender];
    const Move& m = *event.move;
    if (m.flags & kMoveNoLend) return;
    const auto lent = [&](size_t cell) {
      const uint32_t last = history_[cell].last_write;
      if (last != kNever && last > sender) return pairs_.push_back({id, last, sender, cell});  // too late: never in order
      read(id, cell, sender);
    };
    each_cell(event, m.dst, m.dst_block, lent);
    if (m.in_count == 0) each_cell(event, m.src, m.src_block, lent);
  }

  void read(uint32_t id, size_t cell, uint32_t lender) {
    History& h = history_[cell];
    if (lender == kNever) after(h.last_write, id, kNever, cell);
    if (h.reads != kNever && reads_[h.reads].event == id) return;
    reads_.push_back({id, lender, h.reads});
    h.reads = static_cast<uint32_t>(reads_.size() - 1);
  }

  void write(uint32_t id, size_t cell) {
    History& h = history_[cell];
    after(h.last_write, id, kNever, cell);
    for (uint32_t i = h.reads; i != kNever; i = reads_[i].next) after(reads_[i].event, id, reads_[i].lender, cell);
    h.last_write = id;
    h.reads = kNever;
  }

  void after(uint32_t before, uint32_t id, uint32_t lender, size_t cell) {
    if (before == kNever || trace_.events[before].lane == trace_.events[id].lane) return;
    pairs_.push_back({before, id, lender, cell});
  }

  const Net& net_;
  const Trace& trace_;
  const Cells& cells_;
  std::vector<History> history_;
  std::vector<Read> reads_;
  std::vector<Pair> pairs_;
};

/// Vector clocks over some lanes, for all events: how many events of each lane come before (or are) this one. The same memory serves one
/// set of lanes after the other.
class Clocks {
 public:
  static constexpr uint32_t kGroup = 16;  ///< a row is one cache line or several; a fixed inner loop lets the compiler use vectors

  Clocks(const Net& net, const Trace& trace) : net_(net), trace_(trace) {}

  void count(std::span<const uint32_t> lanes) {
    width_ = (static_cast<uint32_t>(lanes.size()) + kGroup - 1) / kGroup * kGroup;
    column_.assign(net_.lanes.size(), kNever);
    previous_.assign(net_.lanes.size(), kNever);
    clock_.resize(size_t{width_} * trace_.events.size());
    for (uint32_t i = 0; i < lanes.size(); ++i) column_[lanes[i]] = i;
    for (uint32_t id = 0; id < trace_.events.size(); ++id) {
      const Event& event = trace_.events[id];
      int32_t* mine = row(id);
      uint32_t& previous = previous_[event.lane];
      if (previous == kNever) std::fill_n(mine, width_, 0);
      if (previous != kNever) std::copy_n(row(previous), width_, mine);
      for (uint32_t i = 0; i < event.move->in_count; ++i) join(mine, row(trace_.arrivals[event.arrivals + i]));
      if (column_[event.lane] != kNever) mine[column_[event.lane]] = static_cast<int32_t>(event.nth) + 1;
      previous = id;
    }
  }

  bool counts(uint32_t lane) const { return column_[lane] != kNever; }
  bool ordered(const Event& before, uint32_t after) { return row(after)[column_[before.lane]] > static_cast<int32_t>(before.nth); }

 private:
  int32_t* row(uint32_t id) { return clock_.data() + size_t{width_} * id; }
  void join(int32_t* into, const int32_t* from) const {
    for (uint32_t i = 0; i < width_; i += kGroup) {
      for (uint32_t k = 0; k < kGroup; ++k) into[i + k] = std::max(into[i + k], from[i + k]);
    }
  }

  const Net& net_;
  const Trace& trace_;
  uint32_t width_ = 0;
  std::vector<uint32_t> column_;
  std::vector<uint32_t> previous_;  ///< by lane: its last event
  std::vector<int32_t> clock_;      ///< signed: processors compare those by vectors more readily, and events are far fewer
};

std::string words(const Net& net, const Trace& trace, const Cells& cells, const Pair& pair) {
  const std::string before = place(net, trace.events[pair.before]);
  const std::string after = place(net, trace.events[pair.after]);
  const std::string block = cells.name(pair.cell);
  if (pair.lender != kNever) {
    return fmt::format("{} overwrites {} while {} may still read it, lent by {}", after, block, before,
                       place(net, trace.events[pair.lender]));
  }
  return fmt::format("{} and {} touch {} in no certain order, and one of them writes it", before, after, block);
}

}  // namespace

void check_order(const Net& net, const Trace& trace, const Cells& cells, Faults& faults) {
  const std::vector<Pair> pairs = Accesses(net, trace, cells).collect();
  std::vector<uint32_t> lanes;
  for (const Pair& pair : pairs) lanes.push_back(trace.events[pair.before].lane);
  std::sort(lanes.begin(), lanes.end());
  lanes.erase(std::unique(lanes.begin(), lanes.end()), lanes.end());
  constexpr size_t kMostClocks = size_t{1} << 20;  // entries in memory at once
  const size_t batch = std::max<size_t>(Clocks::kGroup, kMostClocks / std::max<size_t>(1, trace.events.size()));
  Clocks clocks(net, trace);
  for (size_t first = 0; first < lanes.size(); first += batch) {
    clocks.count(std::span(lanes).subspan(first, std::min(batch, lanes.size() - first)));
    for (const Pair& pair : pairs) {
      const Event& before = trace.events[pair.before];
      if (clocks.counts(before.lane) && !clocks.ordered(before, pair.after)) faults.add(words(net, trace, cells, pair));
    }
  }
}

Cells::Cells(const Subject& subject) : subject_(subject), base_{0} {
  for (const Program& program : subject.world)
    base_.push_back(base_.back() + 2 * size_t{program.blocks} + program.scratch_blocks);
}

size_t Cells::of(int rank, Buf buf, uint32_t block) const {
  const size_t blocks = subject_.blocks();
  const size_t base = base_[static_cast<size_t>(rank)];
  if (buf == Buf::scratch) return base + 2 * blocks + block;
  return base + (buf == Buf::output || subject_.options.in_place ? blocks : 0) + block;
}

std::string Cells::name(size_t cell) const {
  const size_t rank = static_cast<size_t>(std::upper_bound(base_.begin(), base_.end(), cell) - base_.begin()) - 1;
  const size_t at = cell - base_[rank];
  const size_t blocks = subject_.blocks();
  if (at >= 2 * blocks) return fmt::format("scratch block {} of rank {}", at - 2 * blocks, rank);
  const char* buffer = subject_.options.in_place ? "block" : at < blocks ? "input block" : "output block";
  return fmt::format("{} {} of rank {}", buffer, at % blocks, rank);
}

}  // namespace ronde::plan
