// What a process says at its first init, and where the log's settings may stand.
#include <fstream>

#include "abi/shell.h"
#include "support/catch.h"

using namespace ronde::test;

namespace {

/// The program of programs/inits.c, compiled.
class Program {
 public:
  Program() {
    const Outcome compiled = shell(kCompilerC + " -std=c99 -Wall -Wextra -Werror -I" + source("include") + " " + source("tests/abi/programs/inits.c") +
                                   " -o " + scratch_ / "inits -ldl");
    INFO(compiled.output);
    REQUIRE(compiled.status == 0);
  }
  /// Runs it with `environment` and no other settings, in its own HOME.
  std::string run(const std::string& environment, const std::vector<std::string>& libraries) const {
    std::string command = "env -i HOME=" + scratch_ / "home " + environment + " " + scratch_ / "inits";
    for (const std::string& library : libraries) command += " " + library;
    const Outcome outcome = shell(command);
    INFO(outcome.output);
    CHECK(outcome.status == 0);
    return outcome.output;
  }
  std::string operator/(const std::string& name) const { return scratch_ / name; }
  void write(const std::string& name, const std::string& text) const { std::ofstream(scratch_ / name) << text; }

 private:
  Scratch scratch_;
};

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

const std::vector<std::string> kRonde{built("libronde.so")};

}  // namespace

TEST_CASE("the version is logged once, at level VERSION and from INFO on") {
  if (kSanitized) RONDE_SKIP("the program would have to be built with the same sanitizer");
  const Program program;
  for (const char* level : {"NCCL_DEBUG=VERSION", "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=NET"}) {
    const std::string log = program.run(level, kRonde);
    CAPTURE(level, log);
    CHECK(count(log, "RONDE VERSION ronde 0.1.0, NCCL API 2.28.9\n") == 1);
    CHECK(count(log, "\n") == 1);
  }
  CHECK(program.run("NCCL_DEBUG=WARN", kRonde) == "");
  CHECK(program.run("", kRonde) == "");
}

TEST_CASE("two copies of the library in one process are reported, by their files") {
  if (kSanitized) RONDE_SKIP("the program would have to be built with the same sanitizer");
  const Program program;
  const std::string log = program.run("", {built("libronde.so"), built("libnccl.so.2")});
  CAPTURE(log);
  CHECK(count(log, "2 copies of ronde") == 1);
  CHECK(contains(log, "libronde.so"));
  CHECK(contains(log, "libnccl.so.2"));
}

TEST_CASE("the settings of the log may stand in a configuration file") {
  if (kSanitized) RONDE_SKIP("the program would have to be built with the same sanitizer");
  const Program program;
  const std::string settings = "NCCL_DEBUG=INFO\nNCCL_DEBUG_SUBSYS=INIT\nNCCL_DEBUG_FILE=" + program / "log" + "\n";
  const auto logged = [&] { return count(contents(program / "log"), "RONDE INFO communicator"); };
  program.write("conf", settings);
  REQUIRE(shell("mkdir " + program / "home").status == 0);
  SECTION("that NCCL_CONF_FILE names") {
    CHECK(program.run("NCCL_CONF_FILE=" + program / "conf", kRonde) == "");
    CHECK(logged() == 2);
  }
  SECTION("in the home directory") {
    program.write("home/.nccl.conf", settings);
    CHECK(program.run("", kRonde) == "");
    CHECK(logged() == 2);
  }
  SECTION("and the environment wins") {
    CHECK(program.run("NCCL_DEBUG=WARN NCCL_CONF_FILE=" + program / "conf", kRonde) == "");
    CHECK(logged() == 0);
  }
}

TEST_CASE("what is wrong with settings and files is reported, each once") {
  if (kSanitized) RONDE_SKIP("the program would have to be built with the same sanitizer");
  const Program program;
  program.write("conf", "# settings\nNCCL_ALGO ring\n\nNCCL_BUFFSIZE=1M\n");
  const struct {
    std::string environment, text;
  } cases[] = {
      {"NCCL_CONF_FILE=" + program / "none", "reading the configuration file " + program / "none named by NCCL_CONF_FILE: No such file"},
      {"NCCL_CONF_FILE=" + program / "conf", "line 2 of the configuration file " + program / "conf is ignored, because it is no NAME=VALUE: NCCL_ALGO ring"},
      {"NCCL_DEBUG_SUBSYS=INIT,FOO", "NCCL_DEBUG_SUBSYS=INIT,FOO: FOO is no subsystem"},
      {"NCCL_DEBUG=WARN NCCL_DEBUG_FILE=/nowhere/log", "opening the log file /nowhere/log named by NCCL_DEBUG_FILE: No such file or directory"},
  };
  for (const auto& one : cases) {
    const std::string log = program.run(one.environment, kRonde);
    CAPTURE(one.environment, log);
    CHECK(count(log, one.text) == 1);
    CHECK(count(log, "\n") == 1);
  }
}
