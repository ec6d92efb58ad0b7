// The built libraries as a dynamic linker sees them: names, kinds, dependencies.
#include <elf.h>

#include <algorithm>
#include <set>

#include "abi/elf.h"
#include "abi/shell.h"
#include "support/catch.h"

using namespace ronde::test;

namespace {

const char* const kLibraries[] = {"libronde.so", "libnccl.so.2"};

std::vector<std::string> names_with(const std::vector<std::string>& lines, const std::string& prefix) {
  std::vector<std::string> some;
  for (const std::string& line : lines) {
    if (line.compare(2, prefix.size(), prefix) == 0) some.push_back(line);
  }
  return some;
}

std::vector<std::string> without(const std::vector<std::string>& all, const std::vector<std::string>& these) {
  std::vector<std::string> rest;
  for (const std::string& line : all) {
    if (std::find(these.begin(), these.end(), line) == these.end()) rest.push_back(line);
  }
  return rest;
}

}  // namespace

TEST_CASE("the libraries export the listed names and kinds, and nothing else") {
  const auto listed = lines_of(source("tests/abi/exports.txt"));
  REQUIRE(names_with(listed, "nccl").size() == 53);
  REQUIRE(names_with(listed, "pnccl").size() == 52);
  for (const char* name : kLibraries) {
    CAPTURE(name);
    const auto library = read_library(built(name));
    REQUIRE(library);
    CHECK(without(listed, library->exports) == std::vector<std::string>{});
    CHECK(without(library->exports, listed) == std::vector<std::string>{});
    CHECK_FALSE(library->defines_versions);
  }
}

TEST_CASE("the list is NCCL's, where NCCL 2.28.9 is installed") {
  const std::string root = toolkit_with("nccl.h");
  const auto theirs = read_library(root + "/lib64/libnccl.so.2");
  if (root.empty() || !theirs) RONDE_SKIP("no CUDA toolkit with libnccl.so.2 here");
  if (!contains(contents(root + "/include/nccl.h"), "NCCL_VERSION_CODE 22809")) RONDE_SKIP(root + " has another version of NCCL");
  const auto listed = lines_of(source("tests/abi/exports.txt"));
  std::vector<std::string> ours = names_with(listed, "nccl");
  for (const std::string& line : names_with(listed, "pnccl")) ours.push_back(line);
  std::vector<std::string> expected = theirs->exports;
  std::sort(ours.begin(), ours.end());
  std::sort(expected.begin(), expected.end());
  CHECK(ours == expected);
}

TEST_CASE("code compiled for one instruction set is shared with nothing") {
  // A weak function of these objects could be the one that the linker keeps for the whole library, and stop an older CPU.
  const Outcome archives = shell("ls '" + built("kernels/cpu") + "'/libronde_reduce_*.a");
  if (archives.status != 0) RONDE_SKIP("one instruction set only here");
  const Outcome weak = shell("nm '" + built("kernels/cpu") + "'/libronde_reduce_*.a | grep -E ' [WVu] '");
  CHECK(weak.output == "");
  CHECK(weak.status == 1);  // grep found nothing, and nm had something to list
  CHECK(shell("nm '" + built("kernels/cpu") + "'/libronde_reduce_*.a | grep -cE ' [tT] '").status == 0);
}

TEST_CASE("sonames, and the flag that keeps the library loaded") {
  for (const char* name : kLibraries) {
    const auto library = read_library(built(name));
    REQUIRE(library);
    CHECK(library->soname == name);
    CHECK((library->flags_1 & DF_1_NODELETE) != 0);
  }
}

TEST_CASE("the libraries need the C and C++ run time and nothing else") {
  if (kSanitized) RONDE_SKIP("a sanitizer adds its own run time");
  const std::set<std::string> allowed = {"libc.so.6",     "libstdc++.so.6",       "libm.so.6",
                                         "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"};
  for (const char* name : kLibraries) {
    const auto library = read_library(built(name));
    REQUIRE(library);
    for (const std::string& needed : library->needed) {
      CAPTURE(name, needed);
      CHECK(allowed.count(needed) == 1);
    }
  }
}

TEST_CASE("calls inside the library cannot be interposed") {
  for (const char* name : kLibraries) {
    const auto library = read_library(built(name));
    REQUIRE(library);
    CAPTURE(name);
    CHECK(library->self_bound == std::vector<std::string>{});
  }
}

TEST_CASE("the libraries stay under 15 MB") {
  if (kSanitized) RONDE_SKIP("a sanitizer multiplies the code");
  for (const char* name : kLibraries) {
    const auto library = read_library(built(name));
    REQUIRE(library);
    CAPTURE(name);
    CHECK(library->loaded_bytes > 0);
    CHECK(library->loaded_bytes < 15'000'000);
  }
}
