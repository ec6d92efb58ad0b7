// Detection with the drivers of GPUs, played by tables of functions: well-known machines, and drivers that fail.
#include <algorithm>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/fake_gpus.h"
#include "support/fake_host.h"
#include "support/topo.h"
#include "topo/detect.h"
#include "topo/text.h"

using namespace ronde;
using namespace ronde::topo;
using namespace ronde::test;

namespace {

const std::vector<std::string> kGen5 = {"32.0 GT/s PCIe", "16", "32.0 GT/s PCIe", "16"};

/// "0000:1N:00.0"
std::string bus_id(int gpu) { return "0000:1" + std::to_string(gpu) + ":00.0"; }

/// GPUs, each on a port of its own, the first half on the first of two NUMA nodes.
void host_with(const FakeHost& host, int gpus) {
  host.numa(0, "0f");
  host.numa(1, "f0");
  host.file("/proc/cpuinfo", "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n");
  for (int i = 0; i < gpus; ++i) {
    const std::string numa = i < (gpus + 1) / 2 ? "0" : "1";
    const std::string port = host.pci("pci0000:00/0000:00:0" + std::to_string(i) + ".0", "0x060400", "0x8086", numa, kGen5);
    host.pci(port + "/" + bus_id(i), "0x030200", "0x10de", numa, kGen5);
  }
}

Reading detected(const FakeHost& host, const GpuDrivers& drivers) {
  const auto reading = detect(host.root(), {.drivers = &drivers});
  REQUIRE(reading.ok());
  CHECK(check(reading->machine) == std::vector<std::string>{});
  CHECK(read_machine(to_xml(reading->machine)).machine == reading->machine);
  CHECK(detect(host.root(), {.drivers = &drivers})->machine == reading->machine);
  return *reading;
}

/// The links between GPUs, to switches of NVLink and to CPUs.
std::string gpu_links(const Machine& m) {
  std::string text;
  for (const Link& link : m.links) {
    if (link.kind != LinkKind::nvlink && link.kind != LinkKind::c2c) continue;
    text += describe(m, link.a) + " - " + describe(m, link.b) + " x" + std::to_string(link.count) + "\n";
  }
  return text;
}

bool noted(const Reading& reading, const std::string& part) {
  return std::any_of(reading.notes.begin(), reading.notes.end(), [&](const std::string& note) { return contains(note, part); });
}

std::vector<FakeLink> links(int count, const FakeLink& link) { return std::vector<FakeLink>(static_cast<size_t>(count), link); }

/// Eight H100 with 5, 4, 4 and 5 links to four switches.
std::vector<FakeGpu> hgx_h100(unsigned type = kToSwitch) {
  std::vector<FakeGpu> gpus;
  for (int i = 0; i < 8; ++i) {
    FakeGpu gpu{.bus_id = bus_id(i)};
    const int counts[] = {5, 4, 4, 5};
    for (int j = 0; j < 4; ++j) {
      for (const FakeLink& link : links(counts[j], {"0000:9" + std::to_string(j) + ":00.0", type})) gpu.links.push_back(link);
    }
    gpus.push_back(gpu);
  }
  return gpus;
}

const char* const kHgxLinks =
    "gpu 0 - NVSwitch x18\ngpu 1 - NVSwitch x18\ngpu 2 - NVSwitch x18\ngpu 3 - NVSwitch x18\n"
    "gpu 4 - NVSwitch x18\ngpu 5 - NVSwitch x18\ngpu 6 - NVSwitch x18\ngpu 7 - NVSwitch x18\n";

}  // namespace

TEST_CASE("drivers: eight GPUs on four switches", "[unit][topo]") {
  const FakeHost host;
  host_with(host, 8);
  for (int i = 0; i < 4; ++i) host.pci("pci0000:80/0000:9" + std::to_string(i) + ":00.0", "0x068000", "0x10de", "1", kGen5);
  FakeDrivers drivers(hgx_h100());
  SECTION("all is told") {}
  SECTION("an older driver tells no kinds: the class of the other end does") { drivers.table.nvml.link_remote_type = nullptr; }
  SECTION("the kind is told, the address is not") { drivers.failing = {"nvmlDeviceGetNvLinkRemotePciInfo_v2"}; }
  SECTION("every address is that of some switch") {
    drivers.failing = {"nvmlDeviceGetNvLinkRemoteDeviceType"};
    for (FakeGpu& gpu : drivers.gpus) gpu.links = links(18, {"fffffff:ff:ff.0", kToUnknown});
  }
  const Reading reading = detected(host, drivers.table);
  const Machine& m = reading.machine;
  CHECK(gpu_links(m) == kHgxLinks);
  CHECK(m.of_kind(NodeKind::nv_switch).size() == 1);
  CHECK(reading.notes == std::vector<std::string>{});
  for (size_t i = 0; i < 8; ++i) {
    CHECK(m.gpus[i].dev == static_cast<int>(i));
    CHECK(m.gpus[i].sm == 90);
    CHECK(m.gpus[i].gdr == 1);
    CHECK(m.gpus[i].rank == -1);
  }
}

TEST_CASE("drivers: the hybrid cube mesh of eight V100", "[unit][topo]") {
  const FakeHost host;
  host_with(host, 8);
  // Links of each pair, from 0 up.
  const std::vector<std::vector<int>> pairs = {{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1},
                                               {1, 5, 2}, {2, 3, 1}, {2, 6, 2}, {3, 7, 2}, {4, 5, 1}, {4, 6, 1},
                                               {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 1}};
  std::vector<FakeGpu> gpus;
  for (int i = 0; i < 8; ++i) gpus.push_back({.bus_id = bus_id(i), .major = 7, .minor = 0});
  std::string expected;
  for (const auto& pair : pairs) {
    for (int i = 0; i < pair[2]; ++i) {
      gpus[static_cast<size_t>(pair[0])].links.push_back({bus_id(pair[1])});
      gpus[static_cast<size_t>(pair[1])].links.push_back({bus_id(pair[0])});
    }
    expected += "gpu " + std::to_string(pair[0]) + " - gpu " + std::to_string(pair[1]) + " x" + std::to_string(pair[2]) + "\n";
  }
  const FakeDrivers drivers(gpus);
  const Machine m = detected(host, drivers.table).machine;
  CHECK(gpu_links(m) == expected);
  CHECK(contains(links_text(m), "gpu 0 - gpu 3: NVLink x2 40 table\n"));
}

TEST_CASE("drivers: two cards with a bridge, of which one link is down", "[unit][topo]") {
  const FakeHost host;
  host_with(host, 3);
  std::vector<FakeGpu> gpus = {{.bus_id = bus_id(0), .major = 8, .minor = 6}, {.bus_id = bus_id(1), .major = 8, .minor = 6}};
  for (int i = 0; i < 4; ++i) {
    gpus[0].links.push_back({bus_id(1), kToGpu, i < 3 ? 1U : 0U});
    gpus[1].links.push_back({bus_id(0), kToGpu, i < 3 ? 1U : 0U});
  }
  // Without a bridge all links are down, and that is nothing to tell.
  gpus.push_back({.bus_id = bus_id(2), .major = 8, .minor = 6, .links = links(4, {"", kToUnknown, 0})});
  const FakeDrivers drivers(gpus);
  const Reading reading = detected(host, drivers.table);
  CHECK(gpu_links(reading.machine) == "gpu 0 - gpu 1 x3\n");
  CHECK(reading.notes == std::vector<std::string>{"NVLinks that are down: of " + bus_id(0) + ": 3, of " + bus_id(1) + ": 3"});
}

TEST_CASE("drivers: coherent links to the CPU, and a domain of several hosts", "[unit][topo]") {
  const FakeHost host;
  host_with(host, 4);
  std::vector<FakeGpu> gpus;
  for (int i = 0; i < 4; ++i) {
    gpus.push_back({.bus_id = bus_id(i),
                    .major = 10,
                    .links = links(18, {"fffffff:ff:ff.0", kToUnknown}),
                    .c2c_links = 5,
                    .c2c_rate = 44712,
                    .cluster = "0123456789abcdef"});
  }
  FakeDrivers drivers(gpus);
  const Reading reading = detected(host, drivers.table);
  const Machine& m = reading.machine;
  CHECK(contains(links_text(m), "gpu 3 - NUMA node 1: C2C x5 223.56 given\n"));
  CHECK(contains(gpu_links(m), "gpu 3 - NVSwitch x18\n"));
  CHECK(m.gpus[0].domain != 0);
  CHECK(m.gpus[3].domain == m.gpus[0].domain);
  CHECK(reading.notes == std::vector<std::string>{});
  SECTION("links to the CPU that the driver names so") {
    for (FakeGpu& gpu : drivers.gpus) gpu.links = links(3, {"0004:00:00.1", kToCpu, 1, 0});
    CHECK(contains(gpu_links(detected(host, drivers.table).machine), "NUMA node 1 - gpu 3 x3\n"));
  }
  SECTION("no possible speed") {
    drivers.gpus[1].c2c_rate = GENERATE(0, 1000000, UINT64_MAX);
    const Reading other = detected(host, drivers.table);
    CHECK(other.machine.gpus[1].c2c_links == 0);
    CHECK(noted(other, "C2C links without a possible number or speed ignored: " + bus_id(1)));
  }
  SECTION("no possible number") {
    drivers.gpus[1].c2c_links = 4000000000;
    CHECK(detected(host, drivers.table).machine.gpus[1].c2c_links == 0);
  }
  SECTION("a GPU on switches of its host alone has no domain") {
    drivers.gpus[1].cluster = std::string(16, '\0');
    CHECK(detected(host, drivers.table).machine.gpus[1].domain == 0);
  }
}

TEST_CASE("drivers: numbers are CUDA's, whatever it hides; what files hide is added", "[unit][topo]") {
  const FakeHost host;
  host_with(host, 3);
  // CUDA_VISIBLE_DEVICES=2,0, and a GPU on no bus of the host's files.
  std::vector<FakeGpu> gpus = {{.bus_id = bus_id(2)},
                               {.bus_id = bus_id(1), .visible = false},
                               {.bus_id = bus_id(0)},
                               {.bus_id = "00000002:00:00.0", .numa = 1, .generation = 4, .width = 8}};
  for (FakeGpu& gpu : gpus) gpu.links = {{"0000:99:00.0", kToSwitch}};
  const FakeDrivers drivers(gpus);
  const Reading reading = detected(host, drivers.table);
  const Machine& m = reading.machine;
  REQUIRE(m.gpus.size() == 4);
  CHECK(m.gpus[0].dev == 1);
  CHECK(m.gpus[1].dev == -1);
  CHECK(m.gpus[1].sm == 90);
  CHECK(m.gpus[2].dev == 0);
  CHECK(m.gpus[3].dev == 2);
  CHECK(contains(links_text(m), "gpu 2 - NUMA node 1: PCI x8 12 derived"));
  CHECK(reading.notes == std::vector<std::string>{"GPU that only its driver shows: 0002:00:00.0"});
}

TEST_CASE("drivers: whichever call fails, the rest is there", "[unit][topo]") {
  const FakeHost host;
  host_with(host, 8);
  FakeDrivers drivers(hgx_h100());
  const char* all[] = {"cuInit",
                       "cuDeviceGetCount",
                       "cuDeviceGet",
                       "cuDeviceGetPCIBusId",
                       "cuDeviceGetAttribute",
                       "nvmlInit_v2",
                       "nvmlShutdown",
                       "nvmlDeviceGetCount_v2",
                       "nvmlDeviceGetHandleByIndex_v2",
                       "nvmlDeviceGetPciInfo_v3",
                       "nvmlDeviceGetCudaComputeCapability",
                       "nvmlDeviceGetMaxPcieLinkGeneration",
                       "nvmlDeviceGetMaxPcieLinkWidth",
                       "nvmlDeviceGetNvLinkState",
                       "nvmlDeviceGetNvLinkCapability",
                       "nvmlDeviceGetNvLinkRemotePciInfo_v2",
                       "nvmlDeviceGetNvLinkRemoteDeviceType",
                       "nvmlDeviceGetFieldValues",
                       "nvmlDeviceGetGpuFabricInfoV"};
  for (const std::string name : all) {
    INFO(name);
    drivers.failing = {name};
    const Reading reading = detected(host, drivers.table);
    const Machine& m = reading.machine;
    CHECK(m.gpus.size() == 8);
    const bool cuda_lost =
        name == "cuInit" || name.rfind("cuDeviceGetC", 0) == 0 || name == "cuDeviceGet" || name == "cuDeviceGetPCIBusId";
    const bool nvml_lost = name == "nvmlInit_v2" || name == "nvmlDeviceGetCount_v2" || name == "nvmlDeviceGetHandleByIndex_v2" ||
                           name == "nvmlDeviceGetPciInfo_v3";
    CHECK(m.gpus[5].dev == (cuda_lost ? -1 : 5));
    CHECK(m.gpus[5].sm == 90);
    CHECK(gpu_links(m).empty() == (nvml_lost || name == "nvmlDeviceGetNvLinkState"));
    if (cuda_lost) CHECK((noted(reading, "CUDA's driver cannot be used") || noted(reading, "the driver tells no bus id")));
    if (nvml_lost) CHECK((noted(reading, "NVML cannot be used") || noted(reading, "NVML tells no bus id")));
  }
  drivers.failing.insert(std::begin(all), std::end(all));
  const Reading none = detected(host, drivers.table);
  CHECK(none.machine.gpus.size() == 8);
  CHECK(noted(none, "GPU that its driver does not show"));
}

TEST_CASE("drivers: without NVML, without CUDA, without both", "[unit][topo]") {
  const FakeHost host;
  host_with(host, 8);
  FakeDrivers drivers(hgx_h100());
  CHECK(detected(host, {drivers.table.cuda, {}}).machine.gpus[7].dev == 7);
  CHECK(detected(host, {drivers.table.cuda, {}}).machine.gpus[7].sm == 90);
  CHECK(gpu_links(detected(host, {{}, drivers.table.nvml}).machine).size() > 0);
  CHECK(detected(host, {{}, drivers.table.nvml}).machine.gpus[7].dev == -1);
  CHECK(detected(host, {}).machine.gpus[7].sm == 0);
  // No driver for no GPU is nothing to tell.
  const FakeHost bare;
  bare.numa(0, "f");
  CHECK(detected(bare, {}).notes == std::vector<std::string>{});
  const GpuDrivers missing = load_gpu_drivers("libronde-no-such-cuda.so", "libm.so.6");
  CHECK(missing.cuda.init == nullptr);
  CHECK(missing.nvml.init == nullptr);
}

TEST_CASE("drivers: values that cannot be", "[unit][topo]") {
  const FakeHost host;
  host_with(host, 2);
  FakeDrivers drivers({{.bus_id = bus_id(0)}, {.bus_id = bus_id(1)}});
  SECTION("numbers of GPUs") {
    drivers.count = GENERATE(1 << 20, 0x7fffffff);
    CHECK(noted(detected(host, drivers.table), "it does not tell how many GPUs there are"));
  }
  SECTION("models") {
    drivers.gpus[0].major = GENERATE(-5, 0, 1000000);
    CHECK(detected(host, drivers.table).machine.gpus[0].sm == 0);
  }
  SECTION("bus ids, also without an end") {
    drivers.gpus[0].bus_id = GENERATE(std::string(), std::string(100, '0'), std::string("no bus"));
    const Reading reading = detected(host, drivers.table);
    CHECK(reading.machine.gpus[0].dev == -1);
    CHECK(noted(reading, "GPU that its driver does not show: " + bus_id(0)));
  }
  SECTION("one address twice") {
    drivers.gpus[1].bus_id = bus_id(0);
    const Reading reading = detected(host, drivers.table);
    CHECK(reading.machine.gpus[0].dev == 0);
    CHECK(noted(reading, "GPU that the driver shows more than once, taken as one: gpu 1"));
  }
  SECTION("PCI links") {
    drivers.gpus.push_back({.bus_id = "0003:00:00.0", .generation = 99, .width = 255});
    CHECK(noted(detected(host, drivers.table), "PCI link unknown, taken as 8 GT/s x16"));
  }
  SECTION("links to itself, to nobody and to nothing") {
    drivers.gpus[0].links = {{bus_id(0)}, {"0000:77:00.0"}, {"x"}, {bus_id(1), kToGpu, 1, 0}, {bus_id(1), 77}};
    const Reading reading = detected(host, drivers.table);
    CHECK(gpu_links(reading.machine) == "gpu 0 - gpu 1 x1\n");
    CHECK(noted(reading, "NVLink whose other end the driver does not tell ignored: of " + bus_id(0) + ": 2"));
    CHECK(noted(reading, "NVLink that gives no access to its other end ignored: of " + bus_id(0) + ": 3"));
    CHECK(noted(reading, "NVLink link of a GPU to itself ignored"));
    CHECK(noted(reading, "NVLink link to a GPU that is not there ignored"));
  }
  SECTION("links without end") {
    drivers.gpus[0].links = links(100000, {bus_id(1)});
    CHECK(gpu_links(detected(host, drivers.table).machine) == "gpu 0 - gpu 1 x64\n");
  }
  SECTION("NUMA nodes") {
    drivers.gpus.push_back({.bus_id = "0003:00:00.0", .numa = GENERATE(-1, 77, 1 << 30)});
    CHECK(detected(host, drivers.table).machine.gpus.size() == 3);
  }
}
