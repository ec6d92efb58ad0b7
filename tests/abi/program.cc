// Programs that were written for NCCL: linking, and a profiler in front of a function.
#include "abi/shell.h"
#include "support/catch.h"

using namespace ronde::test;

namespace {

std::string program(const std::string& name) { return " " + source("tests/abi/programs/" + name) + " "; }

const std::string kExpected = "version 0 22809 allreduce 4 invalid argument (run with NCCL_DEBUG=WARN for details)\n";

/// Command that compiles `sources` into `output` against `library` of the build folder.
std::string compile(const std::string& sources, const std::string& output, const std::string& library) {
  return kCompilerC + " -std=c99 -pedantic -Wall -Wextra -Werror -I" + source("include") + sources + "-o " + output + " -L" +
         built("") + " -l:" + library + " -Wl,-rpath," + built("");
}

/// Runs a program with `environment` ("A=B ...") and drops its log.
Outcome run(const std::string& path, const std::string& environment = "") {
  return shell("env " + environment + " " + path + " 2>/dev/null");
}

}  // namespace

TEST_CASE("a program that knows nccl.h alone runs with both libraries") {
  if (kSanitized) RONDE_SKIP("the program would have to be built with the same sanitizer");
  for (const char* library : {"libnccl.so.2", "libronde.so"}) {
    const Scratch scratch;
    const Outcome linked = shell(compile(program("plain.c"), scratch / "plain", library));
    INFO(library << ": " << linked.output);
    REQUIRE(linked.status == 0);
    const Outcome ran = run(scratch / "plain");
    CHECK(ran.status == 0);
    CHECK(ran.output == kExpected);
  }
}

TEST_CASE("a program that was linked to NCCL runs with libnccl.so.2 in its place") {
  const std::string root = toolkit_with("nccl.h");
  if (root.empty() || contents(root + "/lib64/libnccl.so.2").empty()) RONDE_SKIP("no CUDA toolkit with libnccl.so.2 here");
  if (kSanitized) RONDE_SKIP("the program would have to be built with the same sanitizer");
  const Scratch scratch;
  const Outcome linked = shell(kCompilerCxx + " -w -x c++ -I" + root + "/include" + program("plain.c") + "-x none " + root +
                               "/lib64/libnccl.so.2 -o " + scratch / "plain");
  INFO(linked.output);
  REQUIRE(linked.status == 0);
  const Outcome ran = run(scratch / "plain", "LD_LIBRARY_PATH=" + built(""));
  CHECK(ran.status == 0);
  CHECK(ran.output == kExpected);
}

TEST_CASE("a profiler sees ncclAllReduce and passes it on through pncclAllReduce") {
  if (kSanitized) RONDE_SKIP("the program would have to be built with the same sanitizer");
  const Scratch scratch;
  SECTION("linked into the program") {
    const Outcome linked = shell(compile(program("plain.c") + program("profiler.c"), scratch / "plain", "libnccl.so.2"));
    INFO(linked.output);
    REQUIRE(linked.status == 0);
    CHECK(run(scratch / "plain").output == "seen 1\n" + kExpected);
  }
  SECTION("preloaded") {
    const Outcome linked = shell(compile(program("plain.c"), scratch / "plain", "libnccl.so.2"));
    INFO(linked.output);
    REQUIRE(linked.status == 0);
    const Outcome profiler = shell(compile(" -shared -fPIC" + program("profiler.c"), scratch / "profiler.so", "libnccl.so.2"));
    INFO(profiler.output);
    REQUIRE(profiler.status == 0);
    CHECK(run(scratch / "plain", "LD_PRELOAD=" + scratch / "profiler.so").output == "seen 1\n" + kExpected);
  }
}

TEST_CASE("pkg-config finds the library in the build folder") {
  if (shell("pkg-config --version").status != 0) RONDE_SKIP("pkg-config is not installed");
  const Outcome flags = shell("PKG_CONFIG_PATH=" + built("") + " pkg-config --cflags --libs ronde");
  CHECK(flags.status == 0);
  CHECK(contains(flags.output, "-I" + source("include")));
  CHECK(contains(flags.output, "-lronde"));
}
