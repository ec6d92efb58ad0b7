// ronde-plan explain: the choice for ranks that need not exist.
#include "tools/plan/explain.h"

#include <nlohmann/json.hpp>

#include "support/catch.h"
#include "support/tune.h"

using namespace ronde;
using namespace ronde::test;
using plan::tool::explain;
using plan::tool::ExplainOptions;

namespace {

std::string text_of(const ExplainOptions& options, const std::map<std::string, std::string>& variables = {}) {
  return explain(options, config_of(variables)).value();
}

nlohmann::json json_of(ExplainOptions options, const std::map<std::string, std::string>& variables = {}) {
  options.json = true;
  return nlohmann::json::parse(text_of(options, variables));
}

std::string error_of(const ExplainOptions& options) {
  const Result<std::string> made = explain(options, config_of({}));
  return made.ok() ? "" : made.error().what;
}

}  // namespace

TEST_CASE("explain for a range of sizes: a line each, the chosen marked, and why others are out", "[explain]") {
  ExplainOptions options{.ranks = 8, .cores = 8};
  options.least = 1024;
  options.most = 1 << 20;
  const std::string text = text_of(options, {{"NCCL_ALGO", "ring,tree"}});
  INFO(text);
  const auto lines = static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  CHECK(std::count(text.begin(), text.end(), '*') == 6 + 1);  // six sizes, and the title
  CHECK(lines >= 2 + 6 + 3);
  CHECK(contains(text, "AllReduce of float, sum, 8 ranks, 1 to a core, threads of one process"));
  CHECK(contains(text, "\ndirect: NCCL_ALGO=ring,tree does not admit it\n"));
}

TEST_CASE("explain knows what is made for several nodes", "[explain]") {
  CHECK(contains(text_of({.ranks = 8, .cores = 8}), "hier: is made for ranks on several nodes"));
  CHECK_FALSE(contains(text_of({.ranks = 8, .cores = 8, .nodes = 2}), "hier: "));
}

TEST_CASE("explain for one size is the explanation in full", "[explain]") {
  ExplainOptions options{.ranks = 4, .cores = 4, .call = "allgather", .type = "INT8"};
  options.least = options.most = 4096;
  const std::string text = text_of(options);
  CHECK(contains(text, "AllGather of 1024 int8 (1024 bytes) on 4 ranks: "));
  CHECK(contains(text, "  why: "));
  CHECK(contains(text, "does not exist for AllGather"));
}

TEST_CASE("explain as JSON is what the choice says, size by size", "[explain]") {
  ExplainOptions options{.ranks = 6, .cores = 2, .processes = true};
  options.least = 1;
  options.most = UINT64_MAX;
  options.factor = 1000;
  TuneInputs inputs = inputs_of(6, 3);
  inputs.one_process = false;
  const nlohmann::json json = json_of(options);
  REQUIRE(json.size() == 7);
  size_t bytes = 1;
  for (const nlohmann::json& one : json) {
    const Choice choice =
        choose({{Coll::all_reduce, 6, 0}, bytes / 4, DataType::float32, ReduceOp::sum}, rules_of({}), inputs).value();
    CAPTURE(bytes);
    CHECK(one["count"] == bytes / 4);
    CHECK(one["choice"]["algorithm"] == std::string(choice.algorithm->name));
    CHECK(one["choice"]["reason"] == choice.reason);
    bytes *= 1000;
  }
  options.most = options.least = 0;
  CHECK(json_of(options).size() == 1);
}

TEST_CASE("explain says what is wrong with its options", "[explain]") {
  CHECK(contains(error_of({.call = "AllReduc"}), "\"AllReduc\" is no collective; known are AllReduce, "));
  CHECK(contains(error_of({.call = "Send"}), "is no collective"));
  CHECK(contains(error_of({.type = "fp64"}), "\"fp64\" is no data type; known are int8, "));
  CHECK(contains(error_of({.op = "mulsum"}), "\"mulsum\" is no operation"));
  CHECK(contains(error_of({.ranks = 0}), "0 ranks"));
  CHECK(contains(error_of({.ranks = 3, .nodes = 4}), "4 nodes"));
  CHECK(contains(error_of({.ranks = 3, .root = 3}), "root 3 is outside 0 to 2"));
  CHECK(contains(error_of({.cores = -1}), "-1 cores"));
  CHECK(contains(error_of({.least = 9, .most = 8}), "begin at 9 bytes and end before"));
  CHECK(contains(error_of({.factor = 1}), "factor"));
  const Result<std::string> rules = explain({}, config_of({{"NCCL_ALGO", "rings"}}));
  REQUIRE_FALSE(rules.ok());
  CHECK(contains(rules.error().what, "NCCL_ALGO=rings"));
}

TEST_CASE("explain for the GPUs of a machine that is a file", "[explain]") {
  const std::string path = "tests/golden/machines/hgx-h100.machine";
  ExplainOptions options{.machine = path, .copies = 4};
  options.least = 1 << 10;
  options.most = size_t{1} << 32;
  options.factor = 1 << 22;
  const std::string text = text_of(options);
  INFO(text);
  CHECK(contains(text, "32 ranks on 4 nodes, "));
  CHECK(contains(text, "MB/s past each GPU over nvlink"));
  CHECK(contains(text, "MB/s out of a node"));
  const nlohmann::json json = json_of(options);
  REQUIRE(json.size() == 2);
  CHECK(json[0]["choice"]["algorithm"] != "ring");
  const std::string large = json[1]["choice"]["algorithm"];
  CHECK((large == "ring" || large == "hier"));
  options.copies = 1;
  CHECK_FALSE(contains(text_of(options), "out of a node"));
  CHECK(contains(error_of({.machine = path, .copies = 0}), "copies of a machine are 1 to 4096"));
  CHECK(contains(error_of({.machine = "/nonexistent/machine"}), "/nonexistent/machine"));
}
