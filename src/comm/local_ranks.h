// The ranks of each communicator that live in this process.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace ronde {

class Communicator;

/// Enters a communicator that is up. forget_local_rank must come before its end; unknown ones are ignored.
void note_local_rank(const std::array<uint64_t, 2>& token, Communicator& comm);
void forget_local_rank(Communicator& comm);
/// Those of one communicator (by its bootstrap's token) that have not begun to end, the caller's included.
std::vector<std::shared_ptr<Communicator>> local_ranks(const std::array<uint64_t, 2>& token);

}  // namespace ronde
