// Plans: the Programs of one shape of call on one rank, chosen and bound once, then kept.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/result.h"
#include "comm/algo_file.h"
#include "comm/layout.h"
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
  /// A user's Programs in `file` come before what would be chosen. `tuner` may be nullptr. A plugin is asked for every call, as its interface
  /// promises: then only Programs are kept.
  Plans(Seat& seat, const Layout& layout, const TuneRules& rules, const TuneInputs& inputs, const AlgoFile& file, const Tuner* tuner)
      : seat_(seat), layout_(layout), rules_(rules), inputs_(inputs), file_(file), tuner_(tuner) {}

  Result<std::shared_ptr<const Chosen>> find(const CallShape& shape);
  /// The choice and what it was made from; makes no Programs.
  Result<Evaluation> evaluate(const CallShape& shape) const;
  const TuneInputs& inputs() const { return inputs_; }
  const TuneRules& rules() const { return rules_; }

 private:
  /// The user's Programs for a call, or nullptr: also where the call needs canonical order and they do not have it.
  Result<const UserPlan*> user_plan(const CallShape& shape) const;
  Result<std::shared_ptr<const Plan>> plan(const CollSpec& spec, const Algorithm& algorithm, int channels);

  using ShapeKey = std::tuple<int, int, size_t, int, int>;  // coll, root, count, type, op
  using PlanKey = std::tuple<int, int, const Algorithm*, int>;
  Seat& seat_;
  const Layout& layout_;
  const TuneRules& rules_;
  TuneInputs inputs_;
  const AlgoFile& file_;
  const Tuner* tuner_;
  std::map<ShapeKey, std::shared_ptr<const Chosen>> chosen_;
  std::map<PlanKey, std::shared_ptr<const Plan>> plans_;
};

}  // namespace ronde
