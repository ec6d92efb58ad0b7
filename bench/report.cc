#include "bench/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "bench/machine.h"
#include "nccl.h"
#include "ronde.h"

namespace ronde::bench {
namespace {

/// The version of nccl-tests whose flags, columns and exit codes these are.
constexpr const char* kCompatible = "2.19.6";

double now_seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Caption, unit and width of a column.
struct Column {
  const char* caption;
  const char* unit;
  int width;
};

std::vector<Column> common_columns() {
  return {{"size", "(B)", 12}, {"count", "(elements)", 12}, {"type", "", 8}, {"redop", "", 6}, {"root", "", 6}};
}

std::vector<Column> half_columns(const Options& options) {
  std::vector<Column> columns = {
      {options.cpu_time ? "cputime" : "time", "(us)", 7}, {"algbw", "(GB/s)", 6}, {"busbw", "(GB/s)", 6}, {"#wrong", "", 6}};
  if (options.per_iteration) {
    for (const char* caption : {"i_min", "i_max", "i_p99"}) columns.push_back({caption, "(us)", 7});
    columns.push_back({"i_cv%", "", 7});
  }
  return columns;
}

std::vector<Column> last_columns(const Options& options) {
  std::vector<Column> columns;
  if (options.timestamps) columns.push_back({"timestamp", "", 9});
  if (options.per_iteration) columns.insert(columns.end(), {{"o_med", "(us)", 7}, {"i_med", "(us)", 7}});
  if (options.choice_columns) columns.insert(columns.end(), {{"algo", "", 8}, {"proto", "", 8}, {"chans", "", 5}});
  return columns;
}

int width_of(const std::vector<Column>& columns) {
  return std::accumulate(columns.begin(), columns.end(), 0, [](int sum, const Column& column) { return sum + 2 + column.width; });
}

std::string half_row(const Options& options, const Half& half) {
  std::string text = fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", fitted(half.microseconds, 7), fitted(half.algbw, 6),
                                 fitted(half.busbw, 6), half.wrong ? fmt::format("{}", *half.wrong) : "N/A");
  if (options.per_iteration) {
    const IterationTimes times = half.iterations.value_or(IterationTimes{});
    for (const double value : {times.min, times.max, times.p99, times.cv_percent})
      text += fmt::format("  {:>7}", fitted(value, 7));
  }
  return text;
}

}  // namespace

IterationTimes iteration_times(std::vector<double> microseconds) {
  std::sort(microseconds.begin(), microseconds.end());
  const size_t n = microseconds.size();
  IterationTimes times;
  times.mean = std::accumulate(microseconds.begin(), microseconds.end(), 0.0) / static_cast<double>(n);
  times.min = microseconds.front();
  times.max = microseconds.back();
  times.median = (microseconds[(n - 1) / 2] + microseconds[n / 2]) / 2;
  times.p99 = microseconds[(n * 99 + 99) / 100 - 1];
  double squares = 0;
  for (const double value : microseconds) squares += (value - times.mean) * (value - times.mean);
  times.cv_percent = times.mean > 0 ? 100 * std::sqrt(squares / static_cast<double>(n)) / times.mean : 0;
  return times;
}

std::string fitted(double value, int width) {
  const auto limit = static_cast<size_t>(width);
  for (int decimals = 2; decimals >= 0; --decimals) {
    std::string text = fmt::format("{:.{}f}", value, decimals);
    if (text.size() <= limit) return text;
  }
  for (int decimals = std::max(0, width - 6); decimals > 0; --decimals) {
    std::string text = fmt::format("{:.{}e}", value, decimals);
    if (text.size() <= limit) return text;
  }
  return fmt::format("{:.0e}", value);
}

std::string title_text(const std::string& program) {
  int library = 0;
  ncclGetVersion(&library);
  return fmt::format("# nccl-tests version {}-ronde{}.{}.{} nccl-headers={} nccl-library={}\n# Collective test starting: {}",
                     kCompatible, RONDE_MAJOR, RONDE_MINOR, RONDE_PATCH, NCCL_VERSION_CODE, library, program);
}

std::string parameters_text(const Options& o) {
  const bool factor = o.step_factor > 1;
  std::string text = fmt::format(
      "# nThread {} nGpus {} minBytes {} maxBytes {} step: {}({}) warmup iters: {} iters: {} agg iters: {} validation: {} graph: "
      "0 unalign: {}",
      o.threads, o.ranks_per_thread, o.min_bytes, o.max_bytes, factor ? static_cast<size_t>(o.step_factor) : o.step_bytes,
      factor ? "factor" : "bytes", o.warmups, o.iterations, o.aggregated, o.checks, o.unalign);
  constexpr const char* kBlocking[] = {"", "wait and barrier after each inner iteration", "wait after each inner iteration",
                                       "wait and barrier after each outer iteration"};
  if (o.blocking > 0) text += fmt::format("\n# Blocking: {}", kBlocking[o.blocking]);
  if (o.per_iteration) text += fmt::format("\n# Timing of each iteration: the first {} left out", o.per_iteration_skip);
  if (o.parallel_init) text += "\n# Parallel init: each thread initialises its ranks";
  return text + "\n#";
}

std::string device_text(const DeviceLine& d) {
  return fmt::format("#  Rank {:2} Group {:2} Pid {:6} on {:>10} device {:2} {}{}", d.rank, d.group, d.pid, d.host, d.device,
                     d.gpu ? "" : "[cpu] ", d.name);
}

std::string header_text(const Options& options) {
  const auto common = common_columns();
  const auto half = half_columns(options);
  const auto last = last_columns(options);
  std::string captions = fmt::format("#{:>{}}", "", width_of(common) - 3);
  for (const char* caption : {"out-of-place", "in-place"}) captions += fmt::format("  {:^{}}", caption, width_of(half) - 2);
  std::string names;
  std::string units;
  const auto add = [&](const std::vector<Column>& columns) {
    for (const Column& column : columns) {
      names += fmt::format("  {:>{}}", column.caption, column.width);
      units += fmt::format("  {:>{}}", column.unit, column.width);
    }
  };
  add(common);
  add(half);
  add(half);
  add(last);
  // Rows start with their first column, two blanks left of where these do.
  return captions + "\n#" + names.substr(3) + "\n#" + units.substr(3);
}

std::string row_text(const Options& options, const Row& row) {
  std::string text =
      fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}", row.bytes, row.count, type_name(row.type), op_name(row.op), row.root);
  text += half_row(options, row.out_of_place) + half_row(options, row.in_place);
  if (options.timestamps) text += fmt::format("  {:>9}", time_of_day());
  if (options.per_iteration) {
    for (const Half* half : {&row.out_of_place, &row.in_place}) {
      text += fmt::format("  {:>7}", fitted(half->iterations.value_or(IterationTimes{}).median, 7));
    }
  }
  if (options.choice_columns)
    text += fmt::format("  {:>8}  {:>8}  {:>5}", row.choice.algorithm, row.choice.protocol, row.choice.channels);
  return text;
}

std::string choice_text(const Choice& choice) {
  return fmt::format("# chosen: {}, {}, {} {}, {}", choice.algorithm, choice.protocol, choice.channels,
                     choice.channels == 1 ? "channel" : "channels", choice.transport);
}

std::string footer_text(const Summary& summary, const std::string& program) {
  std::string text = fmt::format("# Out of bounds values : {} {}\n", summary.failed_checks, summary.data_ok() ? "OK" : "FAILED");
  const char* verdict = !summary.wanted_busbw ? "" : summary.bandwidth_ok() ? "OK" : "FAILED";
  text += fmt::format("# Avg bus bandwidth    : {:g} {}\n#\n# Collective test concluded: {}\n#\n", summary.mean_busbw, verdict,
                      program);
  for (const std::string& error : summary.errors) text += fmt::format("# error: {}\n", error);
  return summary.errors.empty() ? text + "\n" : text;
}

Progress::Progress(bool enabled, size_t rows) : enabled_(enabled), rows_(rows), started_(now_seconds()) {}

void Progress::begin(const std::string& what) {
  constexpr double kPatience = 3;  // seconds before anybody wonders
  const double elapsed = now_seconds() - started_;
  if (enabled_ && elapsed > kPatience) {
    std::fputs(fmt::format("\r\033[K[{}/{}] {}, {:.0f} s so far", done_ + 1, rows_, what, elapsed).c_str(), stderr);
    shown_ = true;
  }
  ++done_;
}

void Progress::clear() {
  if (shown_) std::fputs("\r\033[K", stderr);
  shown_ = false;
}

}  // namespace ronde::bench
