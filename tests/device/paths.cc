// By which memory GPUs reach each other, in one process and in two: what is chosen, why, and that data arrives whole.
#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "device/gpus.h"
#include "proc/command.h"
#include "support/catch.h"

using namespace ronde::test;

namespace {

/// An all-reduce of four ranks on emulated GPUs 0 to 3, in one process or, two and two, in two.
Outcome run(int processes, const std::string& variables, const std::string& arguments = "-b 8 -e 64K -f 64") {
  const std::string launcher = processes == 1 ? "" : fmt::format("{} -n {} --no-prefix ", built_file("tools/ronde-run"), processes);
  return run_command(fmt::format("env RONDE_EMU_DEVICES=4 NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=ALL {} {}{} -g {} {} -c 1 -n 1 -w 1", variables, launcher,
                                 built_file("bench/all_reduce_perf"), 4 / processes, arguments));
}

/// What the log says of one rank's way to another: "P2P/CUDA", "SHM/CUDA, since ...".
std::string way(const Outcome& outcome, int from, int to) {
  const std::string end = fmt::format(" to rank {}: ", to);
  for (const std::string& line : sorted_lines(outcome.out + "\n" + outcome.err)) {
    const size_t at = line.find(fmt::format("rank {} on GPU {} ", from, from));
    const size_t colon = line.find(end);
    if (at != std::string::npos && colon != std::string::npos) return line.substr(colon + end.size());
  }
  return "";
}

struct Wanted {
  std::string variables;
  std::string inside;   ///< how ranks 0 and 1 reach each other
  std::string between;  ///< 1 and 2, in two processes
};

void check_ways(int processes, const Wanted& wanted) {
  const Outcome outcome = run(processes, wanted.variables);
  INFO(processes << " processes, " << wanted.variables << "\n" << outcome.out << outcome.err);
  CHECK(outcome.status == 0);
  CHECK(contains(outcome.out, "# Out of bounds values : 0 OK"));
  for (const auto& [from, to] : {std::pair(0, 1), std::pair(1, 0), std::pair(3, 2)}) CHECK(way(outcome, from, to) == wanted.inside);
  for (const auto& [from, to] : {std::pair(1, 2), std::pair(2, 1), std::pair(0, 3)}) CHECK(way(outcome, from, to) == wanted.between);
}

/// Four GPUs as the emulator has them, with NVLinks between the first two and the last two, so that each ring goes to and fro.
std::string crossed_machine() {
  const std::string buses[] = {"00e0:01:00.0", "00e0:02:00.0", "00e0:03:00.0", "00e0:04:00.0"};
  std::string text;
  for (int i = 0; i < 4; ++i) {
    text += fmt::format(R"(<pci busid="{}" class="0x030200" link_speed="32 GT/s" link_width="16"><gpu dev="{}" sm="90">)", buses[i], i);
    for (int other = 0; other < 4; ++other) {
      if (i / 2 != other / 2) text += fmt::format(R"(<nvlink target="{}" count="4" tclass="0x030200"/>)", buses[other]);
    }
    text += "</gpu></pci>\n";
  }
  return R"(<system version="1"><cpu host_hash="1" numaid="0" arch="x86_64" vendor="AuthenticAMD">)" + text + "</cpu></system>\n";
}

const std::string kNoAccess = "SHM/CUDA, since the driver allows no peer access between the two GPUs";

}  // namespace

TEST_CASE("paths: between GPUs of one process", "[gpu-paths]") {
  RONDE_NEED_GPUS();
  if (!emulated()) RONDE_SKIP("the machine's GPUs reach each other as they do");
  const auto wanted = GENERATE(values<Wanted>({
      {"", "P2P/CUDA", "P2P/CUDA"},
      {"RONDE_EMU_PEERS=none", kNoAccess, kNoAccess},
      {"RONDE_EMU_PEERS=0,1/2,3", "P2P/CUDA", kNoAccess},
      {"NCCL_P2P_DISABLE=1", "SHM/CUDA, since NCCL_P2P_DISABLE=1", "SHM/CUDA, since NCCL_P2P_DISABLE=1"},
      {"NCCL_SHM_DISABLE=1", "P2P/CUDA", "P2P/CUDA"},
  }));
  check_ways(1, wanted);
}

TEST_CASE("paths: between GPUs of two processes", "[gpu-paths]") {
  RONDE_NEED_GPUS();
  if (!emulated()) RONDE_SKIP("the machine's GPUs reach each other as they do");
  const auto wanted = GENERATE(values<Wanted>({
      {"", "P2P/CUDA", "P2P/CUMEM"},
      {"RONDE_EMU_VMM=0", "P2P/CUDA", "P2P/IPC"},
      {"NCCL_CUMEM_ENABLE=0", "P2P/CUDA", "P2P/IPC"},
      {"RONDE_EMU_PEERS=0,1/2,3", "P2P/CUDA", kNoAccess},
      {"RONDE_EMU_VMM=0 RONDE_EMU_PEERS=none", kNoAccess, kNoAccess},
      {"NCCL_P2P_DISABLE=1", "SHM/CUDA, since NCCL_P2P_DISABLE=1", "SHM/CUDA, since NCCL_P2P_DISABLE=1"},
  }));
  check_ways(2, wanted);
}

TEST_CASE("paths: a driver that shares no memory between processes leaves host memory", "[gpu-paths]") {
  RONDE_NEED_GPUS();
  if (!emulated()) RONDE_SKIP("the machine's GPUs reach each other as they do");
  const Outcome outcome = run(2, "RONDE_EMU_VMM=0 RONDE_EMU_IPC=0");
  INFO(outcome.out << outcome.err);
  CHECK(outcome.status == 0);
  CHECK(contains(outcome.out, "# Out of bounds values : 0 OK"));
  CHECK(way(outcome, 0, 1) == "P2P/CUDA");
  CHECK(contains(way(outcome, 1, 2), "SHM/CUDA, since sharing memory of GPU"));
}

TEST_CASE("paths: a pair of GPUs that corrupts is found when the communicator is made, and avoided", "[gpu-paths]") {
  RONDE_NEED_GPUS();
  if (!emulated()) RONDE_SKIP("the machine's GPUs reach each other as they do");
  const int processes = GENERATE(1, 2);
  const std::string more = GENERATE(std::string(), std::string(" RONDE_EMU_VMM=0"));
  const Outcome outcome = run(processes, "RONDE_EMU_CORRUPT=0-1,1-2" + more);
  INFO(processes << " processes, " << more << "\n" << outcome.out << outcome.err);
  CHECK(outcome.status == 0);
  CHECK(contains(outcome.out, "# Out of bounds values : 0 OK"));
  const std::string corrupt = "SHM/CUDA, since what passes between the two GPUs is corrupted";
  for (const auto& [from, to] : {std::pair(0, 1), std::pair(1, 0), std::pair(1, 2), std::pair(2, 1)}) CHECK(way(outcome, from, to) == corrupt);
  CHECK(way(outcome, 2, 3) == "P2P/CUDA");
  CHECK_FALSE(contains(way(outcome, 0, 2), "SHM"));
  const std::vector<std::string> lines = sorted_lines(outcome.out + "\n" + outcome.err);
  // One line for each pair.
  CHECK(std::count_if(lines.begin(), lines.end(), [](const std::string& line) { return contains(line, "WARN") && contains(line, "corrupted, so host memory is used"); }) == 2);
}

TEST_CASE("paths: without any it is an error that names both reasons", "[gpu-paths]") {
  RONDE_NEED_GPUS();
  if (!emulated()) RONDE_SKIP("the machine's GPUs reach each other as they do");
  const Outcome outcome = run(1, "RONDE_EMU_PEERS=0,1/2,3 NCCL_SHM_DISABLE=1");
  INFO(outcome.out << outcome.err);
  CHECK(outcome.status != 0);
  CHECK(contains(outcome.out + outcome.err, "not by device memory (the driver allows no peer access between the two GPUs), and not by host memory (NCCL_SHM_DISABLE=1)"));
}

TEST_CASE("paths: GPUs that are further apart than allowed use host memory", "[gpu-paths]") {
  RONDE_NEED_GPUS();
  if (!emulated()) RONDE_SKIP("the machine's GPUs are where they are");
  const std::string apart = "SHM/CUDA, since they are PHB apart, and NCCL_P2P_LEVEL is NVL";
  check_ways(1, {"RONDE_EMU_NVLINKS=0 NCCL_P2P_LEVEL=NVL", apart, apart});
  check_ways(1, {"NCCL_P2P_LEVEL=NVL", "P2P/CUDA", "P2P/CUDA"});
}

TEST_CASE("paths: rings follow NVLinks, and the benchmark names how GPUs are joined", "[gpu-paths]") {
  RONDE_NEED_GPUS();
  if (!emulated()) RONDE_SKIP("the machine's GPUs are linked as they are");
  const Folder folder;
  std::ofstream(folder.path / "machine.xml") << crossed_machine();
  const int processes = GENERATE(1, 2);
  const Outcome outcome = run(processes, fmt::format("RONDE_EMU_NVLINKS=0 RONDE_TOPO_FILE={} NCCL_ALGO=Ring", (folder.path / "machine.xml").string()), "-b 64K -e 64K");
  INFO(processes << " processes\n" << outcome.out << outcome.err);
  CHECK(outcome.status == 0);
  CHECK(contains(outcome.out, "# Out of bounds values : 0 OK"));
  CHECK(contains(outcome.out + outcome.err, "first ring 0 2 1 3"));
  CHECK(contains(outcome.out, "# chosen: ring, Simple, 4 channels, " + std::string(processes == 1 ? "P2P/CUDA\n" : "P2P/CUDA+P2P/CUMEM\n")));
}

TEST_CASE("paths: a GPU that the machine does not show is placed by the CPUs", "[gpu-paths]") {
  RONDE_NEED_GPUS();
  if (!emulated()) RONDE_SKIP("the machine shows its GPUs");
  const Outcome outcome = run(1, "RONDE_EMU_PCI=00e0:01:00.0,00e0:02:00.0,00e0:03:00.0,nowhere");
  INFO(outcome.out << outcome.err);
  CHECK(outcome.status == 0);
  CHECK(contains(outcome.out, "# Out of bounds values : 0 OK"));
  const std::string log = outcome.out + outcome.err;
  CHECK(contains(log, "rank 3 is placed by the CPUs that it may use: what is known of this host's machine does not show its GPU nowhere"));
  CHECK_FALSE(contains(log, "rank 2 is placed by the CPUs"));
}

TEST_CASE("paths: ronde-info tells which GPUs ranks can be on", "[gpu-paths]") {
  RONDE_NEED_GPUS();
  if (!emulated()) RONDE_SKIP("the machine's GPUs have other names");
  const Outcome with = run_command("env RONDE_EMU_DEVICES=2 " + built_file("tools/ronde-info"));
  INFO(with.out << with.err);
  CHECK(contains(with.out, "GPU 1 (Emulated GPU, 00E0:02:00.0) descriptors (CUMEM)      yes"));
  CHECK(contains(run_command("env RONDE_EMU_VMM=0 " + built_file("tools/ronde-info")).out, "legacy handles (IPC)"));
  CHECK(contains(run_command("env RONDE_EMU_DEVICES=0 " + built_file("tools/ronde-info")).out, "cannot be used: CUDA's driver finds no GPU"));
}
