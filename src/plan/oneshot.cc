// Oneshot: every rank sends its whole input to every other and folds all of them itself. One step, n times the traffic: for the
// smallest data. Sends copy into the slot, because in place the fold overwrites what others may still be reading.
#include "plan/build.h"

namespace ronde {
namespace {

bool supports(const CollSpec& spec) { return spec.coll == Coll::all_reduce; }

bool canonical(const CollSpec&) { return true; }

Result<Program> build(const CollSpec& spec, const Channel& channel, int rank) {
  if (spec.ranks == 1) return alone(spec, channel);
  Builder b(spec, channel, rank, 1);
  const std::vector<Peer> others = b.others();
  b.add(0, {.src = input(0), .out = others, .flags = kMoveNoLend});
  b.add(0, {.in = others, .src = input(0), .dst = output(0), .flags = kMoveFinal});
  return b.take();
}

}  // namespace

constinit const Algorithm kOneshot{"oneshot", supports, canonical, build};

}  // namespace ronde
