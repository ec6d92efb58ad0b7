// ronde-topo: machines, and what ronde makes of them.
#include <CLI/CLI.hpp>

#include "tools/topo/commands.h"

namespace ronde::topo_tool {
namespace {

constexpr const char* kInput =
    "a topology file, a folder with a host's sys/ and proc/, or - for standard input; without it, this host";
constexpr const char* kStatuses =
    "Exit status: 0 done; 1 the answer is no (diff: they differ; check: something is wrong); 2 bad usage;\n"
    "3 something could not be read or written.";

void add_dump(CLI::App& app, int& status) {
  auto options = std::make_shared<DumpOptions>();
  CLI::App* command = app.add_subcommand("dump", "Writes a machine as a file that ronde reads");
  command->add_option("INPUT", options->input, kInput);
  command->add_option("-o,--output", options->output, "the file to write; without it, standard output");
  command
      ->add_option("--format", options->format,
                   "xml (NCCL's topology file) or text (ronde's short form); without it by the output's ending, else xml")
      ->check(CLI::IsMember({"xml", "text"}));
  command->footer(std::string("Example: ronde-topo dump --format text\n\n") + kStatuses);
  command->callback([options, &status] { status = dump(*options); });
}

}  // namespace
}  // namespace ronde::topo_tool

int main(int argc, char** argv) {
  using namespace ronde::topo_tool;
  CLI::App app("Shows, converts, compares and checks machines: this host, topology files, copies of hosts.", "ronde-topo");
  app.require_subcommand(1);
  app.footer(std::string("ronde-topo COMMAND --help explains a command.\n\n") + kStatuses);
  int status = kDone;
  add_dump(app, status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kUsage;
  }
  return status;
}
