// The benchmarks as programs: between processes, cut short, with what users get wrong.
#include <signal.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "proc/command.h"
#include "support/catch.h"

namespace {

using ronde::test::built_file;
using ronde::test::contains;
using ronde::test::Folder;
using ronde::test::Outcome;
using ronde::test::run_command;

constexpr const char* kCollectives[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce",
                                        "alltoall",   "sendrecv",   "gather",         "scatter",   "hypercube"};

std::string perf(const std::string& collective) { return built_file("bench/" + collective + "_perf"); }

/// One process of its own: what launchers above this test have set is none of its business.
Outcome alone(const std::string& command, const Folder& folder = {}) {
  return run_command(
      "env -u RANK -u WORLD_SIZE -u OMPI_COMM_WORLD_RANK -u OMPI_COMM_WORLD_SIZE -u PMI_RANK -u PMI_SIZE -u SLURM_PROCID " +
          command,
      folder);
}

Outcome together(int processes, const std::string& command, const Folder& folder = {}) {
  return run_command(built_file("tools/ronde-run") + " --no-prefix -n " + std::to_string(processes) + " " + command, folder);
}

/// The table's rows as fields.
std::vector<std::vector<std::string>> rows_of(const std::string& out) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream text(line);
    rows.emplace_back();
    for (std::string field; text >> field;) rows.back().push_back(field);
  }
  return rows;
}

bool good(const Outcome& outcome) {
  INFO(outcome.out << outcome.err);
  CHECK(outcome.status == 0);
  CHECK(contains(outcome.out, "# Out of bounds values : 0 OK"));
  return outcome.status == 0;
}

}  // namespace

TEST_CASE("perf: every collective, all types and operations, as threads and as processes", "[perf]") {
  const std::string flags = " -d all -o all -b 64 -e 4K -f 64 -n 1 -w 0 -T 60";
  for (const std::string collective : kCollectives) {
    INFO(collective);
    good(alone(perf(collective) + flags + " -t 2 -g 2"));
    good(together(2, perf(collective) + flags));
  }
}

TEST_CASE("perf: rows and exit status are nccl-tests'", "[perf]") {
  const Outcome outcome = alone(perf("all_reduce") + " -b 8 -e 128 -f 4 -g 2");
  REQUIRE(good(outcome));
  const auto rows = rows_of(outcome.out);
  REQUIRE(rows.size() == 3);
  for (const auto& row : rows) REQUIRE(row.size() == 13);
  CHECK(rows[2][0] == "128");
  CHECK(rows[2][1] == "32");
  CHECK(rows[2][2] == "float");
  CHECK(rows[2][3] == "sum");
  CHECK(rows[2][4] == "-1");
  CHECK(rows[2][8] == "0");
  CHECK(rows[2][12] == "0");
  CHECK(contains(outcome.out, "# chosen: "));
}

TEST_CASE("perf: in place, what the API does not promise is not checked", "[perf]") {
  const auto rows = rows_of(alone(perf("alltoall") + " -b 64 -e 64 -g 2").out);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0][8] == "0");
  CHECK(rows[0][12] == "N/A");
}

TEST_CASE("perf: too little bandwidth is status 7, after the whole table", "[perf]") {
  const Outcome outcome = together(2, "env NCCL_TESTS_MIN_BW=1e9 " + perf("all_reduce") + " -b 8 -e 8 -n 1");
  CHECK(outcome.status == 7);
  CHECK(contains(outcome.out, " FAILED\n#\n# Collective test concluded: all_reduce_perf"));
}

TEST_CASE("perf: NCCL_TESTS_SPLIT makes several communicators", "[perf]") {
  const Outcome outcome = together(4, "env 'NCCL_TESTS_SPLIT=MOD 2' " + perf("sendrecv") + " -b 64 -e 64 -n 1");
  good(outcome);
  CHECK(contains(outcome.out, "Rank  1 Group  1"));
  CHECK(!contains(outcome.out, "Rank  2 Group"));
  for (const char* wrong : {"FOO", "AND", "MOD 0"}) {
    const std::string setting = std::string("NCCL_TESTS_SPLIT='") + wrong + "'";
    const Outcome refused = alone("env " + setting + " " + perf("sendrecv") + " -b 64 -e 64 -n 1");
    CHECK(refused.status == 6);
    CHECK(contains(refused.out, setting + " is none of AND, OR, MOD, DIV with a number"));
  }
}

TEST_CASE("perf: bad command lines are status 255, bad surroundings 6", "[perf]") {
  const Outcome flag = alone(perf("all_reduce") + " --nix");
  CHECK(flag.status == 255);
  CHECK(contains(flag.err, "unknown flag '--nix'"));
  CHECK(alone(perf("all_reduce") + " --help").status == 0);
  const Outcome half = alone("env RANK=0 " + perf("all_reduce"));
  CHECK(half.status == 6);
  CHECK(contains(half.err, "WORLD_SIZE is not"));
  const Outcome two = alone("env RANK=0 WORLD_SIZE=2 PMI_RANK=1 PMI_SIZE=2 " + perf("all_reduce"));
  CHECK(two.status == 6);
  CHECK(contains(two.err, "RANK=0 WORLD_SIZE=2"));
  CHECK(contains(two.err, "PMI_RANK=1 PMI_SIZE=2"));
  CHECK(alone(perf("hypercube") + " -g 3 -b 64 -e 64").status == 6);
  CHECK(alone(perf("broadcast") + " -g 2 -r 2 -b 64 -e 64").status == 6);
}

TEST_CASE("perf: the innermost launcher counts", "[perf]") {
  // The outer one is what Slurm gives to a batch script.
  const Outcome outcome = run_command("env SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_JOB_ID=1 sh -c '" + built_file("tools/ronde-run") +
                                      " --no-prefix -n 2 " + perf("all_reduce") + " -b 8 -e 8 -n 1'");
  good(outcome);
  CHECK(contains(outcome.out, "#  Rank  1 "));
  CHECK(!contains(outcome.out, "#  Rank  2 "));
}

TEST_CASE("perf: a process that does not come is named", "[perf]") {
  const Outcome outcome = alone("env RONDE_INIT_TIMEOUT=0.3 RANK=0 WORLD_SIZE=3 " + perf("all_reduce"));
  CHECK(outcome.status == 4);
  CHECK(contains(outcome.err, "ranks 1, 2 of 3 did not come"));
}

TEST_CASE("perf: JSON is whole when the run is cut short", "[perf]") {
  const Folder folder;
  const pid_t pid = ronde::test::launch(folder, perf("all_reduce") + " -b 8 -e 8 -n 1 -w 0 -g 2 -N 0 -J out.json");
  nlohmann::json json;
  do {
    // Read while it is being replaced: never half a file.
    const std::string text = ronde::test::text_of(folder.path / "out.json");
    if (!text.empty()) json = nlohmann::json::parse(text);
  } while (!json.contains("results") || json["results"].size() < 20);
  kill(pid, SIGKILL);
  ronde::test::finish(folder, pid);
  json = nlohmann::json::parse(ronde::test::text_of(folder.path / "out.json"));
  CHECK(json["results"].size() >= 20);
  CHECK(json["end_time"].is_null());
  CHECK(json["results"][0]["algorithm"].is_string());
}

TEST_CASE("perf: -T ends a job whose rank is stopped", "[perf]") {
  const Folder folder;
  // Rank 1 stops itself once the job is under way.
  const std::string script = "sh -c 'if [ $RANK = 1 ]; then " + perf("all_reduce") +
                             " \"$@\" & while ! grep -q float out.json; do :; done; kill -STOP $!; wait; " + "else exec " +
                             perf("all_reduce") + " \"$@\" -J out.json; fi' sh -b 8 -e 8 -n 1 -N 0 -T 1";
  const Outcome outcome = together(2, script, folder);
  INFO(outcome.out << outcome.err);
  CHECK(outcome.status == 4);
  // It was stopped inside the library, or on its way to a barrier of the benchmark.
  CHECK((contains(outcome.out, "took longer than 1 s (-T)") ||
         contains(outcome.out, "rank 1 of 2 did not reach the barrier within 12 s")));
}
