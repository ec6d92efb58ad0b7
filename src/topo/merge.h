// One Machine from several that describe the same hosts, or parts of a cluster.
#pragma once

#include <span>

#include "base/result.h"
#include "topo/machine.h"

namespace ronde::topo {

/// The machines of all ranks as one. Hosts are the same where their hash is (0 is one unnamed host: name hosts first); what of
/// them is one thing is found by bus id, NUMA node, rank, and names of ports. Whatever any of the machines has is in the result:
/// ranks' devices, devices that only some processes see, details that only some know. Where they contradict each other, the
/// machine that names the lowest rank counts, and a note says so (what the machines' own sources left open is noted there alone).
/// Hosts are in the order of the lowest ranks that their machines name. NVLink switches join GPUs of several hosts where
/// Gpu::domain says so, or one of the machines does. The network joins all ports; their rail and plane are kept. The same
/// machines in any order give the same result, and of one machine the same one comes back, but for the order of hosts. Takes time
/// in proportion to what is given; one machine per host, or the same one for many ranks, is enough where they are alike. The one
/// error: no machine at all.
Result<Reading> merge(std::span<const Machine> machines);

/// `first`, and whatever `more` has of the same hosts that is not in it: details that `first` leaves unknown, devices and ports
/// that it lacks, and what PCI functions are that it does not know. CPUs of a NUMA node are those that both have, where both say
/// which. Notes are about contradictions, in which `first` counts, and what the result itself still leaves open.
Reading complete(const Machine& first, const Machine& more);

/// The machine without what it says of a communicator: no GPU has a rank, and there are no CPU ranks.
Machine without_ranks(Machine machine);

}  // namespace ronde::topo
