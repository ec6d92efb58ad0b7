#include "topo/gpu_ranks.h"

namespace ronde::topo {

NodeId gpu_at(const Machine& machine, std::string_view text, uint64_t host) {
  const std::optional<PciAddress> address = parse_pci_address(text);
  if (!address) return kNone;
  for (const NodeId id : machine.of_kind(NodeKind::gpu)) {
    const Node& node = machine.node(id);
    if (machine.hosts.size() > 1 && machine.hosts[static_cast<size_t>(node.host)].hash != host) continue;
    const Pci* pci = machine.pci_of(id) != nullptr ? machine.pci_of(id) : machine.pci_of(node.parent);
    if (pci != nullptr && pci->address == *address) return id;
  }
  return kNone;
}

void set_gpu_rank(Machine& machine, NodeId gpu, int rank) { machine.gpus[static_cast<size_t>(machine.node(gpu).detail)].rank = rank; }

}  // namespace ronde::topo
