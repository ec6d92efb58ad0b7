#include "plan_support.h"

#include <fmt/core.h>
#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <random>
#include <stdexcept>
#include <tuple>

namespace ronde::test {
namespace {

using Number = uint64_t;
constexpr Number kFinalFactor = 0x9e3779b97f4a7c15u;

/// A number for anything named by four small ones.
Number hash(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  Number x = (a << 48) ^ (b << 32) ^ (c << 16) ^ d;
  for (int i = 0; i < 3; ++i) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
  }
  return x | 1;
}

struct Slot {
  std::vector<Number> bytes;        ///< where it carries them
  std::vector<const Number*> loan;  ///< where it lends
};

struct LaneState {
  int rank;
  const std::vector<Move>* moves;
  int slice = 0;
  size_t move = 0;
  uint32_t block = 0;
};

class Player {
 public:
  Player(const CollSpec& spec, const std::vector<Program>& world, const Play& how)
      : spec_(spec), world_(world), how_(how), random_(how.seed), reduces_(has_reduction(spec.coll)) {
    for (const Program& program : world) {
      const size_t blocks = program.blocks;
      auto& memory = memory_.emplace_back();
      for (Buf buf : {Buf::none, Buf::input, Buf::output, Buf::scratch}) {
        std::vector<Number>& cells = memory.emplace_back((buf == Buf::scratch ? program.scratch_blocks : blocks) * slices());
        for (Number& cell : cells) cell = random_();  // what nobody has written is different every time
      }
      for (uint32_t b = 0; b < blocks; ++b) {
        for (size_t s = 0; s < slices(); ++s) {
          if (holds_input(program.rank, b)) cell(program.rank, Buf::input, b, s) = user(program.rank, b, s);
        }
      }
      for (const auto& lane : program.lanes) lanes_.push_back({program.rank, &lane});
    }
  }

  std::string run() {
    std::vector<size_t> order(lanes_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const bool fickle = random_() % 2 == 0;  // a new order for each event, or one for all: the latter starves some lanes for long
    std::shuffle(order.begin(), order.end(), random_);
    for (bool moved = true; moved;) {
      moved = false;
      if (fickle) std::shuffle(order.begin(), order.end(), random_);
      for (size_t lane : order) {
        if (!ready(lanes_[lane])) continue;
        fire(lanes_[lane]);
        moved = true;
        break;
      }
    }
    for (const LaneState& lane : lanes_) {
      if (!ended(lane)) return fmt::format("rank {} hangs in slice {} move {}", lane.rank, lane.slice, lane.move);
    }
    return wrong_result();
  }

 private:
  using Key = std::tuple<int, int, uint32_t>;

  size_t slices() const { return static_cast<size_t>(how_.slices); }
  bool ended(const LaneState& lane) const { return lane.slice == how_.slices || lane.moves->empty(); }
  const Program& program(int rank) const { return world_[static_cast<size_t>(rank)]; }

  Number& cell(int rank, Buf buf, uint32_t block, size_t slice) {
    if (how_.in_place && buf == Buf::input) buf = Buf::output;
    return memory_[static_cast<size_t>(rank)][static_cast<size_t>(buf)][block * slices() + slice];
  }

  bool holds_input(int rank, uint32_t b) const {
    if (spec_.coll == Coll::broadcast || spec_.coll == Coll::scatter) return rank == spec_.root;
    if (spec_.coll == Coll::all_gather || spec_.coll == Coll::gather) return static_cast<int>(b) == rank;
    return true;
  }
  bool holds_output(int rank, uint32_t b) const {
    if (spec_.coll == Coll::reduce || spec_.coll == Coll::gather) return rank == spec_.root;
    if (spec_.coll == Coll::reduce_scatter || spec_.coll == Coll::scatter) return static_cast<int>(b) == rank;
    return true;
  }

  static Number user(int rank, uint32_t block, size_t slice) { return hash(1, static_cast<uint64_t>(rank), block, slice); }
  static Number factor(int rank) { return hash(2, static_cast<uint64_t>(rank), 0, 0); }

  const Peer& peer(const LaneState& lane, uint32_t i) const { return program(lane.rank).peers[i]; }
  std::deque<Slot>& incoming(const LaneState& lane, uint32_t i) {
    return fifos_[Key(peer(lane, i).rank, lane.rank, peer(lane, i).link)];
  }
  std::deque<Slot>& outgoing(const LaneState& lane, uint32_t i) {
    return fifos_[Key(lane.rank, peer(lane, i).rank, peer(lane, i).link)];
  }

  bool ready(const LaneState& lane) {
    if (ended(lane)) return false;
    const Move& m = (*lane.moves)[lane.move];
    for (uint32_t i = m.in_first; i < m.in_first + m.in_count; ++i) {
      if (incoming(lane, i).empty()) return false;
    }
    for (uint32_t i = m.out_first; i < m.out_first + m.out_count; ++i) {
      if (outgoing(lane, i).size() >= static_cast<size_t>(how_.slots)) return false;
    }
    return true;
  }

  Number acc(const LaneState& lane, const Move& m, uint32_t k) {
    Number sum = 0;
    for (uint32_t i = m.in_first; i < m.in_first + m.in_count; ++i) {
      const Slot& slot = incoming(lane, i).front();
      sum += slot.loan.empty() ? slot.bytes.at(k) : *slot.loan.at(k);
    }
    if (m.src != Buf::none) {
      const Number own = cell(lane.rank, m.src, m.src_block + lane.block + k, static_cast<size_t>(lane.slice));
      sum += own * (m.src == Buf::input && reduces_ && scaled() ? factor(lane.rank) : 1);
    }
    return sum * (m.flags & kMoveFinal ? kFinalFactor : 1);
  }

  void fire(LaneState& lane) {
    const Move& m = (*lane.moves)[lane.move];
    const uint32_t width = how_.merged ? m.n_blocks : 1;
    Slot bytes, loan;
    for (uint32_t k = 0; k < width; ++k) bytes.bytes.push_back(acc(lane, m, k));
    const Buf from = m.dst != Buf::none                                                  ? m.dst
                     : m.in_count == 0 && !(reduces_ && m.src == Buf::input && scaled()) ? m.src
                                                                                         : Buf::none;
    const uint32_t first = m.dst != Buf::none ? m.dst_block : m.src_block;
    for (uint32_t k = 0; k < width; ++k) {
      const size_t slice = static_cast<size_t>(lane.slice);
      if (m.dst != Buf::none) cell(lane.rank, m.dst, m.dst_block + lane.block + k, slice) = bytes.bytes[k];
      if (from != Buf::none) loan.loan.push_back(&cell(lane.rank, from, first + lane.block + k, slice));
    }
    for (uint32_t i = m.in_first; i < m.in_first + m.in_count; ++i) incoming(lane, i).pop_front();
    const bool may_lend = from != Buf::none && !(m.flags & kMoveNoLend);
    for (uint32_t i = m.out_first; i < m.out_first + m.out_count; ++i) {
      const bool lend = may_lend && static_cast<int>(random_() % 100) < how_.lend_percent;
      outgoing(lane, i).push_back(lend ? loan : bytes);
    }
    if (++lane.block < (how_.merged ? 1 : m.n_blocks)) return;
    lane.block = 0;
    if (++lane.move < lane.moves->size()) return;
    lane.move = 0;
    ++lane.slice;
  }

  /// Half of the runs scale their inputs, which keeps raw input from being lent, as it does in an executor.
  bool scaled() const { return how_.seed % 2 == 0; }

  Number expected(int rank, uint32_t block, size_t slice) const {
    if (reduces_) {
      Number sum = 0;
      for (int r = 0; r < spec_.ranks; ++r) sum += user(r, block, slice) * (scaled() ? factor(r) : 1);
      return sum * kFinalFactor;
    }
    if (spec_.coll == Coll::all_to_all) return user(static_cast<int>(block), static_cast<uint32_t>(rank), slice);
    const bool rooted = spec_.coll == Coll::broadcast || spec_.coll == Coll::scatter;
    return user(rooted ? spec_.root : static_cast<int>(block), block, slice);
  }

  std::string wrong_result() {
    for (const Program& p : world_) {
      for (uint32_t b = 0; b < p.blocks; ++b) {
        for (size_t s = 0; s < slices(); ++s) {
          if (holds_output(p.rank, b) && cell(p.rank, Buf::output, b, s) != expected(p.rank, b, s)) {
            return fmt::format("rank {} has a wrong block {} in slice {}", p.rank, b, s);
          }
          if (!how_.in_place && holds_input(p.rank, b) && cell(p.rank, Buf::input, b, s) != user(p.rank, b, s)) {
            return fmt::format("rank {} has overwritten input block {}", p.rank, b);
          }
        }
      }
    }
    return "";
  }

  const CollSpec& spec_;
  const std::vector<Program>& world_;
  const Play& how_;
  std::mt19937 random_;
  bool reduces_;
  std::vector<std::vector<std::vector<Number>>> memory_;
  std::vector<LaneState> lanes_;
  std::map<Key, std::deque<Slot>> fifos_;
};

}  // namespace

std::vector<int> ordered_ring(int n) {
  std::vector<int> ring(static_cast<size_t>(n));
  std::iota(ring.begin(), ring.end(), 0);
  return ring;
}

std::vector<int> shuffled_ring(int n, uint32_t seed) {
  std::vector<int> ring = ordered_ring(n);
  std::mt19937 random(seed + static_cast<uint32_t>(n));
  for (size_t i = ring.size(); i > 1; --i) std::swap(ring[i - 1], ring[random() % i]);
  return ring;
}

Channel channel_of(const std::vector<int>& node_sizes, bool interleaved, uint32_t seed) {
  std::vector<std::vector<int>> nodes(node_sizes.size());
  const int n = std::accumulate(node_sizes.begin(), node_sizes.end(), 0);
  Channel channel{0, {}, std::vector<int>(static_cast<size_t>(n))};
  size_t at = 0;
  for (int rank = 0; rank < n; ++rank) {
    while (nodes[at].size() == static_cast<size_t>(node_sizes[at])) at = (at + 1) % nodes.size();
    nodes[at].push_back(rank);
    channel.node_of[static_cast<size_t>(rank)] = 100 - static_cast<int>(at);  // any numbers will do
    if (interleaved) at = (at + 1) % nodes.size();
  }
  std::mt19937 random(seed);
  if (seed != 0) std::shuffle(nodes.begin(), nodes.end(), random);
  for (auto& node : nodes) {
    if (seed != 0) std::shuffle(node.begin(), node.end(), random);
    channel.ring.insert(channel.ring.end(), node.begin(), node.end());
  }
  return channel;
}

std::vector<Program> world_of(const Algorithm& algorithm, const CollSpec& spec, const std::vector<int>& ring) {
  return world_of(algorithm, spec, Channel{0, ring, {}});
}

std::vector<Program> world_of(const Algorithm& algorithm, const CollSpec& spec, const Channel& channel) {
  std::vector<Program> world;
  for (int rank = 0; rank < spec.ranks; ++rank) {
    Result<Program> program = algorithm.build(spec, channel, rank);
    if (!program.ok()) throw std::logic_error(program.error().what);
    world.push_back(std::move(program).value());
  }
  return world;
}

std::string faults_of(const Verdict& verdict) {
  std::string text;
  for (const std::string& fault : verdict.faults) text += fault + "\n";
  return text;
}

std::string describe(const Algorithm& algorithm, const CollSpec& spec) {
  return fmt::format("{} {} ranks {} root {}", algorithm.name, name_of(spec.coll), spec.ranks, spec.root);
}

std::string play(const CollSpec& spec, const std::vector<Program>& world, const Play& how) {
  return Player(spec, world, how).run();
}

}  // namespace ronde::test
