// ronde-topo: what its commands print and leave behind, and how they end.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "proc/command.h"
#include "support/catch.h"

using namespace ronde::test;

namespace {

Outcome topo(const std::string& arguments, const Folder& folder) {
  return run_command("env -u RONDE_TOPO_FILE -u NCCL_TOPO_FILE " + built_file("tools/ronde-topo") + " " + arguments, folder);
}
Outcome topo(const std::string& arguments) { return topo(arguments, Folder()); }

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

void write(const std::filesystem::path& path, const std::string& text) { std::ofstream(path) << text; }

constexpr const char* kBox = "2 cpu sapphire {\n  2 gpu h100\n  nic gen5x16 400G\n}\nnvlink 0-3 switch x18\n";

}  // namespace

TEST_CASE("ronde-topo: each command explains itself", "[ronde-topo]") {
  for (const std::string command : {"show", "dump", "convert", "diff", "check", "gather"}) {
    const Outcome help = topo(command + " --help");
    INFO(command);
    CHECK(help.status == 0);
    CHECK(has(help.out, "Example"));
    CHECK(has(help.out, "Exit status: 0 done"));
  }
  CHECK(topo("").status == 2);
  CHECK(has(topo("").err, "name a command"));
  CHECK(topo("nothing").status == 2);
  CHECK(has(topo("nothing").err, "not expected: nothing"));
  CHECK(topo("show --nothing").status == 2);
  CHECK(topo("diff one").status == 2);
  CHECK(topo("dump --format yaml").status == 2);
}

TEST_CASE("ronde-topo: this host is a machine, and a dump of it the same one", "[ronde-topo]") {
  const Folder folder;
  const Outcome show = topo("show", folder);
  CHECK(show.status == 0);
  CHECK(has(show.out, "NUMA node"));
  CHECK_FALSE(has(show.out, "\x1b"));
  CHECK(topo("dump -o here.xml", folder).status == 0);
  CHECK(topo("convert here.xml -o here.txt", folder).status == 0);
  CHECK(topo("convert here.txt -o again.xml", folder).status == 0);
  CHECK(text_of(folder.path / "again.xml") == text_of(folder.path / "here.xml"));
  CHECK_FALSE(text_of(folder.path / "here.xml").empty());
}

TEST_CASE("ronde-topo: what cannot be read is said, with status 3", "[ronde-topo]") {
  const Folder folder;
  write(folder.path / "empty.xml", "");
  write(folder.path / "broken.xml", "<system version=\"1\">\n  <cpu numaid=\"zero\"/>\n</system>\n");
  write(folder.path / "broken.txt", "cpu {\n  gpu h9000\n}\n");
  std::filesystem::create_directory(folder.path / "folder");
  const auto error_of = [&](const std::string& file) {
    const Outcome outcome = topo("show " + file, folder);
    CHECK(outcome.status == 3);
    CHECK(outcome.out == "");
    CHECK(has(outcome.err, file));
    return outcome.err;
  };
  CHECK(has(error_of("nowhere.xml"), "No such file or directory"));
  CHECK(has(error_of("empty.xml"), "empty"));
  CHECK(has(error_of("broken.xml"), "broken.xml:2"));
  CHECK(has(error_of("broken.txt"), "broken.txt:2"));
  CHECK(has(error_of("folder"), "sys"));
  if (geteuid() != 0) {
    write(folder.path / "locked.xml", kBox);
    std::filesystem::permissions(folder.path / "locked.xml", std::filesystem::perms::none);
    CHECK(has(error_of("locked.xml"), "Permission denied"));
  }
}

TEST_CASE("ronde-topo: what cannot be written is said, with status 3", "[ronde-topo]") {
  const Folder folder;
  write(folder.path / "box.txt", kBox);
  const Outcome nowhere = topo("dump box.txt -o nowhere/x.xml", folder);
  CHECK(nowhere.status == 3);
  CHECK(has(nowhere.err, "nowhere/x.xml"));
  const Outcome full = run_command("sh -c '" + built_file("tools/ronde-topo") + " show box.txt > /dev/full'", folder);
  CHECK(full.status == 3);
  CHECK(has(full.err, "No space left on device"));
}

TEST_CASE("ronde-topo: show draws, and writes JSON", "[ronde-topo]") {
  const Folder folder;
  write(folder.path / "box.txt", kBox);
  CHECK(topo("show box.txt --svg box.svg", folder).status == 0);
  CHECK(has(text_of(folder.path / "box.svg"), "rings: "));
  const auto json = nlohmann::json::parse(topo("show box.txt --json --channels", folder).out);
  CHECK(json.at("nodes").size() == 12);
  CHECK(json.at("channels").size() == 2);
  CHECK(has(topo("show box.txt --color always", folder).out, "\x1b[1m"));
  CHECK(has(topo("show box.txt --channels", folder).out, "trees: "));
}

TEST_CASE("ronde-topo: diff says what differs, with status 1", "[ronde-topo]") {
  const Folder folder;
  write(folder.path / "a.txt", kBox);
  write(folder.path / "b.txt", std::string(kBox).replace(std::string(kBox).find("x18"), 3, "x12"));
  const Outcome same = topo("diff a.txt a.txt", folder);
  CHECK(same.status == 0);
  CHECK(same.out == "");
  const Outcome other = topo("diff a.txt b.txt", folder);
  CHECK(other.status == 1);
  CHECK(has(other.out, "NVLink x18, 370.8 GB/s (table) in a.txt, NVLink x12, 247.2 GB/s (table) in b.txt"));
  CHECK(topo("diff a.txt nowhere", folder).status == 3);
}

TEST_CASE("ronde-topo: an empty name is neither this host nor no file", "[ronde-topo]") {
  const Folder folder;
  write(folder.path / "box.machine", kBox);
  for (const std::string arguments : {"show ''", "show box.machine --svg ''", "dump ''", "dump box.machine -o ''", "convert '' -o x", "diff '' ''",
                                      "check ''", "gather ''"}) {
    INFO(arguments);
    const Outcome outcome = topo(arguments, folder);
    CHECK(outcome.status == 2);
    CHECK(has(outcome.err, "the name is empty; leave it out, or give one"));
  }
}

TEST_CASE("ronde-topo: gather writes no names, and show reads it", "[ronde-topo]") {
  const Folder folder;
  write(folder.path / "a.txt", "host hash=c0ffee { cpu sapphire { nic gen5x16 { port name=secret7 guid=abcdef12 400G } } }");
  const Outcome gather = topo("gather a.txt -o report.txt", folder);
  CHECK(gather.status == 0);
  const std::string report = text_of(folder.path / "report.txt");
  for (const std::string secret : {"secret", "abcdef12", "c0ffee"}) CHECK_FALSE(has(report, secret));
  CHECK(has(report, "port_0"));
  CHECK(topo("show report.txt", folder).status == 0);
}

TEST_CASE("ronde-topo: check ends with 1 where NCCL has more", "[ronde-topo]") {
  const Folder folder;
  write(folder.path / "box.machine", kBox);
  const auto reference = [&](const std::string& rate) {
    write(folder.path / "nccl-reference.json",
          R"({"graphs":[{"file":"box.machine","case":"single","pattern":"RING","crossNic":0,"bwIntra":)" + rate +
              R"(,"searchMs":1,"channels":[{"ranks":[0,1,2,3]},{"ranks":[0,1,2,3]}]}]})");
  };
  CHECK(topo("check box.machine", folder).status == 0);
  reference("100");
  const Outcome better = topo("check .", folder);
  CHECK(better.status == 0);
  CHECK(has(better.out, " 200 "));
  // Over what the links carry: lowered to that, which is what was found too.
  reference("1000");
  const Outcome equal = topo("check .", folder);
  CHECK(equal.status == 0);
  CHECK(has(equal.out, " 1.00 "));
  write(folder.path / "nccl-reference.json", "{}");
  CHECK(topo("check .", folder).status == 3);
}

TEST_CASE("ronde-topo: check says which files it cannot read", "[ronde-topo]") {
  const Folder folder;
  write(folder.path / "box.machine", kBox);
  write(folder.path / "broken.xml", "<system version=\"1\">\n<cpu");
  const Outcome mild = topo("check .", folder);
  CHECK(mild.status == 0);
  CHECK(has(mild.out, "refused: "));
  CHECK(has(mild.out, "broken.xml:"));
  CHECK(has(mild.out, "1 machine, 1 refused, 0 wrong"));
  CHECK(topo("check --strict .", folder).status == 1);
  CHECK(topo("check broken.xml", folder).status == 3);
  std::filesystem::create_directory(folder.path / "none");
  CHECK(topo("check none", folder).status == 3);
}
