// The events: a lane begins a Move when its inputs are there, its outputs have room and its core is free; data flows; slots go
// over and come back.
#include "plan/simulate.h"

#include <fmt/core.h>

#include <deque>

#include "plan/simulate_impl.h"

namespace ronde {
namespace sim {
namespace {

/// What a core does for one rank: a lane's Move, or an end of a connection over a network that cores drive.
struct Task {
  What what = What::begin;  ///< begin, sent or received: the event that ends it, or for a lane the waiting for its core
  uint32_t index = 0;
};

/// One core, and who wants it.
struct Core {
  bool busy = false;
  int last = -1;
  std::deque<Task> queue;
};

class Run {
 public:
  Run(Net& net, Clock& clock) : net_(net), clock_(clock) {
    const int shared = net.conditions.ranks_per_core;
    cores_.resize(static_cast<size_t>((net.call.spec.ranks + shared - 1) / shared));
  }

  Result<> run() {
    launch();
    while (clock_.advance()) {
      while (const Event* const event = clock_.next()) {
        fetch_ahead();
        handle(*event);
      }
      net_.traffic.settle();
    }
    for (const Lane& lane : net_.lanes) {
      if (!lane.done) return stuck(lane);
    }
    return {};
  }

  Simulation result() const;

 private:
  Core& core_of(int rank) { return cores_[static_cast<size_t>(rank / net_.conditions.ranks_per_core)]; }
  Core& core_of(const Lane& lane) { return core_of(lane.rank); }
  int rank_of(const Task& task) const {
    if (task.what == What::begin) return net_.lanes[task.index].rank;
    const Connection& c = net_.connections[task.index];
    return task.what == What::sent ? c.from : c.to;
  }
  Connection& in(const Lane& lane, uint32_t i) { return net_.connections[net_.in_of[lane.ports + lane.at->in_first + i]]; }
  Connection& out(const Lane& lane, uint32_t i) { return net_.connections[net_.out_of[lane.ports + lane.at->out_first + i]]; }
  uint64_t launch_time(const Lane& lane) const {
    return static_cast<uint64_t>(lane.cpu ? net_.costs.cpu_launch : net_.costs.gpu_launch) * kPicos;
  }

  void launch() {
    for (uint32_t id = 0; id < net_.lanes.size(); ++id) {
      Lane& lane = net_.lanes[id];
      lane.idle = launch_time(lane);
      if (lane.moves->empty()) {
        lane.done = true;
      } else {
        clock_.add(lane.idle, {What::wake, id, 0});
      }
    }
  }

  // By value: what is handled adds events.
  void handle(Event event) {
    if (event.what == What::begin) return begin(event.index);
    if (event.what == What::sent) return sent(event.index);
    if (event.what == What::near) return want_core({What::received, event.index});
    if (event.what == What::received) return received(event.index);
    if (event.what == What::wake) {
      net_.lanes[event.index].waiting = true;
      return attempt(event.index);
    }
    if (!net_.traffic.end(event)) return;
    const FlowSpec& spec = net_.traffic.spec(event.index);
    const uint32_t owner = spec.owner;
    if (spec.carrier) return carried(owner);
    if (--net_.lanes[owner].pending == 0) finish(owner);
  }

  /// Thousands of lanes do not fit into a core's caches, but it is known which of them are next.
  void fetch_ahead() const {
    const Event* const far = clock_.peek(12);
    if (far != nullptr && far->what == What::flow) net_.traffic.prefetch(far->index);
    const Event* const near = clock_.peek(8);
    if (near != nullptr) fetch_lane(near->what == What::flow ? net_.traffic.spec(near->index).owner : near->index);
    const Event* const next = clock_.peek(4);
    if (next != nullptr) fetch_ends(next->what == What::flow ? net_.traffic.spec(next->index).owner : next->index);
  }
  void fetch_lane(uint32_t id) const {
    if (id >= net_.lanes.size()) return;  // of a connection
    __builtin_prefetch(&net_.lanes[id]);
    __builtin_prefetch(&net_.lanes[id].bytes);
    __builtin_prefetch(&net_.lanes[id].spent.room);
  }
  void fetch_ends(uint32_t id) const {
    if (id >= net_.lanes.size() || net_.lanes[id].done) return;
    const Lane& lane = net_.lanes[id];
    const auto fetch = [&](const Connection& c) {
      __builtin_prefetch(&c);
      __builtin_prefetch(&c.slot);
      __builtin_prefetch(&net_.slot(c, c.head));
      __builtin_prefetch(&net_.slot(c, c.head).spent.latency);
    };
    if (lane.at->in_count > 0) fetch(net_.connections[net_.in_of[lane.ports + lane.at->in_first]]);
    if (lane.at->out_count > 0) fetch(net_.connections[net_.out_of[lane.ports + lane.at->out_first]]);
  }

  void attempt(uint32_t id);
  void want_core(Task task);
  void take_core(Task task);
  void leave_core(Core& core);
  void begin(uint32_t id);
  void begin_gpu(uint32_t id, uint64_t bytes);
  void begin_cpu(uint32_t id, uint64_t bytes);
  void finish(uint32_t id);
  void release(Connection& c);
  void publish(uint32_t connection, const Lane& lane, bool lent);
  void carry(uint32_t connection);
  void carried(uint32_t connection);
  void send(uint32_t connection);
  void sent(uint32_t connection);
  void received(uint32_t connection);
  void next(uint32_t id);
  uint64_t bytes_of(const Lane& lane);
  uint64_t slot_time(const Lane& lane);
  Error stuck(const Lane& lane) const;

  Net& net_;
  Clock& clock_;
  std::vector<Core> cores_;
  uint64_t end_ = 0;
  uint64_t last_idle_ = 0;
  uint64_t moves_ = 0;
  Spent last_;
  int last_rank_ = 0;
};

uint64_t Run::bytes_of(const Lane& lane) {
  const Move& move = *lane.at;
  if (move.src == Buf::none && move.dst == Buf::none) {
    if (move.in_count == 0) return 0;
    Connection& c = net_.connections[net_.in_of[lane.ports + move.in_first]];
    return net_.slot(c, c.head).bytes;
  }
  const Share& share = net_.shares[lane.channel];
  const uint64_t block = (move.src != Buf::none ? move.src_block : move.dst_block) + lane.piece;
  if (net_.conditions.merged) return share.length(block, move.n_blocks);
  const uint64_t length = share.length(block, 1);
  const uint64_t at = lane.slice * net_.conditions.slice;
  return at >= length ? 0 : std::min(net_.conditions.slice, length - at);
}

uint64_t Run::slot_time(const Lane& lane) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < lane.at->in_count; ++i) sum += in(lane, i).slot;
  for (uint32_t i = 0; i < lane.at->out_count; ++i) sum += out(lane, i).slot;
  return sum;
}

/// Finds out when the lane's Move can begin; leaves the lane waiting where somebody else has to act first.
void Run::attempt(uint32_t id) {
  Lane& lane = net_.lanes[id];
  const Move& move = *lane.at;
  uint64_t start = lane.idle;
  const SlotState* cause = nullptr;
  const Connection* from = nullptr;
  const Connection* full = nullptr;
  for (uint32_t i = 0; i < move.in_count; ++i) {
    Connection& c = in(lane, i);
    if (c.arrived == c.head) return;
    const SlotState& slot = net_.slot(c, c.head);
    if (slot.ready <= start) continue;
    start = slot.ready;
    cause = &slot;
    from = &c;
  }
  for (uint32_t i = 0; i < move.out_count; ++i) {
    Connection& c = out(lane, i);
    if (!net_.has_room(c)) return;
    if (c.tail < net_.conditions.slots) continue;
    const SlotState& before = net_.slot(c, c.tail - net_.conditions.slots);
    if (before.freed <= start) continue;
    start = before.freed;
    full = &c;
  }
  if (lane.cpu && start > clock_.now()) {
    clock_.add(start, {What::wake, id, 0});
    lane.waiting = false;
    return;
  }
  lane.waiting = false;
  const uint64_t waited = start - lane.idle;
  if (full != nullptr) {
    lane.spent.room += waited;
    lane.for_room += waited;
    if (waited > lane.longest_room) lane.room_at = full->to;
    lane.longest_room = std::max(lane.longest_room, waited);
  } else if (cause != nullptr) {
    lane.spent = cause->spent;
    lane.for_data += waited;
    if (waited > lane.longest_data) lane.data_from = from->from;
    lane.longest_data = std::max(lane.longest_data, waited);
  }
  if (lane.cpu) {
    const bool slept = waited > static_cast<uint64_t>(net_.costs.cpu_patience) * kPicos;
    const uint64_t wake = slept ? static_cast<uint64_t>(net_.costs.cpu_wake) * kPicos : 0;
    lane.spent.latency += wake;
    lane.idle = clock_.now() + wake;
    return want_core({What::begin, id});
  }
  const uint64_t slots = slot_time(lane);
  lane.spent.slots += slots;
  clock_.add(std::max(start, clock_.now()) + slots, {What::begin, id, 0});
}

void Run::want_core(Task task) {
  Core& core = core_of(rank_of(task));
  if (core.busy) {
    core.queue.push_back(task);
  } else {
    take_core(task);
  }
}

void Run::leave_core(Core& core) {
  core.busy = false;
  if (core.queue.empty()) return;
  const Task waiting = core.queue.front();
  core.queue.pop_front();
  take_core(waiting);
}

void Run::take_core(Task task) {
  const int rank = rank_of(task);
  Core& core = core_of(rank);
  const bool other = core.last != rank && core.last != -1;
  const uint64_t change = other ? static_cast<uint64_t>(net_.costs.cpu_switch) * kPicos : 0;
  core.busy = true;
  core.last = rank;
  if (task.what != What::begin) {
    Connection& c = net_.connections[task.index];
    const bool sends = task.what == What::sent;
    SlotState& slot = net_.slot(c, sends ? c.sent : c.arrived);
    const uint64_t rate = static_cast<uint64_t>(sends ? net_.costs.cpu_net_send : net_.costs.cpu_net_receive);
    const uint64_t works = static_cast<uint64_t>(net_.costs.cpu_net_slot) * kPicos + slot.bytes * kWorkPerByte / rate;
    slot.spent.carried += works;
    clock_.add(clock_.now() + change + works, {task.what, task.index, 0});
    return;
  }
  Lane& lane = net_.lanes[task.index];
  const uint64_t start = std::max(clock_.now(), lane.idle) + change;
  lane.spent.room += clock_.now() > lane.idle ? clock_.now() - lane.idle + change : change;
  const uint64_t slots = slot_time(lane);
  lane.spent.slots += slots;
  clock_.add(start + slots, {What::begin, task.index, 0});
}

void Run::begin(uint32_t id) {
  Lane& lane = net_.lanes[id];
  lane.began = clock_.now();
  lane.pending = 0;
  lane.bytes = bytes_of(lane);
  if (lane.bytes > 0 && lane.cpu) begin_cpu(id, lane.bytes);
  if (lane.bytes > 0 && !lane.cpu) begin_gpu(id, lane.bytes);
  if (lane.pending == 0) finish(id);
}

/// What is lent is fetched over the links by its reader, what is not is sent by its writer; what the network brings or takes
/// passes a slot in the GPU's own memory.
void Run::begin_gpu(uint32_t id, uint64_t bytes) {
  Lane& lane = net_.lanes[id];
  const Move& move = *lane.at;
  FlowSpec spec;
  spec.owner = id;
  spec.weight = net_.shares[lane.channel].weight;
  spec.bytes = bytes;
  spec.extra = lane.threads;
  const auto start = [&](const Connection& c) {
    spec.way = c.way;
    spec.efficiency = c.efficiency;
    net_.traffic.start(spec);
    ++lane.pending;
  };
  for (uint32_t i = 0; i < move.in_count; ++i) {
    Connection& c = in(lane, i);
    if (c.kind != HopKind::network && net_.slot(c, c.head).lent) start(c);
  }
  const bool lends = net_.lends(move, bytes) && move.dst != Buf::none;
  const bool straight = move.in_count == 0 && move.dst == Buf::none && net_.lends(move, bytes);
  for (uint32_t i = 0; i < move.out_count; ++i) {
    Connection& c = out(lane, i);
    if (c.kind != HopKind::network && !lends && !straight) start(c);
  }
  if (lane.pending > 0 || straight) return;
  net_.traffic.start(spec);
  ++lane.pending;
}

void Run::begin_cpu(uint32_t id, uint64_t bytes) {
  Lane& lane = net_.lanes[id];
  FlowSpec spec;
  if (!cpu_flow(net_, lane, &spec)) return;
  spec.owner = id;
  spec.bytes = bytes;
  spec.extra = net_.memory[static_cast<size_t>(lane.rank)];
  net_.traffic.start(spec);
  lane.pending = 1;
}

void Run::finish(uint32_t id) {
  Lane& lane = net_.lanes[id];
  const Move& move = *lane.at;
  lane.spent.data += clock_.now() - lane.began;
  lane.idle = clock_.now();
  moves_ += net_.shares[lane.channel].weight;
  const bool lent = net_.lends(move, lane.bytes) && (move.dst != Buf::none || move.in_count == 0);
  for (uint32_t i = 0; i < move.in_count; ++i) release(in(lane, i));
  for (uint32_t i = 0; i < move.out_count; ++i) publish(net_.out_of[lane.ports + move.out_first + i], lane, lent);
  if (lane.idle >= last_idle_) {
    last_idle_ = lane.idle;
    last_ = lane.spent;
    last_rank_ = lane.rank;
    end_ = std::max(end_, lane.idle);
  }
  const bool cpu = lane.cpu;
  Core& core = core_of(lane);
  if (cpu) core.busy = false;
  next(id);
  if (cpu && !core.busy) leave_core(core);
}

void Run::release(Connection& c) {
  SlotState& slot = net_.slot(c, c.head);
  ++c.head;
  if (!c.by_cpu) slot.freed = clock_.now() + c.latency;
  if (slot.lent) end_ = std::max(end_, slot.freed);  // the lender's call ends when it knows
  if (net_.lanes[c.writer].waiting) attempt(c.writer);
}

void Run::publish(uint32_t connection, const Lane& lane, bool lent) {
  Connection& c = net_.connections[connection];
  SlotState& slot = net_.slot(c, c.tail);
  ++c.tail;
  slot.bytes = lane.bytes;
  slot.lent = lent;
  slot.fresh = !lent || lane.at->dst != Buf::none;
  slot.spent = lane.spent;
  slot.spent.latency += c.latency;
  ++slot.spent.hops;
  if (c.by_cpu) {
    if (!c.sending) send(connection);
    return;
  }
  if (c.kind == HopKind::network) {
    if (!c.carrying) carry(connection);
    return;
  }
  slot.ready = clock_.now() + c.latency;
  c.arrived = c.tail;
  if (net_.lanes[c.reader].waiting) attempt(c.reader);
}

/// The next slot of a connection over the network is on its way; one at a time, and while its lane goes on.
void Run::carry(uint32_t connection) {
  Connection& c = net_.connections[connection];
  c.carrying = true;
  SlotState& slot = net_.slot(c, c.carried);
  slot.ready = clock_.now();
  if (slot.bytes == 0) return carried(connection);
  FlowSpec spec;
  spec.way = c.way;
  spec.owner = connection;
  spec.carrier = true;
  spec.weight = net_.shares[net_.lanes[c.writer].channel].weight;
  spec.bytes = slot.bytes;
  spec.efficiency = c.efficiency;
  net_.traffic.start(spec);
}

void Run::carried(uint32_t connection) {
  Connection& c = net_.connections[connection];
  SlotState& slot = net_.slot(c, c.carried);
  slot.spent.carried += clock_.now() - slot.ready;
  slot.ready = clock_.now() + c.latency;
  ++c.carried;
  c.carrying = false;
  if (!c.by_cpu) {
    c.arrived = c.carried;
    if (net_.lanes[c.reader].waiting) attempt(c.reader);
    if (c.carried < c.tail) carry(connection);
    return;
  }
  slot.freed = clock_.now();
  if (slot.lent) end_ = std::max(end_, slot.freed);
  clock_.add(slot.ready, {What::near, connection, 0});
  if (net_.lanes[c.writer].waiting) attempt(c.writer);
  if (c.carried < c.sent) carry(connection);
}

/// The writer's core gives the next slot to the network, one after the other.
void Run::send(uint32_t connection) {
  net_.connections[connection].sending = true;
  want_core({What::sent, connection});
}

void Run::sent(uint32_t connection) {
  Connection& c = net_.connections[connection];
  ++c.sent;
  c.sending = false;
  if (!c.carrying) carry(connection);
  if (c.sent < c.tail) send(connection);
  leave_core(core_of(c.from));
}

void Run::received(uint32_t connection) {
  Connection& c = net_.connections[connection];
  net_.slot(c, c.arrived).ready = clock_.now();
  ++c.arrived;
  if (net_.lanes[c.reader].waiting) attempt(c.reader);
  leave_core(core_of(c.to));
}

/// The lane's next piece: a Move's next block, the next Move, or the first of the next slice.
void Run::next(uint32_t id) {
  Lane& lane = net_.lanes[id];
  const uint32_t pieces = net_.conditions.merged ? 1 : lane.at->n_blocks;
  if (++lane.piece >= pieces) {
    lane.piece = 0;
    if (++lane.at == lane.moves->data() + lane.moves->size()) {
      lane.at = lane.moves->data();
      if (++lane.slice == net_.shares[lane.channel].slices) {
        lane.done = true;
        return;
      }
    }
  }
  lane.waiting = true;
  attempt(id);
}

Error Run::stuck(const Lane& lane) const {
  return fail(Code::invalid_argument,
              fmt::format("simulating Programs: they never end; rank {} lane {} of channel {} waits in Move {} "
                          "of slice {} with {} slots a connection",
                          lane.rank, lane.index, lane.channel, lane.at - lane.moves->data(), lane.slice, net_.conditions.slots));
}

int64_t nanos_of(uint64_t picos) { return static_cast<int64_t>((picos + kPicos - 1) / kPicos); }

Simulation Run::result() const {
  Simulation it;
  it.nanos = nanos_of(end_);
  it.moves = moves_;
  it.chain = {0,
              nanos_of(last_.slots),
              nanos_of(last_.data),
              nanos_of(last_.carried),
              nanos_of(last_.latency),
              nanos_of(last_.room),
              last_.hops,
              last_rank_};
  for (const Lane& lane : net_.lanes) {
    if (lane.rank == last_rank_) it.chain.launch = nanos_of(launch_time(lane));
    if (lane.for_data + lane.for_room == 0) continue;
    it.waits.push_back({lane.rank, static_cast<int>(lane.channel), static_cast<int>(lane.index), nanos_of(lane.for_data),
                        lane.data_from, nanos_of(lane.for_room), lane.room_at});
  }
  std::stable_sort(it.waits.begin(), it.waits.end(),
                   [](const LaneWait& a, const LaneWait& b) { return a.for_data + a.for_room > b.for_data + b.for_room; });
  if (it.waits.size() > kMostWaits) it.waits.resize(kMostWaits);
  const std::vector<Arc>& arcs = net_.traffic.arcs();
  const int64_t efficiency = net_.costs.hop(net_.conditions.protocol, HopKind::nvlink).efficiency;
  for (size_t a = 0; a < topo::arc_count(net_.machine); ++a) {
    if (arcs[a].bytes == 0) continue;
    const auto could = static_cast<__int128>(arcs[a].capacity) * efficiency / 1000 * static_cast<int64_t>(end_);
    const auto did = static_cast<__int128>(arcs[a].bytes) * static_cast<int64_t>(kWorkPerByte);
    it.links.push_back({static_cast<topo::ArcId>(a), static_cast<int64_t>(arcs[a].bytes),
                        could == 0 ? 0 : static_cast<int64_t>(did * 1000 / could)});
  }
  std::stable_sort(it.links.begin(), it.links.end(), [](const LinkUse& a, const LinkUse& b) { return a.permille > b.permille; });
  return it;
}

}  // namespace
}  // namespace sim

uint64_t size_of_call(const SimCall& call) {
  return counts_per_rank(call.spec.coll) ? call.bytes * static_cast<uint64_t>(call.spec.ranks) : call.bytes;
}

int64_t busbw_of(const SimCall& call, int64_t nanos) {
  if (nanos <= 0) return 0;
  const int64_t n = call.spec.ranks;
  const Coll coll = call.spec.coll;
  const bool once = coll == Coll::broadcast || coll == Coll::reduce || coll == Coll::send || coll == Coll::recv;
  const int64_t times = once ? n : coll == Coll::all_reduce ? 2 * (n - 1) : n - 1;
  return static_cast<int64_t>(static_cast<__int128>(size_of_call(call)) * 1000 * times / n / nanos);
}

Result<Simulation> simulate(const topo::Machine& machine, std::span<const topo::NodeId> devices, const SimCall& call,
                            std::span<const SimChannel> channels, const Conditions& conditions) {
  sim::Clock clock;
  sim::Net net(machine, devices, call, channels, conditions, clock);
  RONDE_TRY(net.build());
  sim::Run run(net, clock);
  RONDE_TRY(run.run());
  Simulation it = run.result();
  if (it.nanos > 0) it.algbw = static_cast<int64_t>(static_cast<__int128>(size_of_call(call)) * 1000 / it.nanos);
  it.busbw = busbw_of(call, it.nanos);
  return it;
}

}  // namespace ronde
