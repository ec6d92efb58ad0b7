#include <span>
#include <string>

#include "fuzz/target.h"
#include "plan/text.h"
#include "plan/verify.h"

namespace {

using namespace ronde;

/// Small enough to be proved, or refuted, in milliseconds.
bool small(const Schedule& schedule) {
  size_t moves = 0;
  size_t blocks = 0;
  for (const Program& program : schedule.world) {
    blocks += program.blocks + program.scratch_blocks;
    for (const auto& lane : program.lanes) moves += lane.size();
  }
  return schedule.spec.ranks <= 8 && schedule.world.size() <= 32 && moves <= 500 && blocks <= 500;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto schedule = from_text(fuzz::text_of(data, size));
  if (!schedule.ok()) return 0;
  const std::string text = to_text(*schedule);
  const auto again = from_text(text);
  fuzz::require(again.ok(), again.ok() ? "" : again.error().what + " in\n" + text);
  fuzz::require(*again == *schedule, "Programs that come back are others:\n" + text);
  const auto ranks = static_cast<size_t>(schedule->spec.ranks);
  if (!small(*schedule) || schedule->world.size() < ranks) return 0;
  for (const bool in_place : {false, true}) {
    VerifyOptions options;
    options.in_place = in_place;
    (void)verify(schedule->spec, std::span(schedule->world).first(ranks), options);
  }
  return 0;
}
