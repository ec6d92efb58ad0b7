// The network "IB" in a virtual machine that has RDMA adapters in software: vm/run. Once for all: a boot takes longer than most
// of what runs in it.
#include <filesystem>
#include <sstream>

#include "proc/command.h"
#include "support/catch.h"
#include "support/scratch.h"

using namespace ronde::test;

namespace {

namespace fs = std::filesystem;

constexpr const char* kVm = "tests/net/vm/";  // from the root of the source, where suites run

/// Copies what the machine runs into `folder`, without symbols.
void fill(const Scratch& folder) {
  fs::copy_file(std::string(kVm) + "all", folder.path("all"));
  std::vector<std::string> programs = {"tests/net/test_vm", "tools/ronde-run", "libronde.so"};
  for (const char* name : {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "sendrecv", "gather",
                           "scatter", "hypercube"})
    programs.push_back(std::string("bench/") + name + "_perf");
  for (const std::string& program : programs) {
    const std::string to = folder.path(fs::path(program).filename());
    const Outcome stripped = run_command("strip -o " + to + " " + built_file(program));
    if (stripped.status != 0) fs::copy_file(built_file(program), to);
  }
}

}  // namespace

TEST_CASE("IB: in a virtual machine with Soft-RoCE", "[net][vm]") {
  if (!fs::exists(built_file("tests/net/test_vm"))) RONDE_SKIP("built without the headers of libibverbs (rdma-core)");
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  RONDE_SKIP("an emulated processor is too slow for sanitizers");
#endif
  const Scratch folder;
  fill(folder);
  const Outcome machine = run_command(fs::absolute(std::string(kVm) + "run").string() + " -t 240 " + folder.root() + " sh all");
  if (machine.status == 3) RONDE_SKIP("there can be no virtual machine: " + machine.err.substr(0, machine.err.find('\n')));
  INFO(machine.out << machine.err);
  CHECK(machine.status == 0);
  CHECK(contains(machine.out, "\nall done\n"));
}
