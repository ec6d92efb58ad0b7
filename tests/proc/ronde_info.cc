// ronde-info: what it prints alone and in a job, and how it ends when it cannot.
#include <nlohmann/json.hpp>

#include "base/config.h"
#include "proc/command.h"
#include "support/catch.h"
#include "support/children.h"

namespace {

using ronde::test::built_file;
using ronde::test::contains;
using ronde::test::Outcome;

Outcome info(const std::string& before, const std::string& arguments = "") {
  return ronde::test::run_command("env " + before + " " + built_file("tools/ronde-info") + " " + arguments);
}

}  // namespace

TEST_CASE("ronde-info: alone it connects two processes of two threads", "[ronde-info]") {
  const Outcome outcome = info("", "--json");
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  const auto facts = nlohmann::json::parse(outcome.out);
  const auto& rows = facts.at("transports between ranks (from>to)");
  REQUIRE(rows.size() == 3);
  size_t pairs = 0;
  for (const auto& row : rows) pairs += row.at("pairs").size();
  CHECK(pairs == 16);
  CHECK(rows[0].at("transport") == "self");
  CHECK(rows[1].at("transport") == "inproc");
  CHECK(rows[1].at("pairs") == nlohmann::json::parse("[[0,1],[1,0],[2,3],[3,2]]"));
  CHECK(rows[2].at("transport") == "shm");
  CHECK(facts.at("settings").size() == static_cast<size_t>(ronde::kSettings));
}

TEST_CASE("ronde-info: a setting's value, and where it came from", "[ronde-info]") {
  const Outcome outcome = info("NCCL_BUFFSIZE=1M RONDE_P2P_DISABLE=1");
  CHECK(outcome.status == 0);
  CHECK(contains(outcome.out, "NCCL_BUFFSIZE"));
  CHECK(contains(outcome.out, "nothing is lent (RONDE_P2P_DISABLE=1)"));
  CHECK_FALSE(contains(outcome.out, "RONDE_WARN_AFTER"));
  CHECK(contains(info("", "--all").out, "RONDE_WARN_AFTER"));
}

TEST_CASE("ronde-info: the devices and network adapters of the machine, and why there are none", "[ronde-info]") {
  const auto facts = nlohmann::json::parse(info("", "--json").out);
  REQUIRE(facts.at("devices").is_array());
  REQUIRE_FALSE(facts.at("devices").empty());
  CHECK(facts.at("devices")[0].contains("NUMA node"));
  CHECK(facts.at("network adapters").is_array());
  const Outcome broken = info("RONDE_STRICT=1 RONDE_TOPO_FILE=/nonexistent/machine");
  CHECK(contains(broken.out, "/nonexistent/machine"));
}

TEST_CASE("ronde-info: why ranks cannot be on GPUs", "[ronde-info]") {
  const auto facts = nlohmann::json::parse(info("RONDE_CUDA_LIBRARY=/nonexistent/libcuda.so.1", "--json").out);
  CHECK(contains(facts.at("GPUs as ranks").get<std::string>(), "cannot be used: loading CUDA's driver: /nonexistent/libcuda.so.1"));
}

TEST_CASE("ronde-info: in a job rank 0 speaks for all", "[ronde-info]") {
  const Outcome outcome = info(built_file("tools/ronde-run") + " -n 3 --no-prefix");
  INFO(outcome.err);
  CHECK(outcome.status == 0);
  CHECK(contains(outcome.out, "0>1 0>2 1>0 1>2 2>0 2>1"));
  CHECK(outcome.out.find("settings\n") == outcome.out.rfind("settings\n"));
}

TEST_CASE("ronde-info: no way between processes is said, and the rest is printed", "[ronde-info]") {
  const Outcome outcome = info("NCCL_SHM_DISABLE=1 NCCL_NET=void");
  CHECK(outcome.status == 1);
  CHECK(contains(outcome.out, "there is no network \"void\" (NCCL_NET)"));
  CHECK(contains(outcome.out, "NCCL_SHM_DISABLE"));
}

TEST_CASE("ronde-info: half a job's variables are an error", "[ronde-info]") {
  const std::string variables = GENERATE("RANK=0", "WORLD_SIZE=2", "RANK=2 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=1",
                                         "RANK=0 WORLD_SIZE=two MASTER_ADDR=localhost MASTER_PORT=1");
  const Outcome outcome = info(variables);
  CHECK(outcome.status == 2);
  CHECK(contains(outcome.err, "WORLD_SIZE"));
}

TEST_CASE("ronde-info: a value that is no text of UTF-8, or would command a terminal, is shown without that", "[ronde-info]") {
  const std::string odd = "RONDE_ALGO_FILE=\"$(printf 'a\\377\\033[31mb')\"";
  const Outcome json = info(odd, "--json");
  INFO(json.err);
  REQUIRE(json.status == 0);
  CHECK(contains(nlohmann::json::parse(json.out).at("settings").dump(), "[31mb"));
  const Outcome text = info(odd);
  CHECK(text.status == 0);
  CHECK(contains(text.out, "a??[31mb"));
}

TEST_CASE("ronde-info: flags that there are not are bad usage", "[ronde-info]") {
  CHECK(info("", "--nothing").status == 2);
  CHECK(info("", "--help").status == 0);
}
