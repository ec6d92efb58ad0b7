// Figures that others have published, next to what is predicted.
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "tools/plan/predict.h"
#include "tools/topo/input.h"

namespace ronde::plan::tool {
namespace {

struct Figure {
  const char* machine;  ///< a file of the folder
  int copies;
  double least, most;  ///< GB/s, busbw
  const char* source;
  const char* why;  ///< why the prediction differs, or what it says
};
constexpr uint64_t kPublishedBytes = uint64_t{8} << 30;
constexpr const char* kRing = "NVIDIA/nccl-tests#290, ring, 46 to 48 GB/s for each of 8 NDR ports";
constexpr const char* kAnyNumber = "the same: a ring's rate does not depend on the number of nodes";
constexpr const char* kPorts = "rings that leave by each port";
constexpr Figure kFigures[] = {
    {"hgx-h100.machine", 1, 370, 370, "NVIDIA/nccl-tests#212, ring, NVLS off", "rings over NVLink"},
    {"hgx-h100.machine", 1, 476, 480, "NVIDIA/nccl-tests#290 and #212, NVLS",
     "the switches add up there; no ring can, and ronde has nothing like it"},
    {"hgx-h200.machine", 1, 475, 475, "NVIDIA/nccl-tests#272, NVLS", "the same"},
    {"dgx-a100.machine", 1, 230, 250, "docs.alayanew.com, tech blog of 2026-05-06", "rings over NVLink"},
    {"gb200-nvl72.machine", 1, 835, 847, "coreweave/nccl-tests#43, 72 GPUs, 8 GiB, default algorithm",
     "above the 722 GB/s that NCCL itself takes as the most of rings (NVIDIA/nccl#1807): the switches add up"},
    {"pcie5-4-one-socket.machine", 1, 35, 35, "NVIDIA/nccl#1639, 4 RTX 5090, PCIe 5", "rings over PCIe, if the four are at one socket"},
    {"pcie5-8-two-sockets.machine", 1, 28, 28, "NVIDIA/nccl#1639, 8 RTX 5090, two sockets",
     "the table has 22 GB/s between two sockets, NCCL's number; these carry more"},
    {"pcie5-8-two-sockets.machine", 1, 35, 45, "docs.alayanew.com, 8 H100 PCIe", "the same"},
    {"hgx-h100.machine", 2, 368, 384, kRing, kPorts},
    {"hgx-h100.machine", 4, 368, 384, kAnyNumber, kPorts},
    {"hgx-h100.machine", 16, 368, 384, kAnyNumber, kPorts},
    {"hgx-h100.machine", 32, 368, 384, kAnyNumber, kPorts},
    {"hgx-h100.machine", 64, 368, 384, kAnyNumber, kPorts},
    {"hgx-h200.machine", 128, 350, 350, "NVIDIA/nccl-tests#283, 512 MiB, default algorithm, on 248 such nodes",
     "predicted for 8 GiB, ring"},
};

std::string range_of(const Figure& figure) {
  return figure.least == figure.most ? fmt::format("{:.0f}", figure.least)
                                     : fmt::format("{:.0f} to {:.0f}", figure.least, figure.most);
}

Result<double> busbw_of(const std::string& file, int copies, const Costs& costs) {
  RONDE_TRY(const topo::Reading reading, topo::tool::read_input(file));
  Scenario scenario;
  scenario.copies = copies;
  RONDE_TRY(const Plan plan, Plan::make(reading.machine, scenario, costs));
  RONDE_TRY(const Simulation it, plan.run(kPublishedBytes));
  return static_cast<double>(it.busbw) / 1e3;
}

}  // namespace

Result<std::string> published(const std::string& folder, const Costs& costs, int most_copies) {
  std::string text =
      "| machine | copies | published GB/s | predicted GB/s | deviation % | source | what it says "
      "|\n|---|---|---|---|---|---|---|\n";
  std::map<std::pair<std::string, int>, double> known;
  for (const Figure& figure : kFigures) {
    if (figure.copies > most_copies) continue;
    const auto [at, is_new] = known.try_emplace({figure.machine, figure.copies});
    if (is_new) {
      RONDE_TRY(at->second, busbw_of(fmt::format("{}/{}", folder, figure.machine), figure.copies, costs));
    }
    const double busbw = at->second;
    const double nearest = std::clamp(busbw, figure.least, figure.most);
    text += fmt::format("| {} | {} | {} | {:.0f} | {:+.0f} | {} | {} |\n", figure.machine, figure.copies, range_of(figure), busbw,
                        (busbw - nearest) / nearest * 100, figure.source, figure.why);
  }
  return text;
}

}  // namespace ronde::plan::tool
