// ronde-topo: machines, and what ronde makes of them.
#include <CLI/CLI.hpp>

#include "tools/topo/commands.h"

namespace ronde::topo::tool {
namespace {

constexpr const char* kInput =
    "a topology file, a folder with a host's sys/ and proc/, or - for standard input; without it, this host";
constexpr const char* kStatuses =
    "Exit status: 0 done; 1 the answer is no (diff: they differ; check: something is wrong); 2 bad usage;\n"
    "3 something could not be read or written.";

void add_show(CLI::App& app, int& status) {
  auto options = std::make_shared<ShowOptions>();
  CLI::App* command = app.add_subcommand("show", "Shows a machine: its devices, links, and the paths between devices");
  command->add_option("INPUT", options->input, kInput);
  command->add_flag("--channels", options->channels, "show the rings and trees that are found, too");
  command->add_option("--svg", options->svg, "draw the machine and its channels into this file instead");
  command->add_flag("--json", options->json, "for programs");
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
  command->add_option("INPUT", options->input, kInput);
  command->add_option("-o,--output", options->output, "the file to write; without it, standard output");
  command
      ->add_option("--format", options->format,
                   "xml (NCCL's topology file) or text (ronde's short form) or json (for programs, not read again); without it "
                   "by the output's ending, else xml")
      ->check(CLI::IsMember({"xml", "text", "json"}));
  command->footer(std::string("Example: ronde-topo dump --format text\n\n") + kStatuses);
  command->callback([options, &status] { status = dump(*options); });
}

}  // namespace
}  // namespace ronde::topo::tool

int main(int argc, char** argv) {
  using namespace ronde::topo::tool;
  CLI::App app("Shows, converts, compares and checks machines: this host, topology files, copies of hosts.", "ronde-topo");
  app.require_subcommand(1);
  app.footer(std::string("ronde-topo COMMAND --help explains a command.\n\n") + kStatuses);
  int status = kDone;
  add_show(app, status);
  add_dump(app, status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kUsage;
  }
  return status;
}
