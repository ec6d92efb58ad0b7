// ronde-info: what ronde finds on this host, and with which settings it would run.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "base/config.h"
#include "tools/info/facts.h"
#include "topo/source.h"

namespace {

using namespace ronde;
using namespace ronde::info;

constexpr const char* kAbout =
    "What ronde finds on this host: devices, network adapters, transports between ranks with the reason, every setting with its "
    "value "
    "and where it came from. Started by ronde-run or torchrun (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT) it connects all "
    "processes of the "
    "job, and rank 0 prints; alone it connects two processes of two threads.\n"
    "Example: ronde-run -n 4 ronde-info --all";

Json facts_of(const Result<std::vector<Pair>>& pairs) {
  Json facts;
  facts["library"] = library();
  facts["host"] = host();
  const auto reading = topo::machine_of_host(*current_config(), 0);
  facts["devices"] = reading.ok() ? devices(reading->machine) : Json(reading.error().what);
  facts["GPUs as ranks"] = gpus();
  facts["network adapters"] = reading.ok() ? network_adapters(reading->machine) : Json(reading.error().what);
  facts["addresses for the bootstrap, best first"] = interfaces();
  facts["networks between hosts, best first"] = networks();
  facts["libraries looked for at run time"] = run_time_libraries();
  facts["limits"] = limits();
  facts["transports between ranks (from>to)"] = pairs.ok() ? transports(*pairs) : Json(pairs.error().what);
  facts["settings"] = settings();
  return facts;
}

/// Returns the exit code.
int tell(bool all, bool json) {
  const Result<Party> party = launched();
  if (!party.ok()) {
    std::fprintf(stderr, "ronde-info: %s\n", party.error().what.c_str());
    return 2;
  }
  const bool many = party->ranks > 1;
  const Result<std::vector<Pair>> pairs = many ? connect_all(*party, current_config()) : connect_two_processes();
  if (party->first == 0) {
    const Json facts = facts_of(pairs);
    const std::string text = json ? facts.dump(2, ' ', false, Json::error_handler_t::replace) + "\n" : as_text(facts, all);
    if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
      std::perror("ronde-info: writing to standard output");
      return 1;
    }
  }
  return pairs.ok() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(kAbout, "ronde-info");
  bool all = false;
  bool json = false;
  app.add_flag("--all", all, "settings that have their default values, too");
  app.add_flag("--json", json, "as JSON, always with all settings");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    return tell(all, json);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ronde-info: %s\n", error.what());
    return 1;
  }
}
