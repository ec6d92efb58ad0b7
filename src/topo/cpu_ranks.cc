#include "topo/cpu_ranks.h"

#include <fmt/core.h>
#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "topo/assembly.h"
#include "topo/speeds.h"

namespace ronde::topo {
namespace {

/// A node's cores and what they have to serve.
struct Home {
  std::vector<Core> cores;
  int64_t ranks = 0;
};

/// The cores of each NUMA node of the host with that identity (of the only one, whatever it is called), in the order of
/// `machine`'s; where none is known, each of its nodes has one that any rank may use.
std::vector<Home> homes(const Machine& machine, const HostCpus& cpus, uint64_t host) {
  const auto nodes = machine.of_kind(NodeKind::numa);
  std::vector<Home> all(nodes.size());
  const auto mine = [&](size_t i) {
    return machine.hosts.size() <= 1 || machine.hosts[static_cast<size_t>(machine.node(nodes[i]).host)].hash == host;
  };
  const auto first = [&](auto condition) {
    size_t i = 0;
    while (i < nodes.size() && !(mine(i) && condition(machine.numa(nodes[i])))) ++i;
    return i;
  };
  for (const Core& core : cpus.cores) {
    // A topology file may number its nodes, and cut a host into them, as it likes.
    size_t place = first([&](const Numa& numa) { return !(numa.cpus & core.cpus).empty(); });
    if (place == nodes.size()) place = first([&](const Numa& numa) { return numa.id == core.numa; });
    if (place == nodes.size()) place = first([](const Numa&) { return true; });
    if (place < nodes.size()) all[place].cores.push_back(core);
  }
  for (size_t i = 0; i < nodes.size() && cpus.cores.empty(); ++i) {
    if (!mine(i)) continue;
    for (const int cpu : machine.numa(nodes[i]).cpus.list()) {
      all[i].cores.push_back({machine.numa(nodes[i]).id, {}});
      all[i].cores.back().cpus.set(cpu);
    }
  }
  const bool unknown = std::all_of(all.begin(), all.end(), [](const Home& home) { return home.cores.empty(); });
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (unknown && mine(i)) all[i].cores.push_back({});
  }
  return all;
}

/// The cores of a node that a rank may use, with the CPUs of theirs that it may.
std::vector<CpuMask> usable(const Home& home, const CpuMask& affinity) {
  std::vector<CpuMask> cores;
  for (const Core& core : home.cores) {
    const CpuMask cpus = affinity.empty() ? core.cpus : core.cpus & affinity;
    if (!cpus.empty() || core.cpus.empty()) cores.push_back(cpus);
  }
  return cores;
}

/// Ranks that may use the same CPUs.
struct Group {
  CpuMask affinity;
  std::vector<int> ranks;  ///< rising
  size_t nodes = 0;        ///< that they can be on
};

/// Those with the least choice first.
std::vector<Group> groups(std::span<const RankAffinity> ranks, const std::vector<Home>& homes, Notes& notes) {
  std::vector<RankAffinity> sorted(ranks.begin(), ranks.end());
  std::sort(sorted.begin(), sorted.end(), [](const RankAffinity& a, const RankAffinity& b) { return a.rank < b.rank; });
  std::vector<Group> all;
  std::map<std::string, size_t> known;
  for (RankAffinity& rank : sorted) {
    const auto nodes_of = [&] {
      return std::count_if(homes.begin(), homes.end(), [&](const Home& home) { return !usable(home, rank.cpus).empty(); });
    };
    const auto [place, is_new] = known.emplace(rank.cpus.text(), all.size());
    if (is_new) all.push_back({rank.cpus, {}, static_cast<size_t>(nodes_of())});
    all[place->second].ranks.push_back(rank.rank);
  }
  for (Group& group : all) {
    if (group.nodes != 0) continue;
    notes.add("CPUs that a rank may use are none of the host's and were ignored",
              fmt::format("rank {} ({})", group.ranks[0], group.affinity.text()));
    group.affinity = {};
    group.nodes = homes.size();
  }
  std::stable_sort(all.begin(), all.end(), [](const Group& a, const Group& b) { return a.nodes < b.nodes; });
  return all;
}

int64_t bytes_of(const HostCpus& cpus, int level, const CpuMask& used) {
  int64_t sum = 0;
  for (const Cache& cache : cpus.caches) {
    if (cache.level == level && !(cache.cpus & used).empty()) sum += cache.bytes;
  }
  return sum;
}

/// The ranks of a group on one node share its cores out in their order, the first ones the first cores.
void share_out(const std::vector<CpuMask>& cores, std::span<const int> ranks, std::vector<CpuRank>& out) {
  const size_t n = cores.size();
  for (size_t i = 0; i < ranks.size(); ++i) {
    const size_t first = i * n / ranks.size();
    const size_t end = std::max(first + 1, (i + 1) * n / ranks.size());
    CpuRank rank;
    rank.rank = ranks[i];
    for (size_t core = first; core < end; ++core) rank.cpus = rank.cpus | cores[core];
    if (!rank.cpus.empty()) rank.cores = static_cast<int>(end - first);
    out.push_back(std::move(rank));
  }
}

/// The CPU ranks of each NUMA node of `host`, by rank.
std::vector<std::vector<CpuRank>> place(const Machine& host, const HostCpus& cpus, std::span<const RankAffinity> ranks,
                                        uint64_t identity, Notes& notes) {
  std::vector<Home> all = homes(host, cpus, identity);
  std::vector<std::vector<CpuRank>> placed(all.size());
  for (const Group& group : groups(ranks, all, notes)) {
    std::vector<std::vector<CpuMask>> cores;
    for (const Home& home : all) cores.push_back(usable(home, group.affinity));
    std::vector<size_t> count(all.size());
    for (size_t i = 0; i < group.ranks.size(); ++i) {
      size_t best = all.size();
      for (size_t node = 0; node < all.size(); ++node) {
        if (cores[node].empty()) continue;
        const auto load = [&](size_t at, size_t other) { return (all[at].ranks + 1) * std::ssize(cores[other]); };
        if (best == all.size() || load(node, best) < load(best, node)) best = node;
      }
      ++all[best].ranks;
      ++count[best];
    }
    // Neighbours in rank are neighbours in the machine.
    std::span<const int> rest = group.ranks;
    for (size_t node = 0; node < all.size(); ++node) {
      share_out(cores[node], rest.subspan(0, count[node]), placed[node]);
      rest = rest.subspan(count[node]);
    }
  }
  const auto nodes = host.of_kind(NodeKind::numa);
  for (size_t node = 0; node < all.size(); ++node) {
    std::sort(placed[node].begin(), placed[node].end(), [](const CpuRank& a, const CpuRank& b) { return a.rank < b.rank; });
    const auto rate = cpus.memory_rates.find(host.numa(nodes[node]).id);
    for (CpuRank& rank : placed[node]) {
      rank.l2_bytes = bytes_of(cpus, 2, rank.cpus);
      rank.l3_bytes = bytes_of(cpus, 3, rank.cpus);
      if (rate != cpus.memory_rates.end()) rank.rate = std::max<int64_t>(1, rate->second / all[node].ranks);
      if (rank.rate == 0) notes.add("memory bandwidth of CPU rank unknown, taken as 10 GB/s", fmt::format("rank {}", rank.rank));
    }
  }
  return placed;
}

/// Copies a Machine, but for its CPU ranks: others are the last children of its NUMA nodes.
class Rebuild {
 public:
  Rebuild(const Machine& from, std::vector<std::vector<CpuRank>> ranks) : from_(from), ranks_(std::move(ranks)) {}

  Machine run() {
    to_ = from_;
    to_.nodes.clear();
    to_.links.clear();
    to_.cpu_ranks.clear();
    size_t numas = 0;
    for (size_t i = 0; i < from_.nodes.size(); ++i) {
      const Node& node = from_.nodes[i];
      if (node.parent == kNone) {
        if (numas > 0) add_ranks(numas - 1);
        if (node.kind == NodeKind::numa) numa_ = static_cast<NodeId>(to_.nodes.size()), ++numas;
      }
      const LinkId upwards = node.parent == kNone ? kNone : parent_links_++;
      moved_.push_back(node.kind == NodeKind::cpu_rank ? kNone : static_cast<NodeId>(to_.nodes.size()));
      if (moved_.back() == kNone) continue;
      to_.nodes.push_back(node);
      if (upwards == kNone) continue;
      to_.nodes.back().parent = moved(node.parent);
      add_link(from_.link(upwards));
    }
    if (numas > 0) add_ranks(numas - 1);
    for (size_t i = static_cast<size_t>(parent_links_); i < from_.links.size(); ++i) add_link(from_.links[i]);
    return std::move(to_);
  }

 private:
  NodeId moved(NodeId id) const { return moved_[static_cast<size_t>(id)]; }

  void add_link(Link link) {
    link.a = moved(link.a);
    link.b = moved(link.b);
    to_.links.push_back(link);
  }

  /// Of the NUMA node of that number, numa_, whose subtree is complete; once.
  void add_ranks(size_t node) {
    for (CpuRank& rank : std::exchange(ranks_[node], {})) {
      const auto id = static_cast<NodeId>(to_.nodes.size());
      const Rate rate = rank.rate == 0 ? memory_rate() : Rate{rank.rate, Source::given};
      to_.links.push_back({id, numa_, LinkKind::memory, rate.source, 1, rate.rate});
      to_.nodes.push_back({NodeKind::cpu_rank, to_.node(numa_).host, numa_, kNone, static_cast<int32_t>(to_.cpu_ranks.size())});
      to_.cpu_ranks.push_back(std::move(rank));
    }
  }

  const Machine& from_;
  std::vector<std::vector<CpuRank>> ranks_;
  Machine to_;
  std::vector<NodeId> moved_;  ///< what each node has become
  NodeId numa_ = kNone;
  LinkId parent_links_ = 0;  ///< of from_, passed so far
};

}  // namespace

Reading with_cpu_ranks(const Machine& host, const HostCpus& cpus, std::span<const RankAffinity> ranks, uint64_t identity) {
  Machine bare = host;
  if (bare.of_kind(NodeKind::numa).empty()) {
    // What has no NUMA node has nothing but, at most, switches of NVLink, which nothing leads to.
    Assembly one;
    one.numa(one.host(host.hosts.empty() ? 0 : host.hosts[0].hash), {});
    bare = one.finish();
  }
  Notes notes;
  for (const NodeId id : bare.of_kind(NodeKind::gpu)) {
    int& rank = bare.gpus[static_cast<size_t>(bare.node(id).detail)].rank;
    const auto same = [&](const RankAffinity& other) { return other.rank == rank; };
    if (rank < 0 || std::none_of(ranks.begin(), ranks.end(), same)) continue;
    notes.add("rank of a GPU is a CPU rank's", fmt::format("{} (rank {})", describe(bare, id), rank));
    rank = -1;
  }
  Reading result;
  result.machine = Rebuild(bare, place(bare, cpus, ranks, identity, notes)).run();
  result.notes = notes.sentences();
  return result;
}

}  // namespace ronde::topo
