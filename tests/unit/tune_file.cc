// RONDE_TUNE_FILE: constants of the cost model over the built-in ones.
#include "plan/costs.h"
#include "support/catch.h"
#include "support/scratch.h"
#include "support/tune.h"

using namespace ronde;
using namespace ronde::test;

namespace {

Error error_of(const std::string& path) {
  const Result<Costs> costs = costs_of(config_of({{"RONDE_TUNE_FILE", path}}));
  REQUIRE_FALSE(costs.ok());
  return costs.error();
}

}  // namespace

TEST_CASE("RONDE_TUNE_FILE replaces what it names of the built-in constants", "[tune][costs]") {
  CHECK(costs_of(config_of({})).value() == built_in_costs());
  const ScratchFile file("ronde-costs 1\ncpu.wake 7 ns\n");
  Costs expected = built_in_costs();
  expected.cpu_wake = 7;
  CHECK(costs_of(config_of({{"RONDE_TUNE_FILE", file.path()}})).value() == expected);
}

TEST_CASE("RONDE_TUNE_FILE: what is wrong names the variable, the file and the line", "[tune][costs]") {
  const ScratchFile file("ronde-costs 1\n\ncpu.wake seven ns\n");
  const Error broken = error_of(file.path());
  CHECK(broken.code == Code::invalid_usage);
  CHECK(contains(broken.what, "RONDE_TUNE_FILE: " + file.path() + ":3: \"seven\" is no whole number"));
  CHECK(contains(error_of("/nonexistent/costs").what, "RONDE_TUNE_FILE: reading the file '/nonexistent/costs'"));
  CHECK(contains(error_of("/tmp").what, "no regular file"));
}
