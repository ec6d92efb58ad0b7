// Where a process takes its machine from: files and folders, known by what is in them, and what of them is on this host.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "base/files.h"
#include "support/catch.h"
#include "support/scratch.h"
#include "support/topo.h"
#include "topo/detect.h"
#include "topo/merge.h"
#include "graph/settings.h"
#include "topo/source.h"
#include "topo/text.h"
#include "topo/xml.h"

using namespace ronde;
using namespace ronde::topo;
using ronde::test::contains;
using ronde::test::Scratch;

namespace {

using Lines = std::vector<std::string>;
namespace fs = std::filesystem;

size_t entries(const Scratch& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder.root()), fs::directory_iterator()));
}

std::string contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

Config config(const std::map<std::string, std::string>& environment) {
  const auto get = [&](const char* name) {
    const auto at = environment.find(name);
    return at == environment.end() ? nullptr : at->second.c_str();
  };
  return read_config(get, {}, nullptr);
}

std::string error_of(const std::string& path) {
  const auto read = load_machine(path);
  REQUIRE_FALSE(read.ok());
  return read.error().what;
}

bool any_contains(const Lines& lines, const std::string& text) {
  for (const std::string& line : lines) {
    if (contains(line, text)) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("files of machines are known by what is in them", "[unit][topo][source]") {
  const Scratch folder;
  const std::string text = "cpu { gpu h100; nic 100G }\n";
  const Machine machine = test::read_text(text).machine;
  CHECK(load_machine(folder.write("t", text))->machine == machine);
  CHECK(load_machine(folder.write("x", "\xef\xbb\xbf" + to_xml(machine)))->machine == machine);
  CHECK(load_machine(folder.write("y", "\n \t" + to_xml(machine)))->machine == machine);
  const auto hwloc =
      load_machine(folder.write("h", "<topology version=\"2.0\"><object type=\"Machine\" cpuset=\"0xf\"/></topology>"));
  REQUIRE(hwloc.ok());
  CHECK(hwloc->machine.of_kind(NodeKind::numa).size() == 1);
  folder.write("host/sys/devices/system/cpu/online", "0-3\n");
  const auto host = load_machine(folder.path("host"));
  REQUIRE(host.ok());
  CHECK(host->machine.numas.at(0).cpus.count() == 4);
  CHECK(error_of(folder.write("g", "<graphs version=\"1\"/>")) ==
        folder.path("g") + ":1: <graphs>: this is a graph file (NCCL_GRAPH_FILE), not a topology file; expected <system>, or hwloc's <topology>");
  CHECK(error_of(folder.write("e", " \n")) == folder.path("e") + ": the file is empty; name one with a machine: a topology file of NCCL or hwloc, or a text form");
  CHECK(contains(error_of(folder.path("none")), "reading the file '" + folder.path("none") + "': No such file or directory"));
  CHECK(contains(error_of(folder.path("host/sys")), "it has no folder sys"));
  REQUIRE(mkfifo(folder.path("fifo").c_str(), 0600) == 0);
  CHECK(contains(error_of(folder.path("fifo")), "that is no regular file"));
  CHECK(contains(error_of(folder.write("long", std::string((size_t{16} << 20) + 1, ' '))), "more than the 16777216 bytes"));
}

TEST_CASE("without a file the machine is the detected one, under its identity", "[unit][topo][source]") {
  const auto mine = machine_of_host(config({}), 0xabc);
  REQUIRE(mine.ok());
  const GpuDrivers drivers = load_gpu_drivers();
  const HwlocApi hwloc = load_hwloc();
  Machine detected = detect("", {false, &drivers, &hwloc})->machine;
  REQUIRE(mine->machine.hosts.size() == 1);
  CHECK(mine->machine.hosts[0].hash == 0xabc);
  detected.hosts[0].hash = 0xabc;
  // (A virtual machine of NVIDIA's may have a description of its own.)
  if (access("/var/run/nvidia-topologyd/virtualTopology.xml", R_OK) != 0) CHECK(mine->machine == detected);
}

TEST_CASE("a file's machine is this host's, with what the host adds; what is not here is said", "[unit][topo][source]") {
  const Scratch folder;
  const std::string file = folder.write(
      "m",
      "cpu numa=0 cpus=1 { gpu busid=fffe:01:00.0 h100 rank=3; nic busid=fffe:02:00.0 { port name=ronde-none 100G } }\n"
      "cpurank rank=9\n");
  CHECK(contains(machine_of_host(config({{"NCCL_TOPO_FILE", file}}), 1).error().what, file + ":2: cpurank: expected host, cpu"));
  const std::string good = folder.write("m", contents(file).substr(0, contents(file).find("cpurank")));
  const auto mine = machine_of_host(config({{"RONDE_TOPO_FILE", good}}), 0x1d);
  REQUIRE(mine.ok());
  const Machine& machine = mine->machine;
  CHECK(check(machine) == Lines{});
  REQUIRE(machine.hosts.size() == 1);
  CHECK(machine.hosts[0].hash == 0x1d);
  CHECK(machine.device_of_rank(3) == kNone);
  CHECK(machine.gpus.at(0).sm == 90);
  CHECK_FALSE(machine.numas.at(0).cpus.empty());
  const Machine detected = detect("")->machine;
  for (const Port& port : detected.ports) {
    CHECK(std::any_of(machine.ports.begin(), machine.ports.end(), [&](const Port& one) { return one.name == port.name; }));
  }
  CHECK(
      any_contains(mine->notes, "the topology file " + good +
                                    " names devices that this host does not have: gpu fffe:01:00.0, port ronde-none; none of its "
                                    "devices is here, so it seems to describe another machine"));
}

TEST_CASE("of a file of several hosts the one with this identity counts; else it is ignored", "[unit][topo][source]") {
  const Scratch folder;
  const std::string file = folder.write(
      "m", "host hash=a { cpu numa=0 { gpu busid=fffe:01:00.0 } }\nhost hash=b { cpu numa=0 { gpu busid=fffe:02:00.0 } }\n");
  const auto mine = machine_of_host(config({{"RONDE_TOPO_FILE", file}}), 0xb);
  REQUIRE(mine.ok());
  CHECK(mine->machine.hosts.size() == 2);
  const auto other = machine_of_host(config({{"RONDE_TOPO_FILE", file}}), 0xc);
  REQUIRE(other.ok());
  CHECK(other->machine.hosts.size() == 1);
  CHECK(any_contains(other->notes, "describes 2 hosts, none of them by the identity of this one (c), and is ignored"));
}

TEST_CASE("the words of a level are the distances that they name", "[unit][graph]") {
  for (int place = 0; place <= static_cast<int>(Distance::sys); ++place) {
    const auto distance = static_cast<Distance>(place);
    const Config levels = config({{"NCCL_P2P_LEVEL", to_string(distance)}, {"NCCL_NET_GDR_LEVEL", to_string(distance)}});
    CHECK(graph::limits_of(levels).rules.p2p_level == distance);
    CHECK(graph::limits_of(levels).rules.gdr_level == distance);
  }
  CHECK(graph::limits_of(config({})).rules.p2p_level == graph::Rules().p2p_level);
}

TEST_CASE("a file that is not there is a note, with STRICT an error; a broken one always is", "[unit][topo][source]") {
  const Scratch folder;
  const std::string none = folder.path("none");
  const auto mine = machine_of_host(config({{"NCCL_TOPO_FILE", none}}), 1);
  REQUIRE(mine.ok());
  CHECK(any_contains(mine->notes, "the topology file " + none + " named by NCCL_TOPO_FILE is ignored: reading the file"));
  CHECK_FALSE(machine_of_host(config({{"NCCL_TOPO_FILE", none}, {"RONDE_STRICT", "1"}}), 1).ok());
  const std::string broken = folder.write("b", "<system version=\"1\"><cpu numaid=\"x\"/></system>");
  const auto bad = machine_of_host(config({{"NCCL_TOPO_FILE", broken}}), 1);
  REQUIRE_FALSE(bad.ok());
  CHECK(contains(bad.error().what, broken + ":1: <cpu> numaid=\"x\""));
}

TEST_CASE("the machine is written by the rank that is to, whole or not at all", "[unit][topo][source]") {
  const Scratch folder;
  const Machine machine = test::read_text("cpu { gpu h100; nic 100G }\n").machine;
  const std::string file = folder.path("dump.xml");
  CHECK(dump_machine(config({}), 0, machine).ok());
  const Config first = config({{"NCCL_TOPO_DUMP_FILE", file}});
  CHECK(dump_machine(first, 1, machine).ok());
  CHECK_FALSE(fs::exists(file));
  CHECK(dump_machine(first, 0, machine).ok());
  CHECK(contents(file) == to_xml(machine));
  CHECK(load_machine(file)->machine == machine);
  const Config second = config({{"NCCL_TOPO_DUMP_FILE", file}, {"NCCL_TOPO_DUMP_FILE_RANK", "3"}});
  CHECK(dump_machine(second, 0, {}).ok());
  CHECK(contents(file) == to_xml(machine));
  CHECK(dump_machine(second, 3, {}).ok());
  CHECK(contents(file) == to_xml({}));
  CHECK(entries(folder) == 1);
  const auto failed = dump_machine(config({{"NCCL_TOPO_DUMP_FILE", folder.path("no/dump.xml")}}), 0, machine);
  REQUIRE_FALSE(failed.ok());
  CHECK(contains(failed.error().what, "writing the file '" + folder.path("no/dump.xml") + "': No such file or directory"));
}

TEST_CASE("files are written through links, devices as they are, and nothing is left behind", "[unit][base]") {
  const Scratch folder;
  const std::string file = folder.write("real", "old");
  REQUIRE(symlink(file.c_str(), folder.path("link").c_str()) == 0);
  CHECK(write_file(folder.path("link"), "new").ok());
  CHECK(fs::is_symlink(folder.path("link")));
  CHECK(contents(file) == "new");
  CHECK(read_file(file, 3).value() == "new");
  CHECK_FALSE(read_file(file, 2).ok());
  CHECK(write_file("/dev/null", "text").ok());
  CHECK(fs::is_character_file("/dev/null"));
  CHECK_FALSE(write_file(folder.path(""), "text").ok());
  CHECK_FALSE(write_file("/dev/full", "text").ok());
  CHECK(entries(folder) == 2);
}
