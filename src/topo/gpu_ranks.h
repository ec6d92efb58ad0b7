// Ranks on the GPUs of a machine.
#pragma once

#include <cstdint>
#include <string_view>

#include "topo/machine.h"

namespace ronde::topo {

/// The GPU at that address ("0000:81:00.0") of the host with the identity `host`, or of the only one, whatever that is called; kNone where the machine
/// does not show it. Of several parts of one function the first.
NodeId gpu_at(const Machine& machine, std::string_view address, uint64_t host);

/// Sets the rank of a GPU.
void set_gpu_rank(Machine& machine, NodeId gpu, int rank);

}  // namespace ronde::topo
