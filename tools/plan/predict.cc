#include "tools/plan/predict.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "base/words.h"
#include "graph/channels.h"
#include "plan/algorithm.h"
#include "topo/copies.h"
#include "tools/plan/machine.h"
#include "tools/plan/names.h"

namespace ronde::plan::tool {
namespace {

constexpr size_t kMostRanks = 2048;
constexpr size_t kLinksShown = 2;

Error bad(const std::string& what) { return fail(Code::invalid_argument, what); }

Result<Protocol> protocol_of(const std::string& name) {
  for (int p = 0; p < kProtocols; ++p) {
    if (same_word(name, to_string(static_cast<Protocol>(p)))) return static_cast<Protocol>(p);
  }
  return bad(fmt::format("\"{}\" is no protocol; there are simple, ll and ll128", name));
}

std::string end_of(const topo::Machine& machine, topo::ArcId arc, bool end) {
  const topo::Link& link = machine.link(topo::link_of(arc));
  return topo::describe(machine, (arc % 2 == 0) == end ? link.b : link.a);
}

std::string links_of(const topo::Machine& machine, const Simulation& it) {
  std::string text;
  for (size_t i = 0; i < std::min(kLinksShown, it.links.size()); ++i) {
    const LinkUse& use = it.links[i];
    text += fmt::format("{}{} to {} {}%", i == 0 ? "" : ", ", end_of(machine, use.arc, false), end_of(machine, use.arc, true),
                        use.permille / 10);
  }
  return text;
}

std::string chain_of(const Chain& chain) {
  return fmt::format("launch {:.1f}, slots {:.1f}, data {:.1f}, network {:.1f}, latency {:.1f} over {} hops, room {:.1f}",
                     chain.launch / 1e3, chain.slots / 1e3, chain.data / 1e3, chain.carried / 1e3, chain.latency / 1e3,
                     chain.hops, chain.room / 1e3);
}

/// Whether the closed form stands for the events.
bool beyond_events(const topo::Machine& machine, const Scenario& scenario) {
  const auto gpus = static_cast<int64_t>(machine.of_kind(topo::NodeKind::gpu).size());
  return gpus * scenario.copies > kMostByEvents && same_word(scenario.coll, name_of(Coll::all_reduce)) && same_word(scenario.algorithm, "ring");
}

std::string head_of(const Scenario& scenario, int64_t ranks, size_t channels) {
  return fmt::format("# {} of {} ranks, {}, {}, {} channels, slices of {} bytes\n", scenario.coll, ranks, scenario.algorithm, scenario.protocol,
                     channels, scenario.slice);
}

std::string row_of(const SimCall& call, uint64_t bytes, int64_t nanos, const std::string& rest) {
  const int64_t algbw = nanos == 0 ? 0 : static_cast<int64_t>(static_cast<__int128>(size_of_call(call)) * 1000 / nanos);
  return fmt::format("{:>14} {:>12.1f} {:>10.2f} {:>10.2f}{}\n", bytes, nanos / 1e3, algbw / 1e3, busbw_of(call, nanos) / 1e3, rest);
}

constexpr const char* kColumns = "{:>14} {:>12} {:>10} {:>10}{}\n";

Result<std::string> sizes_by_closed_form(const topo::Machine& machine, const Scenario& scenario, const Costs& costs,
                                         const std::vector<uint64_t>& sizes) {
  RONDE_TRY(EvenRing ring, even_ring_of(machine, scenario));
  Conditions conditions;
  RONDE_TRY(conditions.protocol, protocol_of(scenario.protocol));
  conditions.slice = scenario.slice;
  conditions.costs = &costs;
  std::string text = head_of(scenario, ring.ranks, static_cast<size_t>(ring.channels));
  text += fmt::format("# by the closed form: rings of more than {} ranks are not run event by event\n", kMostByEvents);
  text += fmt::format(kColumns, "bytes", "us", "algbw GB/s", "busbw GB/s", "");
  for (const uint64_t bytes : sizes) {
    ring.bytes = bytes;
    text += row_of({{Coll::all_reduce, static_cast<int>(ring.ranks), 0}, bytes}, bytes, even_ring_nanos(ring, conditions), "");
  }
  return text;
}

}  // namespace

Result<Plan> Plan::make(const topo::Machine& machine, const Scenario& scenario, const Costs& costs) {
  if (scenario.copies < 1 || scenario.slots < 1 || scenario.slice < 1) return bad("copies, slots and slice have to be above 0");
  const size_t one = std::max(machine.of_kind(topo::NodeKind::gpu).size(), machine.of_kind(topo::NodeKind::cpu_rank).size());
  if (one * static_cast<size_t>(scenario.copies) > kMostRanks) {
    return bad(fmt::format("{} copies of {} devices are more than the {} ranks that are simulated event by event; more are possible for AllReduce by ring of GPUs", scenario.copies, one, kMostRanks));
  }
  Plan plan;
  plan.machine_ = topo::copies(machine, scenario.copies);
  plan.devices_ = plan.machine_.of_kind(topo::NodeKind::gpu);
  if (plan.devices_.empty()) plan.devices_ = plan.machine_.of_kind(topo::NodeKind::cpu_rank);
  if (plan.devices_.empty()) return bad("the machine has neither GPUs nor CPU ranks; name a machine file that has some (docs/topology.md: gpu, cpurank)");
  plan.spec_.ranks = static_cast<int>(plan.devices_.size());
  RONDE_TRY(plan.spec_.coll, collective_named(scenario.coll));
  RONDE_TRY(const Algorithm* const algorithm, algorithm_named(scenario.algorithm));
  if (!algorithm->supports(plan.spec_)) return bad(fmt::format("{} does not exist for {}", algorithm->name, name_of(plan.spec_.coll)));
  graph::Limits limits;
  if (scenario.channels > 0) limits.max_channels = scenario.channels;
  RONDE_TRY(graph::Joined joined, graph::find_channels(plan.machine_, plan.devices_, graph::Shape::ring, limits));
  plan.channels_ = std::move(joined.channels);
  for (size_t c = 0; c < plan.channels_.size(); ++c) {
    size_t same = 0;
    while (plan.channels_[same].ring != plan.channels_[c].ring) ++same;
    if (same < c) {
      plan.world_of_.push_back(plan.world_of_[same]);
      continue;
    }
    plan.world_of_.push_back(plan.worlds_.size());
    Channel order;
    order.index = static_cast<int>(c);
    order.ring = plan.channels_[c].ring;
    order.node_of = joined.node_of;
    plan.worlds_.emplace_back();
    for (int rank = 0; rank < plan.spec_.ranks; ++rank) {
      RONDE_TRY(Program program, algorithm->build(plan.spec_, order, rank));
      plan.worlds_.back().push_back(std::move(program));
    }
  }
  RONDE_TRY(plan.conditions_.protocol, protocol_of(scenario.protocol));
  plan.conditions_.slots = scenario.slots;
  plan.conditions_.slice = scenario.slice;
  plan.conditions_.one_process = !scenario.processes;
  plan.costs_ = costs;
  return plan;
}

Result<Simulation> Plan::run(uint64_t bytes) const {
  std::vector<SimChannel> channels;
  for (size_t c = 0; c < channels_.size(); ++c) channels.push_back({worlds_[world_of_[c]], &channels_[c]});
  Conditions conditions = conditions_;
  conditions.costs = &costs_;
  return simulate(machine_, devices_, call(bytes), channels, conditions);
}

SimCall Plan::call(uint64_t bytes) const {
  return {spec_, counts_per_rank(spec_.coll) ? bytes / static_cast<uint64_t>(spec_.ranks) : bytes};
}

Result<EvenRing> even_ring_of(const topo::Machine& machine, const Scenario& scenario) {
  const int sample = std::min(scenario.copies, 2);  // the rates of rings do not depend on the number of nodes
  RONDE_TRY(const MachineRanks part, ranks_of(machine, sample, scenario.channels > 0 ? scenario.channels : graph::Limits().max_channels));
  if (part.links.inside == 0) return bad("the closed form is for rings of two GPUs or more");
  EvenRing ring;
  ring.ranks = int64_t{part.ranks} / sample * scenario.copies;
  ring.channels = part.links.channels;
  ring.kind = part.links.kind;
  ring.rate = part.links.inside;
  ring.nodes = int64_t{part.nodes.nodes} * scenario.copies / sample;
  ring.network = part.links.network;
  return ring;
}

Result<std::string> simulate_sizes(const topo::Machine& machine, const Scenario& scenario, const Costs& costs,
                                   const std::vector<uint64_t>& sizes) {
  if (beyond_events(machine, scenario)) return sizes_by_closed_form(machine, scenario, costs, sizes);
  RONDE_TRY(const Plan plan, Plan::make(machine, scenario, costs));
  std::string text = head_of(scenario, plan.ranks(), plan.channels());
  text += fmt::format(kColumns, "bytes", "us", "algbw GB/s", "busbw GB/s", "  busiest links; where the time goes, us");
  for (const uint64_t bytes : sizes) {
    RONDE_TRY(const Simulation it, plan.run(bytes));
    text += row_of(plan.call(bytes), bytes, it.nanos, fmt::format("  {}; {}", links_of(plan.machine(), it), chain_of(it.chain)));
  }
  return text;
}

Result<uint64_t> size_of_text(const std::string& text) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  const std::string_view unit(at, static_cast<size_t>(end - at));
  int shift = -1;
  if (unit.empty()) shift = 0;
  if (same_word(unit, "K")) shift = 10;
  if (same_word(unit, "M")) shift = 20;
  if (same_word(unit, "G")) shift = 30;
  if (error != std::errc() || shift < 0 || value == 0 || value > (uint64_t{1} << 44 >> shift)) {
    return bad(fmt::format("\"{}\" is no size; write bytes, or a number with K, M or G, up to 16384G", text));
  }
  return value << shift;
}

}  // namespace ronde::plan::tool
