// The kernels on the emulated GPU as the PTX memory model allows it to be, over seeds; and the benchmarks, in one process and in two.
#include "device/gpus.h"
#include "proc/command.h"
#include "support/catch.h"

using namespace ronde::test;

namespace {

void good(const std::string& command) {
  const Outcome outcome = run_command("env RONDE_EMU_LIMIT=60000 " + command);
  INFO(command << "\n" << outcome.out << outcome.err);
  CHECK(outcome.status == 0);
}

std::string perf(const std::string& collective) { return built_file("bench/" + collective + "_perf"); }

}  // namespace

TEST_CASE("weak stores, stale loads and any order change no result", "[device][modes]") {
  RONDE_NEED_GPUS();
  if (!emulated()) RONDE_SKIP("the GPUs are real");
  for (int seed = 1; seed <= 4; ++seed) {
    const std::string how = "RONDE_EMU_MODES=weak_stores,stale_loads,harsh_vectors,any_order RONDE_EMU_SEED=" + std::to_string(seed);
    for (const char* const algorithm : {"ring", "tree", "direct"}) {
      good(how + " RONDE_BUFFSIZE=4096 RONDE_SLOTS=2 NCCL_ALGO=" + algorithm + " " + perf("all_reduce") + " -g 4 -b 8 -e 8K -f 32 -d float -c 1 -n 1 -w 0 -T 60");
    }
    good(how + " RONDE_BUFFSIZE=4096 " + perf("sendrecv") + " -g 3 -b 8 -e 8K -f 32 -c 1 -n 1 -w 0 -T 60");
  }
}

TEST_CASE("no ordinary access races with another", "[device][modes]") {
  RONDE_NEED_GPUS();
  if (!emulated()) RONDE_SKIP("the GPUs are real");
  for (const char* const collective : {"all_reduce", "all_gather", "broadcast", "reduce_scatter"}) {  // in place the others' calls race by themselves
    good("RONDE_EMU_MODES=races RONDE_BUFFSIZE=4096 RONDE_SLOTS=2 " + perf(collective) + " -g 3 -b 8 -e 2K -f 16 -d half -c 1 -n 1 -w 0 -T 60");
  }
}

TEST_CASE("seeds change no result", "[device][modes]") {
  RONDE_NEED_GPUS();
  if (!emulated()) RONDE_SKIP("the GPUs are real");
  for (int seed = 2; seed <= 5; ++seed) {
    for (const char* const collective : {"all_gather", "reduce_scatter", "reduce", "broadcast", "gather", "scatter", "hypercube"}) {
      good("RONDE_EMU_SEED=" + std::to_string(seed) + " " + perf(collective) + " -g 4 -b 4 -e 10K -f 50 -d bfloat16 -c 1 -n 1 -w 0 -T 60");
    }
  }
}

TEST_CASE("the benchmarks between processes", "[device][processes]") {
  RONDE_NEED_GPUS();
  const std::string run = built_file("tools/ronde-run") + " --no-prefix -n 2 ";
  for (const char* const collective : {"all_reduce", "alltoall", "reduce_scatter"}) {
    for (const char* const algorithm : {"ring", "tree", "direct"}) {
      good(std::string("NCCL_ALGO=") + algorithm + " " + run + perf(collective) + " -g " + std::to_string(std::max(1, std::min(2, gpu_count() / 2))) +
           " -b 8 -e 100K -f 100 -c 1 -n 2 -w 1 -T 60");
    }
  }
}
