// Predicts how Programs would run: the ones that are executed, over the links of a Machine, event by event.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/channel.h"
#include "plan/costs.h"
#include "plan/program.h"

namespace ronde {

/// The call. `bytes` is what the API's count amounts to: all data of all_reduce, broadcast, reduce, send; one rank's block
/// otherwise.
struct SimCall {
  CollSpec spec;
  uint64_t bytes = 0;
};

/// One channel's Programs and where their data travels.
struct SimChannel {
  std::span<const Program> world;       ///< by rank; several channels may share one
  const graph::Channel* way = nullptr;  ///< the links between ring neighbours; nullptr, and for all others: the best paths
};

/// How Programs are run.
struct Conditions {
  Protocol protocol = Protocol::simple;
  uint32_t slots = 4;
  uint64_t slice = 65536;  ///< bytes of a slot's data
  bool merged = false;     ///< adjacent blocks of a Move travel in one slot
  bool lends = true;       ///< readers fetch data where it lies; LL and LL128 never do
  uint64_t lend_threshold = 16384;
  bool one_process = true;       ///< CPU ranks of one host
  int ranks_per_core = 1;        ///< CPU ranks that take turns
  bool net_by_cpu = true;        ///< what goes between nodes costs CPU ranks time of their cores (sockets)
  const Costs* costs = nullptr;  ///< nullptr: built_in_costs()
};

/// What one direction of a link carried.
struct LinkUse {
  topo::ArcId arc = 0;
  int64_t bytes = 0;     ///< data, without what the protocol adds
  int64_t permille = 0;  ///< of what it could have carried in that time, the protocol's share included
  bool operator==(const LinkUse&) const = default;
};

/// How long a lane had nothing to do, in all.
struct LaneWait {
  int rank = 0;
  int channel = 0;
  int lane = 0;
  int64_t for_data = 0;  ///< ns
  int data_from = -1;    ///< the rank of the longest such wait
  int64_t for_room = 0;  ///< ns
  int room_at = -1;
  bool operator==(const LaneWait&) const = default;
};

/// What the chain of Moves that ended last consists of, in ns: from each Move back to the one that it had to wait for.
struct Chain {
  int64_t launch = 0;
  int64_t slots = 0;    ///< writing and reading slots
  int64_t data = 0;     ///< moving and combining
  int64_t carried = 0;  ///< on the network
  int64_t latency = 0;
  int64_t room = 0;  ///< waiting for a free slot, a core
  int64_t hops = 0;  ///< from rank to rank
  int rank = 0;      ///< that ended last
  bool operator==(const Chain&) const = default;
};

struct Simulation {
  int64_t nanos = 0;
  int64_t algbw = 0;  ///< MB/s, as nccl-tests defines it
  int64_t busbw = 0;
  uint64_t moves = 0;           ///< that were done, a Move once for each slice and block
  std::vector<LinkUse> links;   ///< that carried anything, busiest first
  std::vector<LaneWait> waits;  ///< of lanes that waited, longest first, at most kMostWaits
  Chain chain;
  bool operator==(const Simulation&) const = default;
};
inline constexpr size_t kMostWaits = 16;

/// Runs `channels` side by side, each with an equal share of the data. devices[r] is the device of rank r. A link's rate is
/// shared equally by all that use it at a moment; what one of them cannot use is not given to the others. GPUs move data with
/// every channel at once; a CPU rank does one Move after the other on its core. Equal input gives an equal answer on every host.
/// Errors (invalid_argument): Programs that do not fit together or never end, devices without a path.
Result<Simulation> simulate(const topo::Machine& machine, std::span<const topo::NodeId> devices, const SimCall& call,
                            std::span<const SimChannel> channels, const Conditions& conditions = {});

/// A ring of GPUs that are all alike, on nodes that are: what an all-reduce takes, without building Programs or running events, for
/// any number of ranks.
struct EvenRing {
  int64_t ranks = 2;
  uint64_t bytes = 0;
  int64_t channels = 1;
  HopKind kind = HopKind::nvlink;  ///< of the hops inside a node
  int64_t rate = 1;                ///< MB/s of such a hop's narrowest link, which all channels share
  int64_t nodes = 1;               ///< where there are several, each channel crosses the network as often
  int64_t network = 0;             ///< MB/s out of a node, by all channels
};
/// ns, as simulate() finds for the same ring by events: on one node within what rounding adds, on several within a tenth. Conditions
/// as there, not merged, lending.
int64_t even_ring_nanos(const EvenRing& ring, const Conditions& conditions = {});

/// Data of a call as nccl-tests counts it: what algbw divides by the time.
uint64_t size_of_call(const SimCall& call);
/// busbw in MB/s of a call that takes `nanos`.
int64_t busbw_of(const SimCall& call, int64_t nanos);

}  // namespace ronde
