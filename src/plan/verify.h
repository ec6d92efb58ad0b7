// Proves a set of Programs right before any byte moves.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/program.h"
#include "plan/text.h"

namespace ronde {

/// What verify found. `faults` is empty exactly when the Programs are right; each fault is a sentence with rank, lane, Move and block.
struct Verdict {
  std::vector<std::string> faults;
  int min_slots = 0;       ///< the least slots per connection with which every interleaving ends (0 where it never does)
  bool canonical = false;  ///< each reduction is one left fold over ranks 0..n-1 in one Move
  bool ok() const { return faults.empty(); }
};

struct VerifyOptions {
  bool in_place = false;
  int slots = 2;        ///< of each connection; a Program that needs more is a fault
  bool lending = true;  ///< slots lend addresses unless kMoveNoLend: what is lent must not be overwritten before the reader is done
};

/// `world` holds one Program per rank, in rank order, all of one channel. Checks: shape (indices, one lane per connection and direction,
/// matching slot counts at both ends), content of each output block, deadlock, races between lanes, loans, and that input stays unwritten.
Verdict verify(const CollSpec& spec, std::span<const Program> world, const VerifyOptions& options = {});

/// The Programs of each channel of a Schedule; at least one channel. invalid_argument says what is missing: a Program for each rank, channels
/// in order from 0, as many blocks on each.
Result<std::vector<std::span<const Program>>> channels_of(const Schedule& schedule);

}  // namespace ronde
