#include <fmt/core.h>
#include <algorithm>
#include <utility>

#include "plan/verify_impl.h"

namespace ronde::plan {
namespace {

/// What is beyond these is refused rather than proven slowly; 1024 ranks of every algorithm are well below.
constexpr uint64_t kMostEvents = uint64_t{1} << 25;
constexpr uint64_t kMostOperands = uint64_t{1} << 27;
constexpr uint64_t kMostCells = uint64_t{1} << 27;

void check_spec(const Subject& subject, Faults& faults) {
  const CollSpec& spec = subject.spec;
  if (spec.coll == Coll::send || spec.coll == Coll::recv) faults.add("messages have no Programs to verify");
  if (spec.ranks < 1) faults.add(fmt::format("{} ranks", spec.ranks));
  if (has_root(spec.coll) && (spec.root < 0 || spec.root >= spec.ranks)) {
    faults.add(fmt::format("root {} is none of the {} ranks", spec.root, spec.ranks));
  }
  if (spec.coll == Coll::all_to_all && subject.options.in_place) faults.add("AlltoAll has no in-place form");
  if (static_cast<int64_t>(subject.world.size()) != spec.ranks) {
    faults.add(fmt::format("{} Programs for {} ranks", subject.world.size(), spec.ranks));
  }
}

void check_program(const Subject& subject, size_t r, Faults& faults) {
  const Program& program = subject.world[r];
  if (program.rank != static_cast<int>(r)) faults.add(fmt::format("Program {} says that it is of rank {}", r, program.rank));
  if (program.channel != subject.world[0].channel) {
    faults.add(fmt::format("rank {} has channel {}, rank 0 has channel {}", r, program.channel, subject.world[0].channel));
  }
  if (program.blocks != subject.blocks()) {
    faults.add(fmt::format("rank {} has {} blocks, rank 0 has {}", r, program.blocks, subject.blocks()));
  }
  for (const Peer& peer : program.peers) {
    if (peer.rank < 0 || peer.rank >= subject.spec.ranks) {
      faults.add(fmt::format("rank {} has a peer {}, which is none of the {} ranks", r, peer.rank, subject.spec.ranks));
    }
    if (peer.link >= kMaxLinks) faults.add(fmt::format("rank {} uses link {} of {}", r, peer.link, kMaxLinks));
  }
}

class MoveCheck {
 public:
  MoveCheck(const Subject& subject, const Program& program, Faults& faults)
      : subject_(subject), program_(program), faults_(faults) {}

  void run(uint32_t lane, uint32_t index) {
    lane_ = lane;
    index_ = index;
    const Move& m = program_.lanes[lane][index];
    peers("in", m.in_first, m.in_count);
    peers("out", m.out_first, m.out_count);
    if (m.n_blocks == 0) fault("covers no block");
    if (m.src == Buf::none && m.in_count == 0) fault("has neither arrivals nor src");
    if (m.dst == Buf::none && m.out_count == 0) fault("has neither dst nor peers to send to");
    if (m.src == Buf::none && (m.src_at != 0 || m.src_block != 0)) fault("places a src that it does not have");
    if (m.dst == Buf::none && m.dst_block != 0) fault("places a dst that it does not have");
    if (m.src_at > m.in_count) fault(fmt::format("has its src at {} of {} arrivals", m.src_at, m.in_count));
    if (m.flags & ~(kMoveNoLend | kMoveFinal)) fault(fmt::format("has unknown flags {}", m.flags));
    if ((m.flags & kMoveFinal) && !has_reduction(subject_.spec.coll)) fault("is Final, but nothing is reduced");
    if (m.dst == Buf::input && !subject_.options.in_place) fault("writes its input");
    operand("src", m.src, m.src_block, m.n_blocks);
    operand("dst", m.dst, m.dst_block, m.n_blocks);
    if (m.dst == Buf::input && subject_.options.in_place) operand("dst", Buf::output, m.dst_block, m.n_blocks);
    if (shifted(m)) fault("reads and writes overlapping ranges of blocks");
  }

 private:
  void fault(const std::string& what) { faults_.add(place(program_.rank, lane_, index_) + " " + what); }

  void peers(const char* side, uint32_t first, uint16_t count) {
    if (uint64_t{first} + count > program_.peers.size()) {
      return fault(fmt::format("has {} peers {}..{}, but the table ends at {}", side, first, uint64_t{first} + count,
                               program_.peers.size()));
    }
    if (count < 2) return;
    const auto before = [](const Peer& a, const Peer& b) { return std::pair(a.rank, a.link) < std::pair(b.rank, b.link); };
    std::vector<Peer> list(program_.peers.begin() + first, program_.peers.begin() + first + count);
    std::sort(list.begin(), list.end(), before);
    const auto twice = std::adjacent_find(list.begin(), list.end());
    if (twice != list.end()) fault(fmt::format("names rank {} twice among its {} peers", twice->rank, side));
  }

  void operand(const char* side, Buf buf, uint32_t first, uint32_t count) {
    if (buf == Buf::none) return;
    if (buf > Buf::scratch) return fault(fmt::format("has an unknown buffer {} as {}", static_cast<int>(buf), side));
    const uint64_t blocks = buf == Buf::scratch ? program_.scratch_blocks : program_.blocks;
    const uint64_t end = uint64_t{first} + count;
    if (end > blocks) return fault(fmt::format("has blocks {}..{} as {}, but there are {}", first, end, side, blocks));
    if (buf == Buf::scratch) return;
    for (uint32_t b = first; b < end; ++b) {
      const bool there = buf == Buf::input ? has_input(subject_, program_.rank, b) : has_output(subject_, program_.rank, b);
      if (!there) {
        return fault(fmt::format("has block {} of {} as {}, which rank {} does not have", b,
                                 buf == Buf::input ? "input" : "output", side, program_.rank));
      }
    }
  }

  /// Blocks one after the other and all at once would differ.
  bool shifted(const Move& m) const {
    const auto memory = [this](Buf buf) { return buf == Buf::input && subject_.options.in_place ? Buf::output : buf; };
    if (m.src == Buf::none || memory(m.src) != memory(m.dst) || m.src_block == m.dst_block) return false;
    const uint32_t low = m.src_block < m.dst_block ? m.src_block : m.dst_block;
    const uint32_t high = m.src_block < m.dst_block ? m.dst_block : m.src_block;
    return high - low < m.n_blocks;
  }

  const Subject& subject_;
  const Program& program_;
  Faults& faults_;
  uint32_t lane_ = 0;
  uint32_t index_ = 0;
};

void check_size(const Subject& subject, Faults& faults) {
  uint64_t events = 0;
  uint64_t operands = 0;
  uint64_t cells = 0;
  for (const Program& program : subject.world) {
    cells += 2 * uint64_t{program.blocks} + program.scratch_blocks;
    for (const auto& lane : program.lanes) {
      for (const Move& m : lane) {
        events += m.n_blocks;
        operands += uint64_t{m.n_blocks} * (uint64_t{m.in_count} + m.out_count);
      }
    }
  }
  if (events > kMostEvents || operands > kMostOperands || cells > kMostCells) {
    faults.add(fmt::format("too large to prove: {} Moves of one block (at most {}), {} operands ({}), {} blocks in memory ({})",
                           events, kMostEvents, operands, kMostOperands, cells, kMostCells));
  }
}

}  // namespace

bool has_input(const Subject& subject, int rank, uint32_t block) {
  if (block >= subject.blocks()) return false;
  switch (subject.spec.coll) {
    case Coll::broadcast:
    case Coll::scatter:
      return rank == subject.spec.root;
    case Coll::all_gather:
    case Coll::gather:
      return static_cast<int64_t>(block) == rank;
    default:
      return true;
  }
}

bool has_output(const Subject& subject, int rank, uint32_t block) {
  if (block >= subject.blocks()) return false;
  switch (subject.spec.coll) {
    case Coll::reduce:
    case Coll::gather:
      return rank == subject.spec.root;
    case Coll::reduce_scatter:
    case Coll::scatter:
      return static_cast<int64_t>(block) == rank;
    default:
      return true;
  }
}

void check_shape(const Subject& subject, Faults& faults) {
  check_spec(subject, faults);
  if (faults.any()) return;
  const uint32_t blocks = subject.blocks();
  if (blocks == 0) faults.add("there are no blocks");
  if (counts_per_rank(subject.spec.coll) && static_cast<int64_t>(blocks) != subject.spec.ranks) {
    faults.add(
        fmt::format("{} has a block for each of {} ranks, not {}", name_of(subject.spec.coll), subject.spec.ranks, blocks));
  }
  check_size(subject, faults);
  for (size_t r = 0; r < subject.world.size(); ++r) check_program(subject, r, faults);
  if (faults.any()) return;
  for (const Program& program : subject.world) {
    MoveCheck check(subject, program, faults);
    for (uint32_t lane = 0; lane < program.lanes.size(); ++lane) {
      for (uint32_t m = 0; m < program.lanes[lane].size(); ++m) check.run(lane, m);
    }
  }
}

}  // namespace ronde::plan
