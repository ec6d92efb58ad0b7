// The choice for ranks on several nodes.
#include "support/catch.h"
#include "support/tune.h"

using namespace ronde;
using namespace ronde::test;

namespace {

Choice choose_for(const NodeShape& nodes, const std::map<std::string, std::string>& variables, size_t count = 1 << 20) {
  TuneInputs inputs = inputs_of(16);
  inputs.nodes = nodes;
  return choose({{Coll::all_reduce, 16, 0}, count, DataType::float32, ReduceOp::sum}, rules_of(variables), inputs).value();
}

}  // namespace

TEST_CASE("what is made for several nodes is considered on several, and on one only where it is named", "[nodes]") {
  const NodeShape two{2, 8, 8}, unlike{3, 4, 6}, one;
  CHECK(contains(choose_for(one, {}).reason, "5 algorithms"));
  CHECK(contains(choose_for(two, {}).reason, "6 algorithms"));
  CHECK(contains(choose_for(unlike, {}).reason, "6 algorithms"));
  CHECK(contains(choose_for(one, {{"NCCL_ALGO", "^ring"}}).reason, "4 algorithms"));
  CHECK(contains(choose_for(two, {{"NCCL_ALGO", "^ring"}}).reason, "5 algorithms"));
  for (const NodeShape& nodes : {one, two, unlike}) {
    CHECK(choose_for(nodes, {{"NCCL_ALGO", "hier"}}).algorithm->name == "hier");
    CHECK(contains(choose_for(nodes, {{"NCCL_ALGO", "Hier,ring"}}).reason, "admits 2 algorithms"));
  }
}

TEST_CASE("a fold over nodes is never taken where the order must be canonical", "[nodes]") {
  for (const char* algorithms : {"hier", "hier,tree", "^direct"}) {
    const Choice choice = choose_for({2, 8, 8}, {{"NCCL_ALGO", algorithms}, {"RONDE_DETERMINISTIC", "1"}});
    CHECK(choice.algorithm->canonical({Coll::all_reduce, 16, 0}));
  }
}
