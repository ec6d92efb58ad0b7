// Constants measured on this host, and the simulation held against calls measured in the same run.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plan/simulate.h"
#include "tools/plan/measure.h"

namespace ronde::plan::tool {

/// The measurements that constants come from.
std::vector<Task> calibration_tasks(uint64_t most_bytes);
/// `base` with what measured `tasks` say for `kind`.
Costs calibrated(const Costs& base, HopKind kind, const std::vector<Task>& tasks);

/// One row of the comparison.
struct Row {
  HopKind kind = HopKind::process;
  Coll coll = Coll::all_reduce;
  uint64_t bytes = 0;
  std::string algorithm;
  double measured = 0;   ///< ns
  double predicted = 0;  ///< ns
  /// Of the prediction from the measurement, in per cent of the measurement.
  double deviation() const { return measured > 0 ? (predicted - measured) / measured * 100 : 0; }
};

/// What the library would choose for the task, simulated for two CPU ranks.
Result<Row> predict(HopKind kind, const Task& task, const Costs& costs);

struct Comparison {
  Costs costs;
  std::vector<Row> rows;
  std::vector<std::pair<HopKind, double>> latency;  ///< ns for a word from one core to the other: it says where the cores were
};
/// Calibrates and measures both kinds, everything in the same rounds, and predicts.
Result<Comparison> compare(uint64_t least_bytes, uint64_t most_bytes, int rounds, const std::vector<HopKind>& kinds);

/// The rows with their verdict: good where nine of ten are within 25 % and none is beyond 50 %.
std::string to_text(const std::vector<Row>& rows, bool* good);
/// The same, and where the cores were.
std::string to_text(const Comparison& comparison, bool* good);

}  // namespace ronde::plan::tool
