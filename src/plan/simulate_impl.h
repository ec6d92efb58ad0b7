// The parts of simulate: a clock, flows over shared arcs, and the Programs as lanes and connections. Times are picoseconds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <queue>
#include <unordered_map>
#include <vector>

#include "base/integers.h"
#include "plan/simulate.h"

namespace ronde::sim {

inline constexpr uint64_t kPicos = 1000;  ///< in a nanosecond
/// Work is counted so that a rate in MB/s takes as much of it in a picosecond as its number says.
inline constexpr uint64_t kWorkPerByte = 1'000'000;

/// One of `parts` equal parts, as the executor cuts: blocks and channels begin at cache lines.
inline uint64_t share_of(uint64_t bytes, uint64_t parts) { return ceil_div(ceil_div(bytes, parts), 64) * 64; }

enum class What : uint32_t {
  wake,
  begin,
  flow,
  // Of connections over a network whose data cores move:
  sent,      ///< the writer's core has given a slot to the network
  near,      ///< a slot has come to the reader's host
  received,  ///< the reader's core has taken it from the network
};
struct Event {
  What what = What::wake;
  uint32_t index = 0;    ///< of the lane, flow or connection
  uint32_t version = 0;  ///< flow: of its rate; an older one means nothing any more
};

/// Events by time; those of one time in the order in which they were added. Symmetric Programs have many events at few times,
/// so times are ordered, not events.
class Clock {
 public:
  uint64_t now() const { return now_; }
  void add(uint64_t time, Event event);
  /// The next event of now(); nullptr where there is none left.
  const Event* next();
  /// The event that follows `ahead` others after the next one; nullptr beyond this time's.
  const Event* peek(size_t ahead) const {
    const Batch& batch = batches_[current_];
    return taken_ + ahead < batch.size() ? &batch[taken_ + ahead] : nullptr;
  }
  /// Goes to the next time that has events; false where none has.
  bool advance();

 private:
  using Batch = std::vector<Event>;
  std::vector<Batch> batches_;
  std::vector<uint32_t> free_;
  std::unordered_map<uint64_t, uint32_t> at_;  ///< time -> batch
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> times_;
  uint64_t now_ = 0;
  uint32_t current_ = UINT32_MAX;  ///< batch of now_
  size_t taken_ = 0;               ///< of it
  uint64_t last_time_ = UINT64_MAX;
  uint32_t last_batch_ = 0;
};

/// What flows share: a direction of a link, a channel's threads, the memory of a host.
struct Arc {
  int64_t capacity = INT64_MAX;  ///< MB/s
  int64_t share = INT64_MAX;     ///< of each of `rated` users
  uint32_t users = 0;            ///< flows, with their weights
  uint32_t rated = 0;            ///< users for which the rates were last worked out
  bool dirty = false;
  bool memory = false;   ///< the memory of a host: how many use it decides between a flow's two rates
  uint64_t sharers = 1;  ///< memory: ranks on the host
  uint64_t bytes = 0;
  std::vector<uint32_t> flows;
};

/// A way over arcs, in Traffic's pool.
struct Way {
  uint32_t first = 0;
  uint32_t count = 0;
};

struct FlowSpec {
  Way way;
  uint32_t extra = UINT32_MAX;  ///< one more arc
  uint32_t owner = 0;           ///< lane, or connection
  uint32_t weight = 1;          ///< flows that it stands for
  bool carrier = false;         ///< owner is a connection
  int32_t efficiency = 1000;
  uint64_t bytes = 0;
  int64_t alone = INT64_MAX;  ///< MB/s at most
  int64_t shared = INT64_MAX;
};

/// Flows in progress.
class Traffic {
 public:
  explicit Traffic(Clock& clock) : clock_(clock) {}

  uint32_t add_arc(int64_t capacity);
  void set_capacity(uint32_t arc, int64_t capacity) { arcs_[arc].capacity = capacity; }
  uint32_t add_memory(uint64_t sharers);
  Way add_way(const std::vector<uint32_t>& arcs);
  void start(const FlowSpec& spec);
  /// Ends the flow if the event still holds; false where its rate has changed since. What it was stays until the next start().
  bool end(const Event& event);
  const FlowSpec& spec(uint32_t flow) const { return flows_[flow].spec; }
  void prefetch(uint32_t flow) const {
    __builtin_prefetch(&flows_[flow]);
    __builtin_prefetch(&flows_[flow].left);
  }
  /// After all events of a time: works out the rates of what has begun and of what shares an arc with more or fewer than before.
  void settle();
  const std::vector<Arc>& arcs() const { return arcs_; }

 private:
  struct alignas(64) Flow {
    FlowSpec spec;
    uint64_t left = 0;  ///< work
    int64_t rate = 0;
    uint64_t since = 0;
    uint32_t version = 0;
    uint32_t places = 0;   ///< first of its places in the arcs' lists
    uint64_t settled = 0;  ///< when its rate was last worked out
  };
  template <class Visit>
  void each_arc(const Flow& flow, Visit visit) {
    for (uint32_t i = 0; i < flow.spec.way.count; ++i) visit(pool_[flow.spec.way.first + i], i);
    if (flow.spec.extra != UINT32_MAX) visit(flow.spec.extra, flow.spec.way.count);
  }
  void touch(uint32_t arc);
  int64_t rate_of(const Flow& flow);
  void rate(uint32_t id);

  Clock& clock_;
  std::vector<Arc> arcs_;
  std::vector<uint32_t> pool_;    ///< arcs of ways
  std::vector<uint32_t> places_;  ///< of flows, longest_ + 1 for each
  uint32_t longest_ = 0;
  std::vector<Flow> flows_;
  std::vector<uint32_t> free_;
  std::vector<uint32_t> fresh_;  ///< begun at this time
  std::vector<uint32_t> dirty_;  ///< arcs
  uint64_t settled_ = 0;         ///< times that rates were worked out
};

/// Where the time of a chain of Moves has gone; picoseconds.
struct Spent {
  uint64_t slots = 0, data = 0, carried = 0, latency = 0, room = 0;
  uint32_t hops = 0;
};

struct alignas(64) SlotState {
  uint64_t ready = 0;  ///< when the reader can begin with it
  uint64_t freed = 0;  ///< when the writer can use it again
  uint64_t bytes = 0;
  Spent spent;
  bool lent = false;
  bool fresh = false;  ///< the writer has just written it
};

/// One direction between two ranks on one link of one channel.
struct alignas(64) Connection {
  int from = 0;
  int to = 0;
  uint32_t writer = UINT32_MAX;  ///< lanes
  uint32_t reader = UINT32_MAX;
  uint64_t tail = 0;     ///< slots written
  uint64_t sent = 0;     ///< given to the network, where cores do that
  uint64_t carried = 0;  ///< by it
  uint64_t arrived = 0;  ///< that the reader can know of
  uint64_t head = 0;     ///< given back
  bool carrying = false;
  bool by_cpu = false;  ///< cores send and receive
  bool sending = false;
  HopKind kind = HopKind::process;
  Way way;
  uint64_t latency = 0;
  uint64_t slot = 0;  ///< time that one end spends on a slot
  int32_t efficiency = 1000;
  size_t first_slot = 0;
};

struct alignas(64) Lane {
  const Move* at = nullptr;  ///< the Move at hand
  const std::vector<Move>* moves = nullptr;
  uint32_t piece = 0, slice = 0;
  uint32_t ports = 0;  ///< first of its Program's peers in Net::in_of and out_of
  uint32_t channel = 0;
  uint32_t threads = UINT32_MAX;  ///< arc that the lanes of a GPU's channel share
  int rank = 0;
  uint32_t index = 0;    ///< in its Program
  uint32_t pending = 0;  ///< flows of the Move at hand
  bool cpu = false;
  bool waiting = false;
  bool done = false;
  uint64_t bytes = 0;  ///< of the piece at hand
  uint64_t idle = 0;   ///< since when
  uint64_t began = 0;  ///< the Move's data
  Spent spent;
  uint64_t for_data = 0, for_room = 0, longest_data = 0, longest_room = 0;
  int data_from = -1, room_at = -1;
};

/// A channel's cut of the data.
struct Share {
  uint64_t block = 0, total = 0;
  uint32_t slices = 1;
  uint32_t weight =
      1;  ///< channels that it stands for: all alike, so that they do the same at the same times. 0: another stands for it
  bool operator==(const Share&) const = default;
  uint64_t length(uint64_t b, uint64_t blocks) const {
    const uint64_t at = b * block;
    return at >= total ? 0 : std::min(blocks * block, total - at);
  }
};

/// Programs, Machine and conditions as lanes, connections and arcs.
struct Net {
  Net(const topo::Machine& machine, std::span<const topo::NodeId> devices, const SimCall& call,
      std::span<const SimChannel> channels, const Conditions& conditions, Clock& clock);
  Result<> build();

  const topo::Machine& machine;
  std::span<const topo::NodeId> devices;
  const SimCall& call;
  std::span<const SimChannel> channels;
  const Conditions& conditions;
  const Costs& costs;
  Traffic traffic;
  std::vector<Lane> lanes;
  std::vector<Connection> connections;
  std::vector<SlotState> slots;
  uint64_t slot_mask = 0;               ///< a connection has as many states as the next power of two
  std::vector<uint32_t> in_of, out_of;  ///< by a Program's peers -> connection
  std::vector<Share> shares;            ///< by channel
  std::vector<uint32_t> memory;         ///< of CPU ranks, by rank: arc
  std::vector<int64_t> touched;         ///< of CPU ranks, by rank: bytes

  bool is_cpu(int rank) const { return machine.node(devices[static_cast<size_t>(rank)]).kind == topo::NodeKind::cpu_rank; }
  /// Whether the writer has a slot left. Over a network that cores drive each end has slots of its own.
  bool has_room(const Connection& c) const {
    if (!c.by_cpu) return c.tail - c.head < conditions.slots;
    return c.tail - c.carried < conditions.slots && c.tail - c.head < 2 * uint64_t{conditions.slots};
  }
  SlotState& slot(const Connection& c, uint64_t number) { return slots[c.first_slot + (number & slot_mask)]; }
  bool lends(const Move& move, uint64_t bytes) const;

 private:
  Result<> add_channel(uint32_t channel, uint64_t bytes);
  bool alike(uint32_t a, uint32_t b) const;
  Result<> add_program(uint32_t channel, const Program& program);
  Result<> add_ends(const Program& program, uint32_t lane, const Move& move);
  Result<uint32_t> connection(uint32_t channel, int from, int to, uint32_t link);
  Result<> place(Connection& c, uint32_t channel);
  Result<std::vector<topo::ArcId>> path(uint32_t channel, int from, int to);
  std::vector<topo::Path> paths_to_ranks(topo::NodeId from) const;
  void measure(const Program& program, uint32_t channel);

  std::unordered_map<uint64_t, uint32_t> known_;  ///< connections of the channel that is being added
  topo::Wiring wiring_;
  std::vector<std::vector<topo::Path>> paths_;  ///< by rank, where somebody asked: to all ranks
  std::vector<int64_t> near_;
  std::vector<std::vector<int>> position_;  ///< by channel: of ranks in its way's ring
};

/// The flow of a CPU rank's Move, but for its owner and memory; false where there is nothing to move.
bool cpu_flow(Net& net, const Lane& lane, FlowSpec* spec);

}  // namespace ronde::sim
