// The command line of the benchmarks: nccl-tests' flags and a few of our own.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/data.h"

namespace ronde::bench {

/// How the time of a row is put together from the ranks' times (-a).
enum class Average { rank0 = 0, mean = 1, min = 2, max = 3 };

struct Options {
  int threads = 1;           ///< -t
  int ranks_per_thread = 1;  ///< -g
  size_t min_bytes = 32 << 20;
  size_t max_bytes = 32 << 20;
  size_t step_bytes = 1 << 20;
  int step_factor = 1;  ///< above 1: sizes are multiplied; otherwise step_bytes is added
  int iterations = 20;
  int aggregated = 1;
  int warmups = 1;
  int cycles = 1;  ///< 0: for ever
  bool parallel_init = false;
  int checks = 1;
  std::vector<Op> ops = {Op::sum};
  std::vector<ncclDataType_t> types = {ncclFloat32};
  int root = 0;  ///< -1: every rank in turn
  int blocking = 0;
  int timeout_seconds = 0;
  bool cpu_time = false;
  bool timestamps = false;
  std::string json_file;  ///< "": none
  Average average = Average::mean;
  int registration = 0;  ///< 1 ncclCommRegister, 2 ncclCommWindowRegister
  int cta_policy = -1;   ///< -1: not set
  size_t unalign = 0;    ///< elements
  bool per_iteration = false;
  int per_iteration_skip = 0;
  bool streams = false;  ///< host streams instead of the NULL stream
  bool choice_columns = false;

  size_t next_size(size_t bytes) const { return step_factor > 1 ? bytes * static_cast<size_t>(step_factor) : bytes + step_bytes; }
};

/// What a command line asks for.
struct CommandLine {
  Options options;
  bool help = false;
  std::vector<std::string> warnings;  ///< flags that mean nothing here and are ignored
  std::optional<std::string> error;   ///< set: a bad command line, and why
};

/// Understands the arguments behind the program's name. Not to be called by two threads at once.
CommandLine parse_command_line(std::span<const std::string> arguments);

/// A size as -b takes it: a decimal number and an optional K, M or G (binary, either case). Nothing where it is none or above
/// 2^62.
std::optional<size_t> parse_size(const std::string& text);

/// The text of --help.
std::string usage_text(const std::string& program);

}  // namespace ronde::bench
