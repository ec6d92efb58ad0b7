// The main of all benchmarks; RONDE_BENCH says which this is.
#include <fmt/core.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/collectives.h"
#include "bench/failure.h"
#include "bench/job.h"
#include "bench/launch_env.h"
#include "bench/options.h"
#include "bench/run.h"

namespace {

using namespace ronde::bench;

int refuse(const std::string& program, const std::string& why, Exit code) {
  std::fputs(fmt::format("{}: {}\n", program, why).c_str(), stderr);
  return static_cast<int>(code);
}

/// How long the processes may take to find each other: RONDE_INIT_TIMEOUT, where 0 is for ever as for the library; otherwise a
/// minute.
std::chrono::milliseconds patience(const Environment& environment) {
  constexpr double kDefault = 60;
  constexpr double kForEver = 1e8;
  const auto found = environment.find("RONDE_INIT_TIMEOUT");
  double seconds = found == environment.end() ? kDefault : std::strtod(found->second.c_str(), nullptr);
  if (seconds <= 0 || seconds > kForEver) seconds = kForEver;
  return std::chrono::milliseconds(static_cast<long long>(1000 * seconds));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string program = RONDE_BENCH "_perf";
  const std::vector<std::string> arguments(argv, argv + argc);
  const CommandLine line = parse_command_line(std::span(arguments).subspan(argc > 0 ? 1 : 0));
  if (line.help) {
    std::fputs(usage_text(program).c_str(), stdout);
    return 0;
  }
  if (line.error) return refuse(program, *line.error + "; --help lists the flags", Exit::bad_command_line);
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  const Environment environment = own_environment();
  try {
    const Launch launch = detect_launch(environment, own_ancestors());
    if (launch.rank == 0) {
      for (const std::string& warning : line.warnings) std::fputs(fmt::format("{}: {}\n", program, warning).c_str(), stderr);
    }
    const auto job = Job::join(launch, program, patience(environment));
    return run_test(*collective_of_program(program), line.options, *job, environment, arguments);
  } catch (const TestFailure& failure) {
    return refuse(program, failure.what(), failure.code());
  }
}
