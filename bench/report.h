// The table on standard output, as nccl-tests prints it.
#pragma once

#include <string>
#include <vector>

#include "bench/options.h"
#include "bench/result.h"

namespace ronde::bench {

/// `value` in at most `width` characters: two decimals, fewer where they do not fit, then powers of ten.
std::string fitted(double value, int width);

/// The parts of the table, without the line end where one line is meant. Parsers of nccl-tests' output read rows by position or
/// count their fields from the end; so what the library chose stands in lines of its own unless Options::choice_columns is set.
std::string title_text(const std::string& program);
std::string parameters_text(const Options& options);
std::string device_text(const DeviceLine& device);
std::string header_text(const Options& options);
std::string row_text(const Options& options, const Row& row);
/// "# chosen: ring, Simple, 2 channels, inproc"
std::string choice_text(const Choice& choice);
std::string footer_text(const Summary& summary, const std::string& program);

/// Shows on a terminal how far a long sweep is, on standard error. Does nothing where that is no terminal.
class Progress {
 public:
  Progress(bool enabled, size_t rows);
  /// `what` is about to be measured.
  void begin(const std::string& what);
  /// Takes the line away; to be called before anything is printed.
  void clear();

 private:
  bool enabled_;
  bool shown_ = false;
  size_t rows_;
  size_t done_ = 0;
  double started_;
};

}  // namespace ronde::bench
