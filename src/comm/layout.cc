#include "comm/layout.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <utility>

#include "base/hash.h"
#include "base/log.h"
#include "boot/unique_id.h"
#include "boot/wire.h"
#include "comm/graph_files.h"
#include "graph/channels.h"
#include "graph/settings.h"
#include "topo/cpu_ranks.h"
#include "topo/gpu_ranks.h"
#include "topo/merge.h"
#include "topo/source.h"
#include "topo/text.h"
#include "tune/choose.h"

namespace ronde {
namespace {

/// What one process knows of its host. Detection takes milliseconds and a process may hold many ranks, so it is done once.
struct Host {
  topo::Reading reading;
  topo::HostCpus cpus;
  uint64_t hash = 0;  ///< of the machine
};

/// `gpus`: the drivers of GPUs are asked too.
Result<std::shared_ptr<const Host>> host_of_process(const Config& config, uint64_t identity, bool gpus) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const Host>> known;
  const std::string key = fmt::format("{:x} {} {} {} {}", identity, gpus, config.flag(Setting::strict), config.flag(Setting::hwloc), config.text(Setting::topo_file));
  const std::lock_guard lock(mutex);
  std::shared_ptr<const Host>& host = known[key];
  if (host) return host;
  auto found = std::make_shared<Host>();
  RONDE_TRY(found->reading, topo::machine_of_host(config, identity, topo::Cpus::of_host, gpus ? topo::Drivers::asked : topo::Drivers::left_alone));
  RONDE_TRY(found->cpus, topo::detect_cpus(""));
  found->hash = fnv1a(topo::to_text(found->reading.machine));
  for (const std::string& note : found->reading.notes) RONDE_INFO(graph, "{}", note);
  host = std::move(found);
  return host;
}

/// What every rank tells first.
struct Whereabouts {
  uint64_t host = 0;
  uint64_t machine = 0;  ///< hash of what its process takes for the host's machine
  topo::CpuMask cpus;    ///< that it may use; empty: unknown
  std::string gpu;       ///< the address of its GPU, where it has one that its machine shows
  std::string problem;   ///< why it has no machine; "": it has one

  Bytes pack() const {
    Writer out;
    out.put(host).put(machine).text(cpus.text()).text(gpu).text(problem);
    return out.take();
  }
  static Result<Whereabouts> unpack(std::span<const std::byte> bytes, size_t rank) {
    Reader in(bytes);
    Whereabouts where;
    where.host = in.get<uint64_t>();
    where.machine = in.get<uint64_t>();
    where.cpus = topo::CpuMask::parse(in.text()).value_or(topo::CpuMask());
    where.gpu = in.text();
    where.problem = in.text();
    if (in.ok()) return where;
    return fail(Code::internal_error,
                fmt::format("what rank {} tells of its host cannot be read; use one build of this library on all ranks", rank),
                Scope::communicator);
  }
};

/// Of all ranks. An error on all where one has no machine.
Result<std::vector<Whereabouts>> whereabouts(Bootstrap& bootstrap, const Config& config, uint64_t identity,
                                             const Result<std::shared_ptr<const Host>>& host, const Result<std::string>& gpu) {
  Whereabouts mine;
  mine.host = identity;
  if (host.ok()) mine.machine = (*host)->hash;
  if (host.ok() && gpu.ok() && topo::gpu_at((*host)->reading.machine, *gpu, identity) != topo::kNone) mine.gpu = *gpu;
  if (!host.ok()) mine.problem = host.error().what;
  if (!gpu.ok()) mine.problem = gpu.error().what;
  if (!config.flag(Setting::ignore_cpu_affinity)) mine.cpus = topo::calling_thread_affinity();
  RONDE_TRY(const std::vector<Bytes> parts, bootstrap.all_gather_parts(mine.pack()));
  if (!gpu.ok()) return gpu.error();
  if (!host.ok()) return host.error();
  if (!gpu->empty() && mine.gpu.empty()) {
    RONDE_INFO(graph, "rank {} is placed by the CPUs that it may use: what is known of this host's machine does not show its GPU {}", bootstrap.rank(), *gpu);
  }
  std::vector<Whereabouts> all;
  for (const Bytes& part : parts) {
    RONDE_TRY(all.emplace_back(), Whereabouts::unpack(part, all.size()));
    if (!all.back().problem.empty()) {
      return fail(Code::remote_error, fmt::format("rank {} failed: {}", all.size() - 1, all.back().problem), Scope::communicator);
    }
  }
  return all;
}

/// Whether the rank is placed on its GPU: the first of those that have it.
bool on_gpu(const std::vector<Whereabouts>& all, size_t rank) {
  const auto same = [&](const Whereabouts& other) { return other.host == all[rank].host && other.gpu == all[rank].gpu; };
  return !all[rank].gpu.empty() && std::none_of(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(rank), same);
}

/// The machine that this rank contributes, as text: its host's if no lower rank has the same, with the ranks on GPUs that see
/// it, and with the host's CPU ranks if it is the host's first.
std::string contribution(const std::vector<Whereabouts>& all, int rank, const Host& host) {
  const auto me = static_cast<size_t>(rank);
  bool first_of_host = true;
  for (size_t lower = 0; lower < me; ++lower) {
    if (all[lower].host != all[me].host) continue;
    if (all[lower].machine == all[me].machine) return "";
    first_of_host = false;
  }
  topo::Machine machine = host.reading.machine;
  std::vector<topo::RankAffinity> ranks;
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r].host != all[me].host) continue;
    if (!on_gpu(all, r)) {
      ranks.push_back({static_cast<int>(r), all[r].cpus});
    } else if (all[r].machine == all[me].machine) {
      topo::set_gpu_rank(machine, topo::gpu_at(machine, all[r].gpu, all[me].host), static_cast<int>(r));
    }
  }
  return topo::to_text(first_of_host ? topo::with_cpu_ranks(machine, host.cpus, ranks, all[me].host).machine : machine);
}

std::vector<topo::NodeId> devices_of(const topo::Machine& machine, int ranks) {
  std::vector<topo::NodeId> devices(static_cast<size_t>(ranks), topo::kNone);
  const auto note = [&](int rank, topo::NodeId id) {
    if (rank >= 0 && rank < ranks) devices[static_cast<size_t>(rank)] = id;
  };
  for (const topo::NodeId id : machine.of_kind(topo::NodeKind::cpu_rank)) note(machine.cpu_rank(id).rank, id);
  for (const topo::NodeId id : machine.of_kind(topo::NodeKind::gpu)) note(machine.gpu(id).rank, id);
  return devices;
}

/// Ranks by host, then NUMA node: for machines that are not searched.
std::vector<int> plain_order(const Layout& layout) {
  std::vector<int> order(layout.devices.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    const auto key = [&](int rank) {
      const topo::NodeId device = layout.devices[static_cast<size_t>(rank)];
      return std::pair(layout.machine.node(device).host, layout.machine.numa_of(device));
    };
    return key(a) < key(b);
  });
  return order;
}

/// A tree as an order: the chains of the nodes one after the other, each from its head on.
std::vector<int> order_of_tree(const graph::Channel& tree, const std::vector<int>& node_of) {
  const auto n = tree.parent.size();
  std::vector<int> next(n, -1);
  std::vector<int> heads;
  for (size_t r = 0; r < n; ++r) {
    const int parent = tree.parent[r];
    if (parent >= 0 && node_of[static_cast<size_t>(parent)] == node_of[r]) {
      next[static_cast<size_t>(parent)] = static_cast<int>(r);
    } else {
      heads.push_back(static_cast<int>(r));
    }
  }
  std::vector<int> order;
  for (const int head : heads) {
    for (int r = head; r >= 0; r = next[static_cast<size_t>(r)]) order.push_back(r);
  }
  return order;
}

/// The start of an order, for the log.
std::string words(const std::vector<int>& order) {
  constexpr size_t kMost = 64;
  std::string text;
  for (size_t i = 0; i < std::min(order.size(), kMost); ++i) text.append(i == 0 ? "" : " ").append(std::to_string(order[i]));
  return order.size() > kMost ? text + " ..." : text;
}

/// What decides on the channels, beside the machine.
struct Wishes {
  graph::Limits limits;
  std::string graph_file;  ///< its text; "": none
  std::string graph_name;
};

/// Channels for machines that are too large to be searched, or whose parts nothing joins.
void take_plainly(Layout& layout) {
  const std::vector<int> order = plain_order(layout);
  graph::Channel ring, tree;
  ring.ring = order;
  tree.parent.assign(order.size(), -1);
  for (size_t i = 1; i < order.size(); ++i) tree.parent[static_cast<size_t>(order[i])] = order[i - 1];
  layout.rings = {ring};
  layout.trees = {tree};
  for (const topo::NodeId device : layout.devices) layout.node_of.push_back(layout.machine.node(device).host);
}

Result<> find_channels(Layout& layout, const Wishes& wishes) {
  graph::Limits ring_limits = wishes.limits, tree_limits = wishes.limits;
  if (!wishes.graph_file.empty()) {
    RONDE_TRY(const AskedOrders asked, asked_by_file(wishes.graph_file, wishes.graph_name, layout.machine, layout.devices));
    ring_limits.rules.asked = asked.rings;
    tree_limits.rules.asked = asked.trees;
  }
  auto rings = graph::find_channels(layout.machine, layout.devices, graph::Shape::ring, ring_limits);
  auto trees = graph::find_channels(layout.machine, layout.devices, graph::Shape::chain, tree_limits);
  if (rings.ok() && trees.ok()) {
    layout.node_of = rings->node_of;
    layout.rings = std::move(rings->channels);
    layout.trees = std::move(trees->channels);
  } else {
    const Error& error = rings.ok() ? trees.error() : rings.error();
    if (!ring_limits.rules.asked.empty() || !tree_limits.rules.asked.empty()) return error;
    RONDE_INFO(graph, "no search for channels, ranks are taken by host and NUMA node: {}", error.what);
    take_plainly(layout);
  }
  for (const graph::Channel& tree : layout.trees) layout.chains.push_back(order_of_tree(tree, layout.node_of));
  layout.nodes = node_shape(layout.node_of);
  return {};
}

uint64_t hash_of(const Layout& layout, std::string_view inputs) {
  uint64_t hash = fnv1a(topo::to_text(layout.machine), fnv1a(inputs));
  const auto add = [&](const std::vector<int>& numbers) {
    for (const int number : numbers) hash = fnv1a_u64(static_cast<uint64_t>(number), hash);
  };
  for (const graph::Channel& ring : layout.rings) {
    add(ring.ring);
    hash = fnv1a_u64(static_cast<uint64_t>(ring.rate), hash);
  }
  for (const graph::Channel& tree : layout.trees) {
    add(tree.parent);
    hash = fnv1a_u64(static_cast<uint64_t>(tree.rate), hash);
  }
  add(layout.node_of);
  return hash;
}

Result<std::shared_ptr<const Layout>> make_layout(const std::vector<Bytes>& texts, int ranks, const Wishes& wishes,
                                                  std::string_view inputs) {
  auto layout = std::make_shared<Layout>();
  std::vector<topo::Machine> machines;
  for (const Bytes& bytes : texts) {
    if (bytes.empty()) continue;
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    RONDE_TRY(topo::Reading reading, topo::from_text(text, "the machine of another rank"));
    machines.push_back(std::move(reading.machine));
  }
  RONDE_TRY(topo::Reading merged, topo::merge(machines));
  layout->machine = std::move(merged.machine);
  for (const std::string& note : merged.notes) RONDE_INFO(graph, "{}", note);
  layout->devices = devices_of(layout->machine, ranks);
  const auto lost = std::find(layout->devices.begin(), layout->devices.end(), topo::kNone);
  if (lost != layout->devices.end()) {
    return fail(Code::internal_error, fmt::format("rank {} has no device in the machine of all ranks", lost - layout->devices.begin()));
  }
  RONDE_TRY(find_channels(*layout, wishes));
  layout->hash = hash_of(*layout, inputs);
  RONDE_INFO(graph, "{} ranks on {} nodes: rings {} x {} MB/s, trees {} x {} MB/s; first ring {}", ranks, layout->nodes.nodes,
             layout->rings.size(), layout->rings[0].rate, layout->trees.size(), layout->trees[0].rate, words(layout->rings[0].ring));
  return std::shared_ptr<const Layout>(std::move(layout));
}

/// Ranks of one process have the same input: the first makes the Layout, the others wait for it and take it.
Result<std::shared_ptr<const Layout>> shared_layout(const std::vector<Bytes>& texts, int ranks, const Config& config) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<const Layout>> known;
  Wishes wishes{graph::limits_of(config), "", config.text(Setting::graph_file)};
  wishes.limits.max_channels = kMostChannels;
  // Who may read whose memory differs from rank to rank, and is the Fabric's to find out.
  wishes.limits.rules.shm = wishes.limits.rules.p2p = true;
  RONDE_TRY(wishes.graph_file, read_graph_file(config));
  std::string inputs = fmt::format("{}\n{}", graph::describe(wishes.limits), wishes.graph_file);
  for (const Bytes& bytes : texts) inputs += fmt::format("\n{}:{}", bytes.size(), std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  const std::lock_guard lock(mutex);
  if (std::shared_ptr<const Layout> there = known[inputs].lock()) return there;
  std::erase_if(known, [](const auto& one) { return one.second.expired(); });
  RONDE_TRY(std::shared_ptr<const Layout> made, make_layout(texts, ranks, wishes, inputs));
  known[inputs] = made;
  return made;
}

}  // namespace

Channel Layout::channel(int index, bool tree) const {
  const auto i = static_cast<size_t>(index);
  return {index, tree ? chains[i % chains.size()] : rings[i % rings.size()].ring, nodes.several() ? node_of : std::vector<int>()};
}

Result<std::shared_ptr<const Layout>> lay_out(Bootstrap& bootstrap, const Config& config, const Result<std::string>& gpu) {
  const uint64_t identity = host_identity(config);
  const auto host = host_of_process(config, identity, gpu.ok() && !gpu->empty());
  RONDE_TRY(const std::vector<Whereabouts> all, whereabouts(bootstrap, config, identity, host, gpu));
  const std::string mine = contribution(all, bootstrap.rank(), **host);
  const auto bytes = std::as_bytes(std::span(mine));
  RONDE_TRY(const std::vector<Bytes> texts, bootstrap.all_gather_parts({bytes.begin(), bytes.end()}));
  RONDE_TRY(std::shared_ptr<const Layout> layout, shared_layout(texts, bootstrap.size(), config));
  const topo::Machine& own = layout->machine.hosts.size() == 1 ? layout->machine : (*host)->reading.machine;
  for (const Result<>& dumped : {topo::dump_machine(config, bootstrap.rank(), own), dump_graphs(config, bootstrap.rank(), *layout)}) {
    if (!dumped.ok()) log_error(dumped.error());
  }
  return layout;
}

}  // namespace ronde
