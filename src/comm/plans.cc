#include "comm/plans.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/hash.h"
#include "base/log.h"

namespace ronde {
namespace {

constexpr size_t kKeptShapes = 1024;
constexpr size_t kKeptPlans = 256;

}  // namespace

Result<const UserPlan*> Plans::user_plan(const CallShape& shape) const {
  const UserPlan* user = file_.find(shape.spec);
  const std::string_view canonical = canonical_reason(shape, rules_);
  if (user == nullptr || canonical.empty() || user->canonical) return user;
  const std::string what = fmt::format("RONDE_ALGO_FILE for {}: {} needs canonical order (one left fold over the ranks), which its Programs do not give",
                                       name_of(shape.spec.coll), canonical);
  if (rules_.strict()) return fail(Code::invalid_usage, what + ". RONDE_STRICT=1 makes this an error");
  log_once(what + "; they are not used");
  return static_cast<const UserPlan*>(nullptr);
}

Result<Evaluation> Plans::evaluate(const CallShape& shape) const {
  RONDE_TRY(const UserPlan* user, user_plan(shape));
  if (user == nullptr) return ronde::evaluate(shape, rules_, inputs_, tuner_);
  // The call runs by the user's Programs whatever could be chosen instead: a plugin is not asked, and that nothing could be is no error.
  Result<Evaluation> others = ronde::evaluate(shape, rules_, inputs_, nullptr);
  Evaluation made = others.ok() ? std::move(others).value() : Evaluation();
  made.choice = file_.choice_of(*user, shape, rules_, inputs_);
  for (Alternative& one : made.alternatives) {
    if (one.outcome == Outcome::chosen) one.outcome = Outcome::slower;
  }
  return made;
}

Result<std::shared_ptr<const Plan>> Plans::plan(const CollSpec& spec, const Algorithm& algorithm, int channels) {
  const PlanKey key{static_cast<int>(spec.coll), has_root(spec.coll) ? spec.root : 0, &algorithm, channels};
  const auto at = plans_.find(key);
  if (at != plans_.end()) return at->second;
  auto made = std::make_shared<Plan>();
  for (int c = 0; c < channels; ++c) {
    if (const UserPlan* user = &algorithm == &kFromFile ? file_.find(spec) : nullptr) {
      made->programs.push_back(user->program(seat_.rank(), c));
      continue;
    }
    const bool tree = algorithm.name == "tree" || algorithm.name == "chain";
    RONDE_TRY(Program program, algorithm.build(spec, layout_.channel(c, tree), seat_.rank()));
    made->programs.push_back(std::move(program));
  }
  for (const Program& program : made->programs) {
    BoundProgram bound{&program, {}};
    std::vector<bool> writes(program.peers.size());
    for (const auto& lane : program.lanes) {
      for (const Move& move : lane) {
        made->most_blocks = std::max(made->most_blocks, move.n_blocks);
        for (uint32_t i = 0; i < move.out_count; ++i) writes[move.out_first + i] = true;
      }
    }
    for (size_t i = 0; i < program.peers.size(); ++i) {
      const int link = program.channel * kMaxLinks + static_cast<int>(program.peers[i].link);
      RONDE_TRY(Port * port, seat_.port(program.peers[i].rank, link, writes[i]));
      bound.ports.push_back(port);
    }
    made->bound.push_back(std::move(bound));
  }
  if (plans_.size() >= kKeptPlans) plans_.clear();  // a program that uses more roots than that pays for building again
  plans_[key] = made;
  return std::shared_ptr<const Plan>(made);
}

Result<std::shared_ptr<const Chosen>> Plans::find(const CallShape& shape) {
  const ShapeKey key{static_cast<int>(shape.spec.coll), shape.spec.root, shape.count, static_cast<int>(shape.type), static_cast<int>(shape.op)};
  const auto at = chosen_.find(key);
  if (at != chosen_.end()) return at->second;
  auto made = std::make_shared<Chosen>();
  RONDE_TRY(const UserPlan* user, user_plan(shape));
  if (user != nullptr) {
    made->choice = file_.choice_of(*user, shape, rules_, inputs_);
  } else {
    RONDE_TRY(made->choice, choose(shape, rules_, inputs_, tuner_));
  }
  RONDE_TRY(made->plan, plan(shape.spec, *made->choice.algorithm, made->choice.channels));
  made->algorithm_index = static_cast<int>(user != nullptr ? std::ssize(algorithms()) : made->choice.algorithm - algorithms().data());
  made->choice_hash = fnv1a_u64(made->choice.slice, fnv1a_u64(static_cast<uint64_t>(made->choice.channels),
                                                             fnv1a_u64(made->choice.merged ? 1 : 0, fnv1a("choice"))));
  if (tuner_ != nullptr) return std::shared_ptr<const Chosen>(made);
  if (chosen_.size() >= kKeptShapes) chosen_.clear();
  chosen_[key] = made;
  return std::shared_ptr<const Chosen>(made);
}

}  // namespace ronde
