#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "fuzz/target.h"
#include "graph/load.h"
#include "graph/search.h"
#include "topo/merge.h"
#include "topo/text.h"

namespace ronde::fuzz {
namespace {

using topo::Machine;
using topo::NodeId;
using topo::NodeKind;

// So that an input takes milliseconds: the readers' own limits are far beyond.
constexpr size_t kMaxNodes = 1000;
constexpr size_t kMaxLinks = 4000;
constexpr size_t kMaxDevices = 12;
constexpr int64_t kSteps = 2000;

void channels_fit(const Machine& machine) {
  std::vector<NodeId> devices = machine.of_kind(NodeKind::gpu);
  for (const NodeId id : machine.of_kind(NodeKind::cpu_rank)) devices.push_back(id);
  devices.resize(std::min(devices.size(), kMaxDevices));
  if (devices.empty()) return;
  for (const graph::Shape shape : {graph::Shape::ring, graph::Shape::chain}) {
    graph::Limits limits;
    limits.steps = kSteps;
    const auto found = graph::search(machine, devices, shape, limits);
    if (!found.ok()) continue;
    const graph::Load load = graph::load_of(machine, devices, found->channels);
    for (const std::string& fault : load.faults) require(false, fault);
    for (const graph::Overload& over : load.over) require(false, describe(machine, over));
  }
}

}  // namespace

void require(bool promise, const std::string& what) {
  if (promise) return;
  std::fprintf(stderr, "broken promise: %s\n", what.c_str());
  std::abort();
}

void plan(const Machine& machine) {
  const auto faults = check(machine);
  require(faults.empty(), faults.empty() ? "" : faults[0]);
  if (machine.nodes.size() > kMaxNodes || machine.links.size() > kMaxLinks) return;
  const std::string text = to_text(machine);
  const auto again = topo::from_text(text, "text");
  require(again.ok(), again.ok() ? "" : again.error().what + " in\n" + text);
  require(again->machine == machine, "the machine that comes back from its text is another one:\n" + text);
  const auto merged = topo::merge(std::vector<Machine>{machine, machine});
  require(merged.ok() && merged->machine == machine, "merged with itself a machine is another one:\n" + text);
  require(check(topo::complete(machine, topo::without_ranks(machine)).machine).empty(),
          "a completed machine has faults:\n" + text);
  channels_fit(machine);
}

}  // namespace ronde::fuzz
