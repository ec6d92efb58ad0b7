#include <fmt/core.h>
#include <algorithm>
#include <deque>
#include <unordered_map>

#include "plan/verify_impl.h"

namespace ronde::plan {
namespace {

/// Counts one lane's use of its connections; a second lane at the same end is remembered as -2.
void count(Net& net, uint32_t lane) {
  const size_t rank = static_cast<size_t>(net.lanes[lane].rank);
  const int me = static_cast<int>(lane);
  for (const Move& m : net.moves(lane)) {
    const uint32_t slots = net.events(m);
    for (uint32_t i = m.in_first; i < m.in_first + m.in_count; ++i) {
      Connection& c = net.connections[net.in_of[rank][i]];
      if (c.reader != me) c.reader = c.reader == -1 ? me : -2;
      c.taken += slots;
    }
    for (uint32_t i = m.out_first; i < m.out_first + m.out_count; ++i) {
      Connection& c = net.connections[net.out_of[rank][i]];
      if (c.writer != me) c.writer = c.writer == -1 ? me : -2;
      c.slots += slots;
    }
  }
}

/// Lanes as actors: each runs until a slot is missing, and is woken by the one lane at the other end.
class Run {
 public:
  Run(const Net& net, uint32_t slots) : net_(net), slots_(slots), state_(net.lanes.size()), flow_(net.connections.size()) {}

  /// Calls fire(lane, move index, block offset) for each event in turn; true where all lanes end.
  template <class Fire>
  bool go(const Fire& fire) {
    for (uint32_t lane = 0; lane < state_.size(); ++lane) ready_.push_back(lane);
    size_t ended = 0;
    while (!ready_.empty()) {
      const uint32_t lane = ready_.front();
      ready_.pop_front();
      ended += advance(lane, fire);
    }
    return ended == state_.size();
  }

  /// Which lanes wait for what, in words, after go() returned false.
  std::string stuck() const {
    std::string text;
    int named = 0;
    for (uint32_t lane = 0; lane < state_.size(); ++lane) {
      const State& s = state_[lane];
      if (s.waits_for == kNothing) continue;
      if (++named > 4) return text + "; and others";
      const Connection& c = net_.connections[s.waits_for];
      text += fmt::format("{}{} waits for {} rank {} (link {})", named > 1 ? "; " : "",
                          place(net_.lanes[lane].rank, net_.lanes[lane].index, s.move),
                          s.to_write ? "a free slot to" : "data from", s.to_write ? c.to : c.from, c.link);
    }
    return text;
  }

 private:
  static constexpr uint32_t kNothing = UINT32_MAX;
  struct State {
    uint32_t move = 0;
    uint32_t block = 0;
    uint32_t operand = 0;  ///< arrivals, then sends, found to be ready so far
    uint32_t waits_for = kNothing;
    bool to_write = false;
  };
  struct Flow {
    uint32_t written = 0;
    uint32_t read = 0;
  };

  template <class Fire>
  bool advance(uint32_t lane, const Fire& fire) {
    State& s = state_[lane];
    const std::vector<Move>& moves = net_.moves(lane);
    const size_t rank = static_cast<size_t>(net_.lanes[lane].rank);
    s.waits_for = kNothing;
    while (s.move < moves.size()) {
      const Move& m = moves[s.move];
      const uint32_t* in = net_.in_of[rank].data() + m.in_first;
      const uint32_t* out = net_.out_of[rank].data() + m.out_first;
      if (!all_ready(s, m, in, out)) return false;
      fire(lane, s.move, s.block);
      for (uint32_t i = 0; i < m.in_count; ++i) was_read(in[i]);
      for (uint32_t i = 0; i < m.out_count; ++i) was_written(out[i]);
      s.operand = 0;
      if (++s.block == net_.events(m)) {
        s.block = 0;
        ++s.move;
      }
    }
    return true;
  }

  bool all_ready(State& s, const Move& m, const uint32_t* in, const uint32_t* out) {
    for (; s.operand < m.in_count; ++s.operand) {
      const uint32_t c = in[s.operand];
      if (flow_[c].read == flow_[c].written) return wait(s, c, false);
    }
    for (; s.operand < uint32_t{m.in_count} + m.out_count; ++s.operand) {
      const uint32_t c = out[s.operand - m.in_count];
      if (flow_[c].written - flow_[c].read >= slots_) return wait(s, c, true);
    }
    return true;
  }

  static bool wait(State& s, uint32_t connection, bool to_write) {
    s.waits_for = connection;
    s.to_write = to_write;
    return false;
  }

  void was_read(uint32_t connection) {
    ++flow_[connection].read;
    wake(net_.connections[connection].writer, connection, true);
  }

  void was_written(uint32_t connection) {
    ++flow_[connection].written;
    wake(net_.connections[connection].reader, connection, false);
  }

  void wake(int lane, uint32_t connection, bool to_write) {
    State& s = state_[static_cast<size_t>(lane)];
    if (s.waits_for != connection || s.to_write != to_write) return;
    s.waits_for = kNothing;
    ready_.push_back(static_cast<uint32_t>(lane));
  }

  const Net& net_;
  uint32_t slots_;
  std::vector<State> state_;
  std::vector<Flow> flow_;
  std::deque<uint32_t> ready_;
};

}  // namespace

Net::Net(const Subject& subject, bool merged) : subject(subject), merged(merged) {
  std::unordered_map<uint64_t, uint32_t> known;
  const auto find = [&](int from, int to, uint32_t link) {
    const uint64_t key = (static_cast<uint64_t>(from) << 33) | (static_cast<uint64_t>(to) << 2) | link;
    const auto [it, fresh] = known.try_emplace(key, static_cast<uint32_t>(connections.size()));
    if (fresh) connections.push_back({.from = from, .to = to, .link = link});
    return it->second;
  };
  static_assert(kMaxLinks <= 4);
  for (const Program& program : subject.world) {
    std::vector<uint32_t>& out = out_of.emplace_back();
    std::vector<uint32_t>& in = in_of.emplace_back();
    for (const Peer& peer : program.peers) {
      out.push_back(find(program.rank, peer.rank, peer.link));
      in.push_back(find(peer.rank, program.rank, peer.link));
    }
    for (uint32_t i = 0; i < program.lanes.size(); ++i) lanes.push_back({program.rank, i});
  }
  for (uint32_t lane = 0; lane < lanes.size(); ++lane) count(*this, lane);
  uint32_t first = 0;
  for (Connection& c : connections) {
    c.first = first;
    first += c.slots;
  }
}

void check_net(const Net& net, Faults& faults) {
  for (const Connection& c : net.connections) {
    if (c.writer == -2)
      faults.add(fmt::format("rank {} writes to rank {} on link {} from more than one lane", c.from, c.to, c.link));
    if (c.reader == -2)
      faults.add(fmt::format("rank {} reads from rank {} on link {} in more than one lane", c.to, c.from, c.link));
    if (c.slots != c.taken) {
      faults.add(fmt::format("rank {} writes {} slots a slice to rank {} on link {}, which reads {}", c.from, c.slots, c.to,
                             c.link, c.taken));
    }
  }
}

bool record(const Net& net, Trace& trace, Faults& faults) {
  const uint32_t slots = net.connections.empty() ? 0 : net.connections.back().first + net.connections.back().slots;
  std::vector<uint32_t> writer_of(slots);
  std::vector<uint32_t> written(net.connections.size()), read(net.connections.size());
  std::vector<uint32_t> fired(net.lanes.size());
  const auto fire = [&](uint32_t lane, uint32_t index, uint32_t block) {
    const Move& m = net.moves(lane)[index];
    const size_t rank = static_cast<size_t>(net.lanes[lane].rank);
    const uint32_t id = static_cast<uint32_t>(trace.events.size());
    const uint32_t width = net.merged ? m.n_blocks : 1;
    trace.events.push_back(
        {&m, lane, index, fired[lane]++, block, width, static_cast<uint32_t>(trace.arrivals.size()), trace.values});
    trace.values += width;
    for (uint32_t i = m.in_first; i < m.in_first + m.in_count; ++i) {
      const uint32_t c = net.in_of[rank][i];
      const uint32_t from = writer_of[net.connections[c].first + read[c]++];
      const Event& sent = trace.events[from];
      if (sent.move->n_blocks != m.n_blocks || sent.block != block) {
        faults.add(fmt::format("{} covers {} blocks, but takes a slot that {} sends as one of {}", place(net, trace.events[id]),
                               m.n_blocks, place(net, sent), sent.move->n_blocks));
      }
      trace.arrivals.push_back(from);
    }
    for (uint32_t i = m.out_first; i < m.out_first + m.out_count; ++i) {
      const uint32_t c = net.out_of[rank][i];
      writer_of[net.connections[c].first + written[c]++] = id;
    }
  };
  Run run(net, UINT32_MAX);
  if (run.go(fire)) return true;
  faults.add("no number of slots keeps the ranks from waiting for each other: " + run.stuck());
  return false;
}

bool ends_with(const Net& net, uint32_t slots) {
  return Run(net, slots).go([](uint32_t, uint32_t, uint32_t) {});
}

int least_slots(const Net& net) {
  uint32_t enough = 1;
  while (!ends_with(net, enough)) enough *= 2;
  uint32_t low = enough / 2;  // too few
  while (enough - low > 1) {
    const uint32_t middle = low + (enough - low) / 2;
    (ends_with(net, middle) ? enough : low) = middle;
  }
  return static_cast<int>(enough);
}

}  // namespace ronde::plan
