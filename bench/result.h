// What a run has measured.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/data.h"

namespace ronde::bench {

/// Times of single iterations, in microseconds (-I).
struct IterationTimes {
  double mean = 0;
  double min = 0;
  double median = 0;
  double max = 0;
  double p99 = 0;         ///< nearest rank
  double cv_percent = 0;  ///< standard deviation by mean
};

/// Statistics of `microseconds`, which must not be empty.
IterationTimes iteration_times(std::vector<double> microseconds);

/// One half of a row: out of place, or in place.
struct Half {
  double microseconds = 0;
  double algbw = 0;  ///< GB/s
  double busbw = 0;
  std::optional<uint64_t> wrong;  ///< wrong elements; nothing where they were not checked
  std::optional<IterationTimes> iterations;
};

/// What the library chose for a row.
struct Choice {
  std::string algorithm;
  std::string protocol;
  std::string transport;
  int channels = 0;
  bool operator==(const Choice&) const = default;
};

struct Row {
  size_t bytes = 0;
  size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  Op op = Op::none;
  int root = -1;
  Half out_of_place;
  Half in_place;
  Choice choice;
  int iterations = 0;
};

struct DeviceLine {
  int rank = 0;
  int group = 0;
  int pid = 0;
  int device = 0;
  std::string host;
  std::string name;
  bool gpu = false;
};

struct Summary {
  uint64_t failed_checks = 0;
  double mean_busbw = 0;
  std::optional<double> wanted_busbw;  ///< NCCL_TESTS_MIN_BW
  std::vector<std::string> errors;

  bool data_ok() const { return failed_checks == 0; }
  bool bandwidth_ok() const { return !wanted_busbw || mean_busbw >= 0.9 * *wanted_busbw; }
};

}  // namespace ronde::bench
