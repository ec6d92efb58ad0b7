// The alternatives of a choice: every algorithm, its cost, and why it was not taken; as text and as JSON.
#include "tune/explain.h"

#include <nlohmann/json.hpp>

#include "support/catch.h"
#include "support/tune.h"

using namespace ronde;
using namespace ronde::test;

namespace {

const CallShape kCall{{Coll::all_reduce, 8, 0}, 1000, DataType::float32, ReduceOp::sum};

const Alternative& named(const Evaluation& made, std::string_view name) {
  for (const Alternative& one : made.alternatives) {
    if (one.algorithm->name == name) return one;
  }
  FAIL("no alternative " << name);
  return made.alternatives.front();
}

std::string why_not(std::string_view name, const CallShape& call, const std::map<std::string, std::string>& variables) {
  const TuneRules rules = rules_of(variables);
  const Evaluation made = evaluate(call, rules, inputs_of(call.spec.ranks)).value();
  return why(named(made, name), call, rules, made);
}

}  // namespace

TEST_CASE("an evaluation has every algorithm, one chosen, and none cheaper among those that could be", "[tune]") {
  for (const Coll coll :
       {Coll::all_reduce, Coll::broadcast, Coll::reduce, Coll::all_gather, Coll::reduce_scatter, Coll::all_to_all}) {
    for (const size_t count : {size_t{1}, size_t{1000}, size_t{1} << 24}) {
      for (const std::map<std::string, std::string>& variables :
           {std::map<std::string, std::string>{}, {{"NCCL_ALGO", "ring,direct"}}, {{"RONDE_DETERMINISTIC", "1"}}}) {
        const CallShape call{{coll, 6, 0}, count, DataType::float32, ReduceOp::sum};
        const Evaluation made = evaluate(call, rules_of(variables), inputs_of(6)).value();
        CAPTURE(name_of(coll), count, variables.size());
        REQUIRE(made.alternatives.size() == algorithms().size());
        int chosen = 0;
        for (const Alternative& one : made.alternatives) {
          if (!one.algorithm->supports(call.spec)) CHECK(one.outcome == Outcome::unsupported);
          if (one.outcome == Outcome::slower) CHECK(one.nanos >= made.choice.nanos);
          if (one.outcome != Outcome::chosen) continue;
          ++chosen;
          CHECK(one.algorithm == made.choice.algorithm);
          CHECK(one.nanos == made.choice.nanos);
          CHECK(one.slice == made.choice.slice);
        }
        CHECK(chosen == 1);
        CHECK(choose(call, rules_of(variables), inputs_of(6)).value().algorithm == made.choice.algorithm);
      }
    }
  }
}

TEST_CASE("each alternative says why it was not taken", "[tune]") {
  CHECK(contains(why_not("ring", kCall, {{"NCCL_ALGO", "tree"}}), "NCCL_ALGO=tree does not admit it"));
  CHECK(contains(why_not("ring", kCall, {{"RONDE_DETERMINISTIC", "1"}}),
                 "RONDE_DETERMINISTIC=1 needs canonical order, which it does not give"));
  CHECK(why_not("tree", {{Coll::all_gather, 8, 0}, 10, DataType::int8, ReduceOp::sum}, {}) == "does not exist for AllGather");
  CHECK(contains(why_not("ring", kCall, {}), " us longer"));
  // Of what is not admitted the cost is known all the same: it is what the rule costs.
  const Evaluation made = evaluate(kCall, rules_of({{"NCCL_ALGO", "tree"}}), inputs_of(8)).value();
  CHECK(named(made, "ring").nanos == named(evaluate(kCall, rules_of({}), inputs_of(8)).value(), "ring").nanos);
}

TEST_CASE("the explanation as text has a line for each algorithm", "[tune]") {
  const TuneRules rules = rules_of({{"NCCL_ALGO", "ring,tree"}});
  const Evaluation made = evaluate(kCall, rules, inputs_of(8)).value();
  const std::string text = explain_text(kCall, rules, made);
  INFO(text);
  CHECK(static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) == 2 + algorithms().size());
  CHECK(contains(text, "AllReduce of 1000 float (4000 bytes) on 8 ranks: "));
  for (const Algorithm& one : algorithms()) CHECK(contains(text, "\n  " + std::string(one.name) + " "));
}

TEST_CASE("the explanation as JSON says the same", "[tune]") {
  for (const Coll coll : {Coll::all_reduce, Coll::broadcast, Coll::all_gather}) {
    const CallShape call{{coll, 8, 0}, 1000, DataType::float32, ReduceOp::sum};
    const TuneRules rules = rules_of({{"NCCL_ALGO", "ring,tree"}});
    const Evaluation made = evaluate(call, rules, inputs_of(8)).value();
    const std::string text = explain_json(call, rules, made);
    INFO(text);
    const nlohmann::json json = nlohmann::json::parse(text);
    CHECK(json["call"] == std::string(name_of(coll)));
    CHECK(json["bytes"] == 4000);
    CHECK(json["op"].is_null() == !has_reduction(coll));
    CHECK(json["root"].is_null() == !has_root(coll));
    CHECK(json["choice"]["algorithm"] == std::string(made.choice.algorithm->name));
    CHECK(static_cast<uint64_t>(json["choice"]["microseconds"].get<double>() * 1000 + 0.5) == made.choice.nanos);
    REQUIRE(json["alternatives"].size() == algorithms().size());
    for (size_t i = 0; i < made.alternatives.size(); ++i) {
      const nlohmann::json& one = json["alternatives"][i];
      CHECK(one["algorithm"] == std::string(made.alternatives[i].algorithm->name));
      CHECK(one["microseconds"].is_null() == (made.alternatives[i].outcome == Outcome::unsupported));
      CHECK(one["why"] == why(made.alternatives[i], call, rules, made));
    }
  }
  const CallShape huge{{Coll::all_reduce, 8, 0}, SIZE_MAX, DataType::float64, ReduceOp::sum};
  const Evaluation made = evaluate(huge, rules_of({}), inputs_of(8)).value();
  CHECK(nlohmann::json::parse(explain_json(huge, rules_of({}), made))["bytes"].is_null());
}
