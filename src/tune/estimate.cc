#include "tune/estimate.h"

#include <algorithm>

#include "tune/model.h"

namespace ronde {
namespace {

Estimate of(const Footprint& shape, int ranks, const Execution& run, const TuneInputs& inputs) {
  if (!shape.known) return {};
  Footprint work{.known = true, .blocks = shape.blocks, .widest = shape.widest};  // without hops: nothing is waited for
  work.busiest = shape.busiest;
  return {nanos_of(shape, ranks, run, inputs), nanos_of(work, ranks, run, inputs)};
}

}  // namespace

Estimate estimate(const CallShape& call, const Choice& choice, const TuneInputs& inputs) {
  if (call.count == 0) return {};
  const Footprint shape = footprint(choice.algorithm->name, call.spec, inputs.nodes);
  if (!shape.known) return {};  // a user's Programs: there is no model of them
  const Execution run{.block = largest_block(call.spec.coll, bytes_of(call), choice.channels, shape.blocks),
                      .slice = choice.slice,
                      .merged = choice.merged,
                      .channels = choice.channels};
  return of(shape, call.spec.ranks, run, inputs);
}

Estimate estimate_message(size_t bytes, const TuneInputs& inputs) {
  if (bytes == 0) return {};
  // One hop of one block: what a broadcast between two ranks is.
  const CollSpec spec{Coll::broadcast, 2, 0};
  const Execution run{.block = bytes, .slice = std::max<size_t>(64, inputs.slot_capacity)};
  return of(footprint("ring", spec), spec.ranks, run, inputs);
}

}  // namespace ronde
