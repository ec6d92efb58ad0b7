// Plans: the Programs of one shape of call on one rank, chosen and bound once, then kept.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/result.h"
#include "exec/work.h"
#include "tune/choose.h"

namespace ronde {

/// Programs of one rank, one per channel, with their ports.
struct Plan {
  std::vector<Program> programs;
  std::vector<BoundProgram> bound;
  uint32_t most_blocks = 1;  ///< largest Move::n_blocks
};

/// What a call of one shape does.
struct Chosen {
  Choice choice;
  std::shared_ptr<const Plan> plan;
  int algorithm_index = 0;
  uint64_t choice_hash = 0;
};

/// The cache of a communicator. One thread at a time, as the communicator itself.
class Plans {
 public:
  Plans(Seat& seat, const TuneRules& rules, const TuneInputs& inputs) : seat_(seat), rules_(rules), inputs_(inputs) {}

  Result<std::shared_ptr<const Chosen>> find(const CallShape& shape);
  /// The choice alone; makes nothing.
  Result<Choice> choose_only(const CallShape& shape) const { return choose(shape, rules_, inputs_); }
  const TuneInputs& inputs() const { return inputs_; }

 private:
  Result<std::shared_ptr<const Plan>> plan(const CollSpec& spec, const Algorithm& algorithm, int channels);

  using ShapeKey = std::tuple<int, int, size_t, int, int>;  // coll, root, count, type, op
  using PlanKey = std::tuple<int, int, const Algorithm*, int>;
  Seat& seat_;
  const TuneRules& rules_;
  TuneInputs inputs_;
  std::map<ShapeKey, std::shared_ptr<const Chosen>> chosen_;
  std::map<PlanKey, std::shared_ptr<const Plan>> plans_;
};

}  // namespace ronde
