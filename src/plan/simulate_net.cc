// From Programs and a Machine to lanes, connections and arcs.
#include <fmt/core.h>

#include <bit>

#include "plan/simulate_impl.h"

namespace ronde::sim {
namespace {

using topo::ArcId;
using topo::LinkKind;
using topo::Machine;

bool is_near(LinkKind kind) { return kind == LinkKind::nvlink || kind == LinkKind::xgmi || kind == LinkKind::internal; }

HopKind kind_of(const Machine& machine, const std::vector<ArcId>& arcs) {
  HopKind kind = HopKind::nvlink;
  for (const ArcId arc : arcs) {
    const LinkKind link = machine.link(topo::link_of(arc)).kind;
    if (link == LinkKind::network) return HopKind::network;
    if (!is_near(link)) kind = HopKind::pci;
  }
  return kind;
}

uint64_t key_of(int from, int to, uint32_t link) {
  return (static_cast<uint64_t>(from) << 32 | static_cast<uint32_t>(to)) * kMaxLinks + link;
}

Error misfit(const std::string& what) { return fail(Code::invalid_argument, "simulating Programs: " + what); }

}  // namespace

Net::Net(const Machine& m, std::span<const topo::NodeId> d, const SimCall& c, std::span<const SimChannel> ch,
         const Conditions& cond, Clock& clock)
    : machine(m),
      devices(d),
      call(c),
      channels(ch),
      conditions(cond),
      costs(cond.costs != nullptr ? *cond.costs : built_in_costs()),
      traffic(clock),
      wiring_(m) {}

bool Net::lends(const Move& move, uint64_t bytes) const {
  return conditions.lends && conditions.protocol == Protocol::simple && (move.flags & kMoveNoLend) == 0 && bytes > 0 &&
         bytes >= conditions.lend_threshold;
}

Result<> Net::build() {
  const auto n = static_cast<size_t>(call.spec.ranks);
  if (devices.size() != n) return misfit(fmt::format("{} devices for {} ranks", devices.size(), n));
  if (channels.empty()) return misfit("there is no channel");
  if (conditions.slots == 0 || conditions.slice == 0 || conditions.ranks_per_core < 1)
    return misfit("slots, slice and ranks per core have to be above 0");
  const bool gpus = std::none_of(devices.begin(), devices.end(), [&](topo::NodeId d) { return machine.node(d).kind == topo::NodeKind::cpu_rank; });
  slot_mask = std::bit_ceil((gpus ? 1 : 2) * uint64_t{conditions.slots}) - 1;  // see has_room
  for (const topo::Link& link : machine.links) {
    traffic.add_arc(link.rate);
    traffic.add_arc(link.rate);
    near_.insert(near_.end(), 2, is_near(link.kind) ? link.rate : 0);
  }
  std::unordered_map<int32_t, std::pair<uint64_t, uint32_t>> hosts;  // of CPU ranks: how many, and their memory's arc
  for (size_t r = 0; r < n; ++r) {
    if (is_cpu(static_cast<int>(r))) ++hosts[machine.node(devices[r]).host].first;
  }
  for (auto& [host, ranks_and_arc] : hosts) ranks_and_arc.second = traffic.add_memory(ranks_and_arc.first);
  memory.assign(n, UINT32_MAX);
  touched.assign(n, 0);
  paths_.resize(n);
  position_.resize(channels.size());
  for (size_t r = 0; r < n; ++r) {
    if (is_cpu(static_cast<int>(r))) memory[r] = hosts.at(machine.node(devices[r]).host).second;
  }
  const uint64_t part = share_of(call.bytes, channels.size());
  for (uint32_t c = 0; c < channels.size(); ++c) {
    const uint64_t low = std::min(call.bytes, c * part);
    RONDE_TRY(add_channel(c, std::min(call.bytes - low, part)));
  }
  for (const Connection& c : connections) {
    if (c.writer == UINT32_MAX || c.reader == UINT32_MAX)
      return misfit(fmt::format("what rank {} and rank {} say of their connection does not fit", c.from, c.to));
  }
  for (const Lane& lane : lanes) {
    if (!lane.cpu) traffic.set_capacity(lane.threads, costs.gpu_channel * shares[lane.channel].weight);
  }
  slots.resize(connections.size() * (slot_mask + 1));
  return {};
}

Result<> Net::add_channel(uint32_t channel, uint64_t bytes) {
  const SimChannel& mine = channels[channel];
  const auto n = static_cast<size_t>(call.spec.ranks);
  if (mine.world.size() != n)
    return misfit(fmt::format("channel {} has Programs for {} of {} ranks", channel, mine.world.size(), n));
  if (mine.way != nullptr && !mine.way->ring.empty() && mine.way->ring.size() != n) {
    return misfit(fmt::format("the ring of channel {} has not all ranks", channel));
  }
  const uint32_t blocks = mine.world[0].blocks;
  Share share{bytes, bytes, 1, 1};
  if (counts_per_rank(call.spec.coll)) share.total = bytes * blocks;
  if (!counts_per_rank(call.spec.coll) && blocks > 1) share.block = share_of(bytes, blocks);
  const uint64_t longest = std::min(share.block, share.total);
  if (!conditions.merged)
    share.slices = static_cast<uint32_t>(std::max<uint64_t>(1, (longest + conditions.slice - 1) / conditions.slice));
  shares.push_back(share);
  for (uint32_t c = 0; c < channel; ++c) {
    if (shares[c].weight == 0 || !alike(c, channel)) continue;
    ++shares[c].weight;
    shares[channel].weight = 0;
    return {};
  }
  known_.clear();
  for (const Program& program : mine.world) RONDE_TRY(add_program(channel, program));
  return {};
}

/// Whether two channels do the same at the same times: the lanes of a CPU rank take turns, those of GPUs do not.
bool Net::alike(uint32_t a, uint32_t b) const {
  const graph::Channel* const one = channels[a].way;
  const graph::Channel* const other = channels[b].way;
  const bool same_way =
      one == other || (one != nullptr && other != nullptr && one->ring == other->ring && one->hops == other->hops);
  const bool cpus = std::any_of(memory.begin(), memory.end(), [](uint32_t arc) { return arc != UINT32_MAX; });
  return !cpus && same_way && channels[a].world.data() == channels[b].world.data() && shares[a].block == shares[b].block &&
         shares[a].total == shares[b].total;
}

/// What a CPU rank's Moves touch in one pass over all slices.
void Net::measure(const Program& program, uint32_t channel) {
  int64_t& sum = touched[static_cast<size_t>(program.rank)];
  for (const auto& lane : program.lanes) {
    for (const Move& move : lane) {
      const uint64_t block = move.src != Buf::none ? move.src_block : move.dst_block;
      const bool works = move.in_count > 0 || move.dst != Buf::none;
      const int64_t operands = move.in_count + (move.src != Buf::none ? 1 : 0) + (move.dst != Buf::none ? 1 : 0);
      if (works) sum += operands * static_cast<int64_t>(shares[channel].length(block, move.n_blocks));
    }
  }
}

Result<> Net::add_program(uint32_t channel, const Program& program) {
  const int rank = program.rank;
  if (rank < 0 || rank >= call.spec.ranks) return misfit(fmt::format("there is no rank {}", rank));
  const bool cpu = is_cpu(rank);
  const uint32_t threads = cpu ? UINT32_MAX : traffic.add_arc(costs.gpu_channel);
  if (cpu) measure(program, channel);
  const auto ports = static_cast<uint32_t>(in_of.size());
  in_of.resize(ports + program.peers.size(), UINT32_MAX);
  out_of.resize(ports + program.peers.size(), UINT32_MAX);
  for (uint32_t l = 0; l < program.lanes.size(); ++l) {
    const auto id = static_cast<uint32_t>(lanes.size());
    Lane lane;
    lane.moves = &program.lanes[l];
    lane.at = lane.moves->data();
    lane.threads = threads;
    lane.cpu = cpu;
    lane.ports = ports;
    lane.channel = channel;
    lane.rank = rank;
    lane.index = l;
    lanes.push_back(lane);
    for (const Move& move : program.lanes[l]) RONDE_TRY(add_ends(program, id, move));
  }
  return {};
}

/// Makes the connections of a Move, and its lane their only reader or writer.
Result<> Net::add_ends(const Program& program, uint32_t lane, const Move& move) {
  const auto end = [&](std::vector<uint32_t>& ends, uint32_t peer, bool reads) -> Result<> {
    const Peer& other = program.peers[peer];
    uint32_t& id = ends[lanes[lane].ports + peer];
    if (id == UINT32_MAX) {
      RONDE_TRY(
          id, connection(lanes[lane].channel, reads ? other.rank : program.rank, reads ? program.rank : other.rank, other.link));
    }
    uint32_t& owner = reads ? connections[id].reader : connections[id].writer;
    if (owner != UINT32_MAX && owner != lane) {
      return misfit(fmt::format("two lanes of rank {} {} rank {}", program.rank, reads ? "read from" : "write to", other.rank));
    }
    owner = lane;
    return {};
  };
  if (uint64_t{move.in_first} + move.in_count > program.peers.size() ||
      uint64_t{move.out_first} + move.out_count > program.peers.size()) {
    return misfit(fmt::format("a Move of rank {} names peers beyond its table", program.rank));
  }
  for (uint32_t i = 0; i < move.in_count; ++i) RONDE_TRY(end(in_of, move.in_first + i, true));
  for (uint32_t i = 0; i < move.out_count; ++i) RONDE_TRY(end(out_of, move.out_first + i, false));
  return {};
}

Result<uint32_t> Net::connection(uint32_t channel, int from, int to, uint32_t link) {
  if (std::min(from, to) < 0 || std::max(from, to) >= call.spec.ranks)
    return misfit(fmt::format("rank {} names a peer that there is not", from));
  const auto [at, is_new] = known_.try_emplace(key_of(from, to, link), static_cast<uint32_t>(connections.size()));
  if (!is_new) return at->second;
  Connection c;
  c.from = from;
  c.to = to;
  c.first_slot = connections.size() * (slot_mask + 1);
  RONDE_TRY(place(c, channel));
  connections.push_back(c);
  return at->second;
}

/// Which links a connection crosses, and what that takes.
Result<> Net::place(Connection& c, uint32_t channel) {
  std::vector<uint32_t> arcs;
  c.kind = conditions.one_process ? HopKind::process : HopKind::shm;
  if (c.from == c.to) {
    c.kind = HopKind::process;
  } else {
    RONDE_TRY(const std::vector<ArcId> way, path(channel, c.from, c.to));
    const HopKind kind = kind_of(machine, way);
    const bool within = is_cpu(c.from) && is_cpu(c.to) && kind != HopKind::network;
    if (!within) c.kind = kind;
    for (const ArcId arc : way) {
      // What memory gives to CPU ranks has been measured; only what is known of a machine's links limits it further.
      if (!within || machine.link(topo::link_of(arc)).source != topo::Source::assumed) arcs.push_back(static_cast<uint32_t>(arc));
    }
  }
  c.way = traffic.add_way(arcs);
  c.by_cpu = c.kind == HopKind::network && conditions.net_by_cpu && is_cpu(c.from) && is_cpu(c.to);
  const HopCost& hop = costs.hop(conditions.protocol, c.kind);
  const HopCost& end = c.by_cpu ? costs.hop(conditions.protocol, HopKind::process) : hop;
  const int64_t latency = c.by_cpu ? costs.cpu_net_latency : hop.latency;
  c.latency = c.from == c.to ? 0 : static_cast<uint64_t>(latency) * kPicos;
  c.slot = static_cast<uint64_t>(end.slot) * kPicos;
  c.efficiency = static_cast<int32_t>(hop.efficiency);
  return {};
}

/// By rank: over near links where they lead there. Of a machine's nodes ranks are few, so that no more is kept.
std::vector<topo::Path> Net::paths_to_ranks(topo::NodeId from) const {
  topo::Routing near;
  near.left = near_;
  topo::Routing far;
  far.network = true;
  std::vector<topo::Path> best = topo::paths_from(wiring_, from, near);
  std::vector<topo::Path> any = topo::paths_from(wiring_, from, far);
  std::vector<topo::Path> all;
  all.reserve(devices.size());
  for (const topo::NodeId device : devices) {
    const auto to = static_cast<size_t>(device);
    all.push_back(std::move(best[to].found() ? best[to] : any[to]));
  }
  return all;
}

Result<std::vector<ArcId>> Net::path(uint32_t channel, int from, int to) {
  const graph::Channel* const way = channels[channel].way;
  if (way != nullptr && !way->ring.empty() && !way->hops.empty()) {
    std::vector<int>& position = position_[channel];
    if (position.empty()) {
      position.resize(way->ring.size());
      for (size_t i = 0; i < way->ring.size(); ++i) position[static_cast<size_t>(way->ring[i])] = static_cast<int>(i);
    }
    const auto at = static_cast<size_t>(position[static_cast<size_t>(from)]);
    if (way->ring[(at + 1) % way->ring.size()] == to) return way->hops[at];
    // A ring's neighbours in the other direction take the same links back.
    const auto before = static_cast<size_t>(position[static_cast<size_t>(to)]);
    if (way->ring[(before + 1) % way->ring.size()] == from) {
      std::vector<ArcId> back(way->hops[before].rbegin(), way->hops[before].rend());
      for (ArcId& arc : back) arc = topo::reverse(arc);
      return back;
    }
  }
  std::vector<topo::Path>& all = paths_[static_cast<size_t>(from)];
  if (all.empty()) all = paths_to_ranks(devices[static_cast<size_t>(from)]);
  const topo::Path& path = all[static_cast<size_t>(to)];
  if (!path.found()) {
    return misfit(fmt::format("there is no path from {} to {}", topo::describe(machine, devices[static_cast<size_t>(from)]),
                              topo::describe(machine, devices[static_cast<size_t>(to)])));
  }
  return path.arcs;
}

}  // namespace ronde::sim
