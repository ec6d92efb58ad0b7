// ronde-plan: what would be done for a call, why, and how long it would take.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "tools/plan/compare.h"
#include "tools/plan/explain.h"
#include "tools/plan/hosts.h"
#include "tools/plan/predict.h"
#include "tools/plan/programs.h"
#include "tools/topo/input.h"

namespace ronde::plan::tool {
namespace {

constexpr int kNo = 1;
constexpr const char* kStatuses =
    "Exit status: 0 done; 1 the answer is no (compare: it does not hold; verify: they are wrong); 2 flags that cannot be "
    "read; 3 what was asked for cannot be done, or something failed.";

int failed(const Error& error) {
  std::fprintf(stderr, "ronde-plan: %s\n", error.what.c_str());
  return 3;
}
/// Prints, and returns `status` where that works.
int print(const std::string& text, int status = 0) {
  const Result<> printed = topo::tool::write_output("", text);
  return printed.ok() ? status : failed(printed.error());
}
int done(const Result<std::string>& text) { return text.ok() ? print(*text) : failed(text.error()); }

/// The table in `file`; without one, the settings'.
Result<Costs> costs_of(const std::string& file) { return file.empty() ? ronde::costs_of(*current_config()) : read_costs(file); }

/// With sizes as texts; "" where they are the default.
Result<std::string> explain_command(ExplainOptions options, const std::string& least, const std::string& most) {
  const auto read = [](const std::string& text, uint64_t* bytes) -> Result<> {
    if (text.empty()) return {};
    if (text == "0") {
      *bytes = 0;
      return {};
    }
    RONDE_TRY(*bytes, size_of_text(text));
    return {};
  };
  RONDE_TRY(read(least, &options.least));
  RONDE_TRY(read(most, &options.most));
  return explain(options, *current_config());
}

void add_explain(CLI::App& app, int& status) {
  struct Sizes {
    std::string least, most;
  };
  auto options = std::make_shared<ExplainOptions>();
  auto sizes = std::make_shared<Sizes>();
  CLI::App* command = app.add_subcommand("explain", "What the library would choose, what the alternatives would cost, and why");
  CLI::Option* machine = command->add_option(
      "--machine", options->machine, "a topology file, or a folder with a host's sys and proc: its GPUs, or its CPU ranks");
  command->add_option("--copies", options->copies, "of that machine, joined by the network")->needs(machine);
  command->add_option("--ranks", options->ranks, "ranks")->capture_default_str()->excludes(machine);
  command->add_option("--cores", options->cores, "that the ranks of a host share; 0: those of this process");
  command->add_option("--nodes", options->nodes, "hosts")->capture_default_str()->excludes(machine);
  command->add_flag("--processes", options->processes, "each rank is a process of its own");
  command->add_option("--coll", options->call, "the collective, as the API names it")->capture_default_str();
  command->add_option("--type", options->type, "element type")->capture_default_str();
  command->add_option("--op", options->op, "reduction")->capture_default_str();
  command->add_option("--root", options->root, "root");
  command->add_option("-b,--minbytes", sizes->least, "least bytes of the larger buffer of a rank: 8, 64K, 1M, 8G");
  command->add_option("-e,--maxbytes", sizes->most, "most bytes");
  command->add_option("-f,--stepfactor", options->factor, "from one size to the next")->check(CLI::Range(2, 1 << 30));
  command->add_flag("--json", options->json, "for programs");
  command->footer(kStatuses);
  command->callback([options, sizes, &status] { status = done(explain_command(*options, sizes->least, sizes->most)); });
}

void add_program_options(CLI::App& command, ProgramOptions& options) {
  command.add_option("FILE", options.file, "a file of Programs (docs/programs.md); without it, those of an algorithm");
  command.add_option("--algo", options.algorithm, "the algorithm")->capture_default_str();
  command.add_option("--coll", options.call, "the collective, as the API names it")->capture_default_str();
  command.add_option("--ranks", options.ranks, "ranks")->capture_default_str();
  command.add_option("--nodes", options.nodes, "hosts")->capture_default_str();
  command.add_option("--root", options.root, "root");
}

/// The text of what is asked for, into a file or to standard output.
Result<> show(const ProgramOptions& options, bool steps, const std::string& format, const std::string& output) {
  RONDE_TRY(const std::string text, format == "svg" ? show_svg(options) : steps ? show_steps(options) : show_text(options));
  return topo::tool::write_output(output, text);
}

void add_show(CLI::App& app, int& status) {
  struct Options {
    ProgramOptions programs;
    bool steps = false;
    std::string format = "text", output;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("show", "Prints or draws Programs");
  add_program_options(*command, options->programs);
  CLI::Option* steps = command->add_flag("--steps", options->steps, "what each lane does in each step, a line a lane");
  command->add_option("--format", options->format, "text, or svg: a drawing of the steps, with what travels between ranks")
      ->check(CLI::IsMember({"text", "svg"}))
      ->excludes(steps);
  command->add_option("-o,--output", options->output, "the file to write; without it, standard output");
  command->footer(std::string("Example: ronde-plan show --coll AllReduce --algo tree --ranks 8 --format svg -o tree.svg\n\n") +
                  kStatuses);
  command->callback([options, &status] {
    const Result<> result = show(options->programs, options->steps, options->format, options->output);
    status = result.ok() ? 0 : failed(result.error());
  });
}

void add_verify(CLI::App& app, int& status) {
  auto options = std::make_shared<ProgramOptions>();
  auto slots = std::make_shared<int>(2);
  CLI::App* command = app.add_subcommand("verify", "Proves Programs right, or says what is wrong with them");
  add_program_options(*command, *options);
  command->add_option("--slots", *slots, "of a connection")->capture_default_str()->check(CLI::Range(1, 1024));
  command->footer(kStatuses);
  command->callback([options, slots, &status] {
    const Result<Proof> proof = prove(*options, *slots);
    if (!proof.ok()) {
      status = failed(proof.error());
      return;
    }
    status = print(proof->text, proof->right ? 0 : kNo);
  });
}

Result<std::string> simulate_command(const std::string& input, const Scenario& scenario, const std::string& costs_file,
                                     const std::vector<std::string>& texts) {
  RONDE_TRY(const Costs costs, costs_of(costs_file));
  RONDE_TRY(const topo::Reading reading, topo::tool::read_input(input));
  std::vector<uint64_t> sizes;
  for (const std::string& text : texts) {
    RONDE_TRY(const uint64_t bytes, size_of_text(text));
    sizes.push_back(bytes);
  }
  return simulate_sizes(reading.machine, scenario, costs, sizes);
}

void add_simulate(CLI::App& app, int& status) {
  struct Options {
    std::string input, costs;
    Scenario scenario;
    std::vector<std::string> sizes{"1M", "64M", "1G", "8G"};
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("simulate", "Predicts time and bandwidth on a machine that need not exist, event by event");
  command->add_option("MACHINE", options->input,
                      "a topology file, or a folder with a host's sys and proc; without it, this host");
  command->add_option("--copies", options->scenario.copies, "of the machine, joined by the network")
      ->check(CLI::Range(1, 100000));
  command->add_option("--coll", options->scenario.coll, "the collective, as the API names it")->capture_default_str();
  command->add_option("--algo", options->scenario.algorithm, "the algorithm")->capture_default_str();
  command->add_option("--proto", options->scenario.protocol, "simple, ll or ll128")->capture_default_str();
  command->add_option("--channels", options->scenario.channels, "at most; 0: as many as are best")->check(CLI::Range(0, 1024));
  command->add_option("--slice", options->scenario.slice, "bytes of a slot's data")->check(CLI::Range(1, 1 << 30))->capture_default_str();
  command->add_option("--slots", options->scenario.slots, "of a connection")->capture_default_str()->check(CLI::Range(1, 1024));
  command->add_flag("--processes", options->scenario.processes, "CPU ranks are processes, not threads of one");
  command->add_option("--sizes", options->sizes, "bytes of the larger buffer of a rank: 64K, 1M, 8G")->delimiter(',');
  command->add_option("--costs", options->costs, "a table of constants, as calibrate writes it; without it, that of RONDE_TUNE_FILE");
  command->footer(
      std::string("Example: ronde-plan simulate tests/golden/machines/hgx-h100.machine --copies 4 --sizes 64M,8G\n\n") +
      kStatuses);
  command->callback(
      [options, &status] { status = done(simulate_command(options->input, options->scenario, options->costs, options->sizes)); });
}

/// Measures what the constants need and writes the table.
Result<> calibrate(const std::string& output, const std::string& transport, int rounds, uint64_t most) {
  Costs costs = built_in_costs();
  for (const HopKind kind : {HopKind::process, HopKind::shm}) {
    if (transport != "both" && (transport == "shm") != (kind == HopKind::shm)) continue;
    std::vector<Task> tasks = calibration_tasks(most);
    RONDE_TRY(measure(kind, rounds, tasks));
    costs = calibrated(costs, kind, tasks);
  }
  return topo::tool::write_output(output,
                                  to_text(costs, "ronde-plan calibrate, and the built-in table for what it does not measure"));
}

void add_calibrate(CLI::App& app, int& status) {
  struct Options {
    std::string output, transport = "both", most = "256M";
    int rounds = 5;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("calibrate", "Measures the constants of CPU ranks on this host and writes them as a table");
  command->add_option("-o,--output", options->output, "the file to write; without it, standard output");
  command->add_option("--transport", options->transport, "inproc, shm or both")
      ->check(CLI::IsMember({"inproc", "shm", "both"}))
      ->capture_default_str();
  command->add_option("--rounds", options->rounds, "samples of each measurement, of which the median counts")
      ->check(CLI::Range(1, 100));
  command->add_option("--maxbytes", options->most, "largest working set")->capture_default_str();
  command->footer(kStatuses);
  command->callback([options, &status] {
    const Result<uint64_t> most = size_of_text(options->most);
    const Result<> result =
        most.ok() ? calibrate(options->output, options->transport, options->rounds, *most) : Result<>(most.error());
    status = result.ok() ? 0 : failed(result.error());
  });
}

/// One rank's part; the table is rank 0's.
int compare_between_hosts(uint64_t least, uint64_t most, int rounds, int64_t mbits) {
  const Result<Costs> costs = costs_of("");
  if (!costs.ok()) return failed(costs.error());
  const Result<std::vector<Row>> rows = compare_hosts({least, most, rounds, mbits}, *costs);
  if (!rows.ok()) return failed(rows.error());
  if (rows->empty()) return 0;
  bool good = false;
  const std::string text = to_text(*rows, &good);
  return print(text, good ? 0 : kNo);
}

void add_compare(CLI::App& app, int& status) {
  struct Options {
    std::string least = "64K", most = "256M";
    int rounds = 5;
    int64_t mbits = 0;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("compare", "Holds the simulation against calls that are measured on this host in the same run");
  command->add_option("-b,--minbytes", options->least, "least bytes")->capture_default_str();
  command->add_option("-e,--maxbytes", options->most, "most bytes")->capture_default_str();
  command->add_option("--rounds", options->rounds, "samples of each measurement, of which the median counts")
      ->check(CLI::Range(1, 100));
  command->add_option("--mbits", options->mbits, "between hosts: what each one's link carries, Mbit/s; 0: more than its cores")->check(CLI::Range(0, 400000));
  command->footer(
      std::string(
          "Good: nine points of ten within 25 %, none beyond 50 %. Steady only where nothing else keeps the cores busy.\n"
          "As a rank of a job on several hosts it measures between them, for example: ronde-run -n 4 --hosts 2 --rate 1gbit "
          "ronde-plan compare --mbits 1000 -e 4M\n\n") +
      kStatuses);
  command->callback([options, &status] {
    const Result<uint64_t> least = size_of_text(options->least);
    const Result<uint64_t> most = size_of_text(options->most);
    if (!least.ok() || !most.ok()) {
      status = failed(least.ok() ? most.error() : least.error());
      return;
    }
    if (*least > *most) {
      status = failed(fail(Code::invalid_argument, fmt::format("sizes from {} to {} bytes are none; begin with the smaller", *least, *most)));
      return;
    }
    if (in_hosts()) {
      status = compare_between_hosts(*least, *most, options->rounds, options->mbits);
      return;
    }
    const Result<Comparison> result = compare(*least, *most, options->rounds, {HopKind::process, HopKind::shm});
    if (!result.ok()) {
      status = failed(result.error());
      return;
    }
    bool good = false;
    const std::string text = to_text(*result, &good);
    status = print(text, good ? 0 : kNo);
  });
}

void add_published(CLI::App& app, int& status) {
  struct Options {
    std::string folder = "tests/golden/machines";
    int most = 64;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("published", "Figures that others have published, next to what the simulation predicts");
  command->add_option("--machines", options->folder, "the folder with the machines")->capture_default_str();
  command
      ->add_option("--maxcopies", options->most,
                   "of a machine; time grows with the square: 64 copies of 8 GPUs take 10 s, 128 most of a minute")
      ->check(CLI::Range(1, 128))
      ->capture_default_str();
  command->footer(kStatuses);
  command->callback([options, &status] { status = done(published(options->folder, built_in_costs(), options->most)); });
}

int run(int argc, char** argv) {
  CLI::App app("What would be done for a call, why, and how long it would take.", "ronde-plan");
  app.require_subcommand(0, 1);  // with 1 an unknown word would be no more than a missing command
  int status = 0;
  add_explain(app, status);
  add_show(app, status);
  add_verify(app, status);
  add_simulate(app, status);
  add_calibrate(app, status);
  add_compare(app, status);
  add_published(app, status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (!app.get_subcommands().empty()) return status;
  std::fprintf(stderr, "ronde-plan: name a command; ronde-plan --help lists them\n");
  return 2;
}

}  // namespace
}  // namespace ronde::plan::tool

int main(int argc, char** argv) { return ronde::plan::tool::run(argc, argv); }
