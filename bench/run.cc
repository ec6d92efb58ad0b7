#include "bench/run.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "bench/failure.h"
#include "bench/json_file.h"
#include "bench/machine.h"
#include "bench/ranks.h"
#include "bench/report.h"
#include "bench/sweep.h"

namespace ronde::bench {
namespace {

void print(const std::string& line) { std::fputs((line + "\n").c_str(), stdout); }

std::optional<double> wanted_bandwidth(const Environment& environment) {
  const auto found = environment.find("NCCL_TESTS_MIN_BW");
  if (found == environment.end() || found->second.empty()) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(found->second.c_str(), &end);
  if (*end != '\0') throw TestFailure(Exit::invalid_usage, fmt::format("NCCL_TESTS_MIN_BW='{}' is no number", found->second));
  return value;
}

/// What neither the flags nor the job alone can tell.
void check_ranks(const Collective& collective, const Options& options, int nranks) {
  if (options.root >= nranks) {
    throw TestFailure(Exit::invalid_usage,
                      fmt::format("-r {}: there are {} ranks, the last is {}", options.root, nranks, nranks - 1));
  }
  if (collective.power_of_two && (nranks & (nranks - 1)) != 0) {
    throw TestFailure(Exit::invalid_usage,
                      fmt::format("{} needs a power of two of ranks, there are {}", collective.name, nranks));
  }
}

/// The process that prints has a table, the others nothing.
class Output {
 public:
  Output(const std::string& program, const Options& options, bool prints)
      : program_(program), options_(options), prints_(prints) {}

  void expect_rows(size_t rows) { progress_ = Progress(prints_ && isatty(STDERR_FILENO) != 0, rows); }
  void line(const std::string& text) {
    if (!prints_) return;
    progress_.clear();
    print(text);
  }
  void before(const RowSpec& row) {
    if (prints_) progress_.begin(fmt::format("{} {} of {} bytes", type_name(row.type), op_name(row.op), row.bytes()));
  }
  void after(const Row& row) {
    // A line of its own where the choice differs from the row above.
    if (!options_.choice_columns && (!last_choice_ || *last_choice_ != row.choice)) line(choice_text(row.choice));
    last_choice_ = row.choice;
    line(row_text(options_, row));
    if (json_) json_->add(row);
  }
  void write_json(const std::vector<std::string>& arguments, const Environment& environment,
                  const std::vector<DeviceLine>& devices) {
    if (!prints_ || options_.json_file.empty()) return;
    json_ = std::make_unique<JsonFile>(options_.json_file, arguments, environment, options_, devices);
    if (json_->path() != options_.json_file) line(fmt::format("# JSON goes to {}: {} exists", json_->path(), options_.json_file));
  }
  void finish(const Summary& summary) {
    if (!prints_) return;
    progress_.clear();
    std::fputs(footer_text(summary, program_).c_str(), stdout);
    if (json_) json_->finish(summary);
  }
  /// What is known when the run ends early; the table has no footer then.
  void cut_short(const Summary& summary) {
    progress_.clear();
    if (json_) json_->finish(summary);
  }

 private:
  const std::string& program_;
  const Options& options_;
  bool prints_;
  Progress progress_{false, 0};
  std::unique_ptr<JsonFile> json_;
  std::optional<Choice> last_choice_;
};

/// nccl-tests' form of a failure: what, and where, for each level.
void print_failure(const TestFailure& failure) {
  const char* kind = failure.code() == Exit::library ? "NCCL failure" : failure.code() == Exit::timeout ? "timeout" : "failure";
  print(fmt::format("{}: Test {} {}:{} '{}'", host_name(), kind, failure.file(), failure.line(), failure.what()));
  print(fmt::format(" .. {} pid {}: Test failure {}:{}", host_name(), getpid(), failure.file(), failure.line()));
  std::fflush(stdout);
}

/// Everything that lives as long as the ranks.
class Test {
 public:
  Test(const Collective& collective, const Options& options, const Placement& placement, Job& job, Output& output)
      : options_(options),
        output_(output),
        ranks_(options, placement),
        team_(job, options.threads),
        dog_(options.threads, std::chrono::seconds(options.timeout_seconds), [this](int thread) { expired(thread); }),
        sweep_(collective, options, placement, ranks_, team_, dog_, listener()) {
    team_.on_failure([this] { ranks_.abort_all(); });
  }

  /// Throws the first failure of any thread.
  Totals run() {
    in_threads([this](int thread) { init(thread); });
    output_.expect_rows(sweep_.rows() * static_cast<size_t>(std::max(1, options_.cycles)));
    const auto [send_bytes, recv_bytes] = sweep_.buffer_bytes();
    ranks_.allocate(send_bytes, recv_bytes);
    for (int cycle = 0; options_.cycles == 0 || cycle < options_.cycles; ++cycle) {
      in_threads([this](int thread) { sweep_.run(thread); });
    }
    ranks_.finish();
    return sweep_.totals();
  }

 private:
  void init(int thread) {
    const Watchdog::Step guard(dog_, thread);
    if (options_.parallel_init) {
      ranks_.init(thread * options_.ranks_per_thread, options_.ranks_per_thread);
    } else if (thread == 0) {
      ranks_.init(0, options_.threads * options_.ranks_per_thread);
    }
  }

  Listener listener() {
    return {[this](const RowSpec& row) { output_.before(row); }, [this](const Row& row) { output_.after(row); },
            [](const std::string& text) { print("# wrong: " + text); }};
  }

  void in_threads(const std::function<void(int)>& body) {
    const auto guarded = [&](int thread) {
      try {
        body(thread);
      } catch (const TestFailure& failure) {
        team_.fail(failure);
      } catch (const Broken&) {
        return;  // another thread has failed
      } catch (const std::exception& other) {
        team_.fail(TestFailure(Exit::internal, other.what()));
      }
    };
    std::vector<std::thread> others;
    for (int t = 1; t < options_.threads; ++t) others.emplace_back(guarded, t);
    guarded(0);
    for (auto& thread : others) thread.join();
    if (team_.failed()) throw team_.failure();
  }

  void expired(int thread) {
    const int first = ranks_[thread * options_.ranks_per_thread].rank;
    const std::string who = options_.ranks_per_thread == 1
                                ? fmt::format("rank {}", first)
                                : fmt::format("ranks {} to {}", first, first + options_.ranks_per_thread - 1);
    const TestFailure failure(Exit::timeout, fmt::format("{}: a step took longer than {} s (-T)", who, options_.timeout_seconds));
    // Aborting must bring the threads back; if it does not, the process ends all the same.
    std::thread([failure] {
      std::this_thread::sleep_for(std::chrono::seconds(10));
      print_failure(failure);
      std::_Exit(static_cast<int>(Exit::timeout));
    }).detach();
    team_.fail(failure);
  }

  const Options& options_;
  Output& output_;
  Ranks ranks_;
  Team team_;
  Watchdog dog_;
  Sweep sweep_;
};

/// Lowers -e to what the memory of the hosts allows, on all processes alike.
void limit_size(Options& options, const Placement& placement, Job& job, Output& output) {
  // A send and a receive buffer for each rank, and a fifth left to everything else.
  const size_t ranks_here = static_cast<size_t>(placement.processes_here * options.threads * options.ranks_per_thread);
  size_t most = available_memory() / 5 * 4 / ranks_here / 2;
  for (const std::string& text : job.all_gather(std::to_string(most))) most = std::min<size_t>(most, std::stoull(text));
  if (options.max_bytes <= most) return;
  if (options.min_bytes > most) {
    throw TestFailure(Exit::internal,
                      fmt::format("-b {}: the memory allows buffers of {} bytes for each of {} ranks on this host",
                                  options.min_bytes, most, ranks_here));
  }
  options.max_bytes = most;
  output.line(fmt::format("#\n# Reducing maxBytes to {} due to memory limitation", most));
}

}  // namespace

int run_test(const Collective& collective, Options options, Job& job, const Environment& environment,
             const std::vector<std::string>& arguments) {
  const std::string program = fmt::format("{}_perf", collective.name);
  Output output(program, options, job.rank() == 0);
  Summary summary;
  // -T is for steps of the library; others may take longer to check their data than this process, but not for ever.
  if (options.timeout_seconds > 0) job.set_patience(std::chrono::seconds(10 + 2 * options.timeout_seconds));
  try {
    output.line(title_text(program));
    output.line(parameters_text(options));
    summary.wanted_busbw = wanted_bandwidth(environment);
    const Placement placement = place_ranks(job, options, environment);
    check_ranks(collective, options, placement.nranks);
    output.line("# Using devices");
    for (const DeviceLine& device : placement.devices) output.line(device_text(device));
    limit_size(options, placement, job, output);
    output.line("#\n" + header_text(options));
    output.write_json(arguments, environment, placement.devices);
    Test test(collective, options, placement, job, output);
    const Totals totals = test.run();
    summary.failed_checks = totals.failed_checks;
    summary.mean_busbw = totals.mean_busbw();
    output.finish(summary);
    job.barrier();  // a launcher ends the job at the first bad status: not before the table is complete
    return static_cast<int>(summary.data_ok() && summary.bandwidth_ok() ? Exit::good : Exit::wrong_data);
  } catch (const TestFailure& failure) {
    print_failure(failure);
    summary.errors.emplace_back(failure.what());
    output.cut_short(summary);
    return static_cast<int>(failure.code());
  }
}

}  // namespace ronde::bench
