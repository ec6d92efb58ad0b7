// ronde-plan as a program: its flags, and how it ends.
#include "proc/command.h"
#include "support/catch.h"
#include "support/scratch.h"

using namespace ronde::test;

namespace {

Outcome plan(const std::string& arguments, const std::string& variables = "") {
  return run_command("env " + variables + " " + built_file("tools/ronde-plan") + " " + arguments);
}

}  // namespace

TEST_CASE("ronde-plan: each command explains itself", "[ronde-plan]") {
  for (const std::string command : {"explain", "show", "verify", "simulate", "calibrate", "compare", "published"}) {
    const Outcome help = plan(command + " --help");
    INFO(command);
    CHECK(help.status == 0);
    CHECK(contains(help.out, "Exit status: 0 done"));
  }
  CHECK(contains(plan("").err, "name a command"));
  for (const std::string wrong : {"", "nothing", "show --nothing", "show --format png", "verify --slots 0", "simulate --copies 0", "explain -f 1",
                                  "explain -f -1"}) {
    INFO(wrong);
    CHECK(plan(wrong).status == 2);
  }
  CHECK(contains(plan("nothing").err + plan("nothing").out, "nothing"));
}

TEST_CASE("ronde-plan explain: sizes with units, and those that are none", "[ronde-plan]") {
  CHECK(contains(plan("explain -b 64K -e 64K").out, "(65536 bytes)"));
  CHECK(contains(plan("explain -b 0 -e 0").out, "(0 bytes)"));
  for (const std::string wrong : {"-1", "x", "1T", "99999999999999999999"}) {
    const Outcome outcome = plan("explain -b " + wrong);
    CHECK(outcome.status == 3);
    CHECK(contains(outcome.err, "\"" + wrong + "\" is no size"));
  }
}

TEST_CASE("ronde-plan: 1 for a no, 3 for what cannot be done, with the reason", "[ronde-plan]") {
  CHECK(plan("verify --ranks 5 --algo hd").status == 0);
  const ScratchFile half(
      "ronde-schedule 1\ncollective AllReduce ranks 1\nprogram rank 0 channel 0 blocks 1 scratch 0\nlane\n  move in 0 dst output 0 final\n");
  const Outcome wrong = plan("verify " + half.path());
  CHECK(wrong.status == 1);
  CHECK(contains(wrong.out, "AllReduce on 1 ranks, channel 0: wrong\n"));
  const struct {
    const char* arguments;
    const char* variables;
    const char* what;
  } cases[] = {
      {"simulate /nonexistent", "", "No such file or directory"},
      {"explain", "NCCL_ALGO=rings", "\"rings\" is no algorithm"},
      {"explain", "NCCL_PROTO=ll64", "\"ll64\" is no protocol"},
      {"explain", "RONDE_TUNE_FILE=/nonexistent", "RONDE_TUNE_FILE: reading the file '/nonexistent': No such file or directory"},
      {"verify /dev/null", "", "that is no regular file"},
      {"show -o /nonexistent/x", "", "writing the file '/nonexistent/x'"},
      {"published --machines /nonexistent", "", "No such file or directory"},
  };
  for (const auto& one : cases) {
    const Outcome outcome = plan(one.arguments, one.variables);
    CAPTURE(one.arguments, one.variables, outcome.err);
    CHECK(outcome.status == 3);
    CHECK(contains(outcome.err, "ronde-plan: "));
    CHECK(contains(outcome.err, one.what));
    CHECK(outcome.out.empty());
  }
  const Outcome plugin = plan("explain -b 8 -e 8", "NCCL_TUNER_PLUGIN=/dev/null");
  CHECK(plugin.status == 0);
  CHECK(contains(plugin.err, "going on without a tuner plugin"));
}
