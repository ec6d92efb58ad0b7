// ronde-topo: machines, and what ronde makes of them.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "tools/topo/commands.h"

namespace ronde::topo::tool {
namespace {

constexpr const char* kMachine = "a topology file, or a folder with a host's sys and proc";
constexpr const char* kInput = "a topology file, or a folder with a host's sys and proc; without it, this host";
constexpr const char* kFormat =
    "xml (NCCL's topology file) or text (ronde's short form) or json (for programs, not read again); without it "
    "by the output's ending, else xml";
constexpr const char* kStatuses =
    "Exit status: 0 done; 1 the answer is no (diff: they differ; check: something is wrong); 2 bad usage;\n"
    "3 something could not be read or written.";

/// An empty word would mean this host, or no file, to whoever forgot to set a variable.
const CLI::Validator& a_name() {
  static const CLI::Validator validator(
      [](const std::string& word) { return std::string(word.empty() ? "the name is empty; leave it out, or give one" : ""); }, "",
      "name");
  return validator;
}

void add_show(CLI::App& app, int& status) {
  auto options = std::make_shared<ShowOptions>();
  CLI::App* command = app.add_subcommand("show", "Shows a machine: its devices, links, and the paths between devices");
  command->add_option("INPUT", options->input, kInput)->check(a_name());
  command->add_flag("--channels", options->channels, "show the rings and trees that are found, too");
  CLI::Option* svg = command->add_option("--svg", options->svg, "draw the machine and its channels into this file instead");
  svg->check(a_name());
  command->add_flag("--json", options->json, "for programs")->excludes(svg);
  command->add_flag("--all", options->all, "show hosts that are built like others, and paths between however many devices");
  command->add_option("--color", options->colour, "when to use colours (auto: on terminals)")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  command->add_option("--width", options->width, "columns of a line (a terminal's own; else no limit)")
      ->check(CLI::Range(20, 10000));
  command->footer(
      std::string(
          "After each bandwidth stands where it comes from: given (stated), derived (of PCI speed and lanes), table (of the\n"
          "model), assumed (not known; marked with ?).\n\n"
          "Examples: ronde-topo show --channels\n"
          "          ronde-topo show machine.xml --svg machine.svg\n\n") +
      kStatuses);
  command->callback([options, &status] { status = show(*options); });
}

void add_dump(CLI::App& app, int& status) {
  auto options = std::make_shared<DumpOptions>();
  CLI::App* command = app.add_subcommand("dump", "Writes a machine as a file that ronde reads");
  command->add_option("INPUT", options->input, kInput)->check(a_name());
  command->add_option("-o,--output", options->output, "the file to write; without it, standard output")->check(a_name());
  command->add_option("--format", options->format, kFormat)->check(CLI::IsMember({"xml", "text", "json"}));
  command->footer(std::string("Example: ronde-topo dump --format text\n\n") + kStatuses);
  command->callback([options, &status] { status = dump(*options); });
}

void add_convert(CLI::App& app, int& status) {
  auto options = std::make_shared<DumpOptions>();
  CLI::App* command = app.add_subcommand("convert", "Reads a machine in one form and writes it in another");
  command->add_option("INPUT", options->input, kMachine)->check(a_name())->required();
  command->add_option("-o,--output", options->output, "the file to write")->check(a_name())->required();
  command->add_option("--format", options->format, kFormat)->check(CLI::IsMember({"xml", "text", "json"}));
  command->footer(std::string("Example: ronde-topo convert machine.xml -o machine.txt\n\n") + kStatuses);
  command->callback([options, &status] { status = dump(*options); });
}

void add_diff(CLI::App& app, int& status) {
  auto options = std::make_shared<DiffOptions>();
  CLI::App* command = app.add_subcommand("diff", "Says in words what differs between two machines");
  command->add_option("A", options->a, kMachine)->check(a_name())->required();
  command->add_option("B", options->b, kMachine)->check(a_name())->required();
  command->footer(std::string("Nodes are the same by host and NUMA number, bus id, rank or name, whatever their order.\n"
                              "Nothing is printed where the machines are equal.\n\n"
                              "Example: ronde-topo diff before.xml after.xml\n\n") +
                  kStatuses);
  command->callback([options, &status] { status = diff(*options); });
}

void add_check(CLI::App& app, int& status) {
  auto options = std::make_shared<CheckOptions>();
  CLI::App* command = app.add_subcommand("check", "Checks the channels found for machines, and compares them with NCCL's");
  command
      ->add_option("INPUT", options->inputs,
                   "topology files, and folders: all their files ending in .xml or .machine; without any, this host")
      ->check(a_name());
  command->add_flag("--strict", options->strict, "files that cannot be read count as wrong");
  command->add_flag("--json", options->json, "all of it for programs");
  command->footer(
      std::string(
          "For each machine, and for two of it that its ports join: rings and trees, their total, NCCL's total and the ratio "
          "where a\n"
          "file nccl-reference.json lies in its folder or one of the two above, and the milliseconds of processor time that\n"
          "each search takes; 'slow' are those that take longer than NCCL's and than 10 ms, which a busy host may be why of.\n"
          "What the channels load each link with is worked out anew, for NCCL's too; where those ask for\n"
          "more than a link carries, their total is lowered until it fits.\n"
          "Status 1: a link is asked for more than it carries, or a ratio is under 1. Files that cannot be read are said (with\n"
          "file:line) and are no reason for it but with --strict; where there is no other file the status is 3.\n\n"
          "Example: ronde-topo check machines/\n\n") +
      kStatuses);
  command->callback([options, &status] { status = check(*options); });
}

void add_gather(CLI::App& app, int& status) {
  auto options = std::make_shared<GatherOptions>();
  CLI::App* command = app.add_subcommand("gather", "Writes this host's machine for a bug report, without names");
  command->add_option("INPUT", options->input, kInput)->check(a_name());
  command->add_option("-o,--output", options->output, "the file to write; without it, standard output")->check(a_name());
  command->footer(
      std::string(
          "In it: NUMA nodes and their CPU numbers, models of CPUs and GPUs, bus ids, PCI ids, link speeds, numbers and speeds "
          "of\n"
          "ports, links between devices. Identities of hosts and NVLink domains, GUIDs and names of ports become\n"
          "numbers; of a port's name its kind is kept (mlx5_3: mlx5_0, a name of no known kind: port_0). Not in it: host names, "
          "addresses, serial numbers.\n"
          "It is a text: read it before you send it. ronde-topo show reads it.\n\n"
          "Example: ronde-topo gather -o machine.txt\n\n") +
      kStatuses);
  command->callback([options, &status] { status = gather(*options); });
}

}  // namespace
}  // namespace ronde::topo::tool

int main(int argc, char** argv) {
  using namespace ronde::topo::tool;
  CLI::App app("Shows, converts, compares and checks machines: this host, topology files, copies of hosts.", "ronde-topo");
  app.require_subcommand(0, 1);  // with 1 an unknown word would be no more than a missing command
  app.footer(std::string("ronde-topo COMMAND --help explains a command.\n\n") + kStatuses);
  int status = kDone;
  add_show(app, status);
  add_dump(app, status);
  add_convert(app, status);
  add_diff(app, status);
  add_check(app, status);
  add_gather(app, status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kUsage;
  }
  if (!app.get_subcommands().empty()) return status;
  std::fprintf(stderr, "ronde-topo: name a command; ronde-topo --help lists them\n");
  return kUsage;
}
