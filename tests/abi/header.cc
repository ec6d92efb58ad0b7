// The public headers: each language, with and without CUDA's, and every number and offset.
#include "abi/shell.h"
#include "support/catch.h"

using namespace ronde::test;

namespace {

const std::string kStrict = " -pedantic -Wall -Wextra -Werror ";

std::string include(const std::string& folder) { return " -I" + folder + " "; }
std::string ours() { return include(source("include")); }
std::string program(const std::string& name) { return " " + source("tests/abi/programs/" + name) + " "; }

/// Output of the layout program built by `compiler` (with its flags).
std::string layout_by(const std::string& compiler) {
  const Scratch scratch;
  const Outcome built = shell(compiler + program("layout.c") + "-o " + scratch / "layout");
  INFO(built.output);
  REQUIRE(built.status == 0);
  const Outcome ran = shell(scratch / "layout");
  REQUIRE(ran.status == 0);
  return ran.output;
}

}  // namespace

TEST_CASE("the headers compile alone in C99 and later and in C++11 and later") {
  for (const char* standard : {"c99", "c11", "c17"}) {
    const Outcome built = shell(kCompilerC + " -std=" + standard + kStrict + ours() + "-fsyntax-only" + program("headers.c"));
    INFO(standard << ": " << built.output);
    CHECK(built.status == 0);
  }
  for (const char* standard : {"c++11", "c++17", "c++20"}) {
    const Outcome built =
        shell(kCompilerCxx + " -std=" + standard + kStrict + ours() + "-fsyntax-only -x c++" + program("headers.c"));
    INFO(standard << ": " << built.output);
    CHECK(built.status == 0);
  }
}

TEST_CASE("CUDA's header may come before or after ours") {
  const std::string root = toolkit_with("cuda_runtime.h");
  if (root.empty()) RONDE_SKIP("no CUDA toolkit here");
  const std::string cuda = " -isystem " + root + "/include ";
  const std::string strict = " -pedantic -Wall -Wextra -Werror -fsyntax-only ";
  for (const char* file : {"cuda_first.c", "cuda_last.c"}) {
    for (const char* standard : {"c99", "c11"}) {
      const Outcome built = shell(kCompilerC + " -std=" + standard + strict + ours() + cuda + program(file));
      INFO(file << " " << standard << ": " << built.output);
      CHECK(built.status == 0);
    }
    const Outcome built = shell(kCompilerCxx + " -std=c++17" + strict + ours() + cuda + "-x c++" + program(file));
    INFO(file << " C++: " << built.output);
    CHECK(built.status == 0);
  }
}

TEST_CASE("every number, offset and signature is the recorded one, in C and in C++") {
  const std::string recorded = contents(source("tests/abi/layout.txt"));
  REQUIRE(contains(recorded, "ncclConfig_t.nvlinkCentricSched offset 76 size 4\n"));
  CHECK(layout_by(kCompilerCxx + " -std=c++11 -x c++ " + kStrict + ours()) == recorded);
  const std::string in_c = layout_by(kCompilerC + " -std=c99 " + kStrict + ours());
  REQUIRE(in_c.size() > 1000);
  CHECK(in_c == recorded.substr(0, in_c.size()));
}

TEST_CASE("every number, offset and signature is NCCL's, where NCCL 2.28.9 is installed") {
  const std::string root = toolkit_with("nccl.h");
  if (root.empty()) RONDE_SKIP("no CUDA toolkit with nccl.h here");
  const std::string header = contents(root + "/include/nccl.h");
  if (!contains(header, "NCCL_VERSION_CODE 22809")) RONDE_SKIP(root + " has another version of NCCL");
  const std::string theirs = layout_by(kCompilerCxx + " -std=c++17 -x c++ -w " + include(root + "/include"));
  CHECK(theirs == contents(source("tests/abi/layout.txt")));
}
