// The events: a lane begins a Move when its inputs are there, its outputs have room and its core is free; data flows; slots go
// over and come back.
#include "plan/simulate.h"

#include <fmt/core.h>

#include "plan/simulate_run.h"

namespace ronde {
namespace sim {

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

static int64_t nanos_of(uint64_t picos) { return static_cast<int64_t>((picos + kPicos - 1) / kPicos); }

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
