// The whole test of one collective in this process.
#pragma once

#include <string>
#include <vector>

#include "bench/collectives.h"
#include "bench/job.h"
#include "bench/launch_env.h"
#include "bench/options.h"

namespace ronde::bench {

/// Runs the sweep with all other processes of `job`, prints (process 0), and returns the exit status. `arguments` is the whole
/// command line, for the JSON file.
int run_test(const Collective& collective, Options options, Job& job, const Environment& environment,
             const std::vector<std::string>& arguments);

}  // namespace ronde::bench
