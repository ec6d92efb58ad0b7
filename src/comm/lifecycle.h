// Communicators made from communicators.
#pragma once

#include <memory>
#include <span>

#include "comm/communicator.h"

namespace ronde {

/// What a split or shrink will make: the child's object (nullptr: this rank has no part in it) and the job that brings it up.
struct Offspring {
  std::shared_ptr<Communicator> child;
  std::function<Result<>()> job;
};

/// color >= 0, or negative for no part. Collective over the parent's ranks, here already: colors and keys are exchanged at once when blocking.
Result<Offspring> split(const std::shared_ptr<Communicator>& parent, int color, int key, const CommOptions& own);

/// Without the excluded ranks; called by the others alone. `abort_first`: what the parent has in flight is ended before.
Result<Offspring> shrink(const std::shared_ptr<Communicator>& parent, std::span<const int> excluded, bool abort_first, const CommOptions& own);

}  // namespace ronde
