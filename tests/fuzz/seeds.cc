// Writes inputs to start from, a folder for each target, made of the machines and Programs in tests/golden: run from the root of
// the source, with the folder to fill.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "graph/graph_file.h"
#include "graph/search.h"
#include "topo/text.h"
#include "topo/xml.h"

namespace {

using namespace ronde;
namespace fs = std::filesystem;

/// hwloc's own format, of which there is no writer here.
constexpr const char* kHwloc =
    "<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">\n"
    "<object type=\"Machine\" os_index=\"0\" cpuset=\"0x000000ff\" allowed_cpuset=\"0x000000fe\" gp_index=\"1\">\n"
    "<info name=\"Architecture\" value=\"x86_64\"/>\n"
    "<object type=\"Package\" cpuset=\"0x000000ff\" gp_index=\"2\"><info name=\"CPUVendor\" value=\"GenuineIntel\"/>\n"
    "<object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x0000000f\" gp_index=\"3\"/>\n"
    "<object type=\"Bridge\" gp_index=\"10\" bridge_type=\"0-1\" bridge_pci=\"0000:[00-09]\">\n"
    "<object type=\"Bridge\" gp_index=\"12\" bridge_type=\"1-1\" pci_busid=\"0000:01:00.0\" pci_type=\"0604 [1000:c030] "
    "[0000:0000] 04 00\" pci_link_speed=\"15.753846\">\n"
    "<object type=\"PCIDev\" gp_index=\"13\" pci_busid=\"0000:02:00.0\" pci_type=\"0302 [10de:1db8] [10de:131d] a1 00\" "
    "pci_link_speed=\"15.753846\"><object type=\"OSDev\" gp_index=\"20\" name=\"nvml0\" osdev_type=\"5\"><info "
    "name=\"GPUModel\" value=\"Tesla V100-SXM3\"/></object></object>\n"
    "<object type=\"PCIDev\" gp_index=\"14\" pci_busid=\"0000:03:00.0\" pci_type=\"0302 [10de:1db8] [10de:131d] a1 00\"><object "
    "type=\"OSDev\" gp_index=\"21\" name=\"nvml1\" osdev_type=\"5\"/></object>\n"
    "<object type=\"PCIDev\" gp_index=\"15\" pci_busid=\"0000:04:00.0\" pci_type=\"0200 [15b3:1017] [15b3:0007] 00 00\"><object "
    "type=\"OSDev\" gp_index=\"22\" name=\"mlx5_0\" osdev_type=\"3\"/></object>\n"
    "</object></object></object></object>\n"
    "<distances2hetero nbobjs=\"2\" kind=\"9\" name=\"NVLinkBandwidth\"><indexes length=\"16\">OSDev:20 OSDev:21 </indexes>"
    "<u64values length=\"32\">1000000 50000 50000 1000000 </u64values></distances2hetero>\n</topology>\n";

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

/// The channels that a search finds there.
std::string graphs_of(const topo::Machine& machine) {
  const auto devices = machine.of_kind(topo::NodeKind::gpu);
  std::vector<int> members(devices.size());
  std::iota(members.begin(), members.end(), 0);
  std::vector<graph::FileGraph> graphs;
  for (const graph::Shape shape : {graph::Shape::ring, graph::Shape::chain}) {
    const auto found = graph::search(machine, devices, shape);
    if (!found.ok()) continue;
    auto graph = graph::graph_of(machine, devices, found->channels, shape, members);
    if (graph.ok()) graphs.push_back(std::move(*graph));
  }
  return to_graph_xml(graphs, machine, devices);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  const fs::path folder = argv[1];
  for (const auto& entry : fs::directory_iterator("tests/golden/machines")) {
    if (entry.path().extension() != ".machine") continue;
    const std::string name = entry.path().stem();
    const std::string text = contents(entry.path());
    const auto machine = topo::from_text(text, name);
    if (!machine.ok()) continue;
    write(folder / "machine_text" / name, text);
    write(folder / "machine_xml" / name, to_xml(machine->machine));
    if (machine->machine.of_kind(topo::NodeKind::gpu).size() == 8)
      write(folder / "graph_xml" / name, graphs_of(machine->machine));
  }
  for (const auto& entry : fs::directory_iterator("tests/golden/programs"))
    write(folder / "program_text" / entry.path().filename(), contents(entry.path()));
  write(folder / "machine_xml" / "hwloc", kHwloc);
  return 0;
}
