// RONDE_ALGO_FILE: a user's own Programs, proven before they run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/result.h"
#include "plan/text.h"
#include "tune/choose.h"

namespace ronde {

/// What stands where a choice names an algorithm of the registry; its name is "file".
extern const Algorithm kFromFile;

/// A user's Programs for one collective, number of ranks and root.
struct UserPlan {
  PlacedSchedule placed;
  int channels = 1;
  uint32_t widest = 1;     ///< largest Move::n_blocks
  bool canonical = false;  ///< proven; see Algorithm
  const Program& program(int rank, int channel) const {
    return placed.schedule.world[static_cast<size_t>(channel * placed.schedule.spec.ranks + rank)];
  }
};

/// The Schedules of a file. Immutable once prove() has returned.
class AlgoFile {
 public:
  /// Reads RONDE_ALGO_FILE; where it is not set, an object without Schedules. Errors name the variable, the file and the line.
  static Result<AlgoFile> read(const Config& config);

  /// Of the contents, whatever the file's name; "none" without a file. Equal on all ranks of a communicator, or it cannot come
  /// up.
  const std::string& fingerprint() const { return fingerprint_; }
  /// Keeps the Schedules for `ranks` and proves them, in place and not, for connections of `slots` slots; the others are for
  /// other communicators. Errors (invalid_usage) name the variable, file, line and faults.
  Result<> prove(int ranks, uint32_t slots, int most_channels);
  /// The Programs for a call, or nullptr.
  const UserPlan* find(const CollSpec& spec) const;
  /// How a call runs by `plan`: in slices of a slot, or of a quarter of the block where that is less. Without an estimate
  /// (UINT64_MAX).
  Choice choice_of(const UserPlan& plan, const CallShape& call, const TuneRules& rules, const TuneInputs& inputs) const;

 private:
  std::string path_;
  std::string fingerprint_ = "none";
  std::vector<UserPlan> plans_;
};

}  // namespace ronde
