// Samples of tasks, and which of them were taken at one place: a hypervisor moves virtual cores, and two that are far apart hand
// data to each other at other rates than two that share a cache.
#pragma once

#include <cstddef>
#include <vector>

namespace ronde::plan::tool {

struct Sample {
  double nanos = 0;
  double latency = 0;  ///< ns for a word from one core to the other; below 0: not the same before and after; 0: not taken yet
};

/// True if cores that far apart are not at the same place.
bool moved(double latency, double other);

/// Samples by rank, task and round, in memory that both ranks see. A view: copies mean the same samples.
class Samples {
 public:
  /// What at() needs, zeroed.
  static size_t bytes(size_t tasks, int wanted);
  Samples(void* memory, size_t tasks, int wanted) : first_(static_cast<Sample*>(memory)), tasks_(tasks), wanted_(wanted) {}

  /// At most.
  int rounds() const { return rounds(wanted_); }
  /// The latency counts with rank 0.
  Sample& at(int rank, size_t task, int round) const;
  /// True when there are as many of each task as are wanted, all taken at one place.
  bool enough() const;
  /// Of each task as many as are wanted or there are, ns of the slower rank, taken at the place that most have; of a task that
  /// has none there, all.
  std::vector<std::vector<double>> chosen() const;
  /// The latency of that place.
  double place() const;

 private:
  static int rounds(int wanted) { return 4 * wanted; }
  int count(size_t task, double place) const;
  /// At the place that is best, the samples of the task that has fewest there.
  int best(double* place) const;

  Sample* first_;
  size_t tasks_;
  int wanted_;
};

}  // namespace ronde::plan::tool
