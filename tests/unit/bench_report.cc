#include "bench/report.h"

#include <iterator>
#include <sstream>

#include "support/catch.h"

namespace ronde::bench {
namespace {

std::vector<std::string> fields(const std::string& line) {
  std::istringstream text(line);
  return {std::istream_iterator<std::string>(text), {}};
}

Row sample() {
  Row row;
  row.bytes = 1048576;
  row.count = 262144;
  row.op = Op::sum;
  row.out_of_place = {250.0, 4.19, 6.29, 0, std::nullopt};
  row.in_place = {200.0, 5.24, 7.86, std::nullopt, std::nullopt};
  row.choice = {"ring", "Simple", "inproc", 2};
  return row;
}

}  // namespace

TEST_CASE("report: numbers keep as many decimals as fit", "[bench]") {
  CHECK(fitted(1.234, 7) == "1.23");
  CHECK(fitted(9999.994, 7) == "9999.99");
  CHECK(fitted(12345.67, 7) == "12345.7");
  CHECK(fitted(123456.7, 7) == "123457");
  CHECK(fitted(12345678.0, 7) == "1.2e+07");
  CHECK(fitted(123456.7, 6) == "123457");
  CHECK(fitted(1234567.0, 6) == "1e+06");
  CHECK(fitted(0, 6) == "0.00");
}

TEST_CASE("report: a row is nccl-tests' row", "[bench]") {
  const std::string row = row_text({}, sample());
  CHECK(row ==
        "     1048576        262144     float     sum      -1   250.00    4.19    6.29       0   200.00    5.24    7.86     N/A");
  CHECK(fields(row).size() == 13);
}

TEST_CASE("report: captions stand over their columns", "[bench]") {
  Options options;
  options.per_iteration = GENERATE(false, true);
  options.choice_columns = GENERATE(false, true);
  options.timestamps = true;
  const std::string header = header_text(options);
  std::istringstream lines(header);
  std::string first;
  std::string names;
  std::string units;
  std::getline(lines, first);
  std::getline(lines, names);
  std::getline(lines, units);
  const std::string row = row_text(options, sample());
  CHECK(names.size() == row.size());
  CHECK(units.size() == row.size());
  CHECK(fields(names).size() == fields(row).size() + 1);
  for (const auto& line : {first, names, units}) CHECK(line[0] == '#');
  CHECK(names.find("root") + 4 == row.find("-1") + 2);
  CHECK(fields(first) == std::vector<std::string>{"#", "out-of-place", "in-place"});
}

TEST_CASE("report: -C is in the caption", "[bench]") {
  Options options;
  options.cpu_time = true;
  CHECK(test::contains(header_text(options), "cputime"));
}

TEST_CASE("report: what was chosen", "[bench]") {
  CHECK(choice_text(sample().choice) == "# chosen: ring, Simple, 2 channels, inproc");
  Options options;
  options.choice_columns = true;
  const auto row = fields(row_text(options, sample()));
  CHECK(std::vector<std::string>(row.end() - 3, row.end()) == std::vector<std::string>{"ring", "Simple", "2"});
}

TEST_CASE("report: the parameters' line", "[bench]") {
  Options options;
  options.step_factor = 32;
  options.min_bytes = 1048576;
  CHECK(parameters_text(options) ==
        "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 33554432 step: 32(factor) warmup iters: 1 iters: 20 agg iters: 1 "
        "validation: 1 graph: 0 "
        "unalign: 0\n#");
  options.step_factor = 1;
  CHECK(test::contains(parameters_text(options), "step: 1048576(bytes)"));
}

TEST_CASE("report: the footer says whether all was well", "[bench]") {
  CHECK(
      footer_text({0, 6.3675, std::nullopt, {}}, "all_reduce_perf") ==
      "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 6.3675 \n#\n# Collective test concluded: all_reduce_perf\n#\n\n");
  const std::string bad = footer_text({2, 1.0, 2.0, {"broken"}}, "x");
  CHECK(test::contains(bad, "# Out of bounds values : 2 FAILED"));
  CHECK(test::contains(bad, "# Avg bus bandwidth    : 1 FAILED"));
  CHECK(test::contains(bad, "# error: broken\n"));
  CHECK(test::contains(footer_text({0, 1.85, 2.0, {}}, "x"), ": 1.85 OK"));
}

TEST_CASE("report: statistics of single iterations", "[bench]") {
  std::vector<double> hundred;
  for (int i = 100; i >= 1; --i) hundred.push_back(i);
  const IterationTimes times = iteration_times(hundred);
  CHECK(times.min == 1);
  CHECK(times.max == 100);
  CHECK(times.median == 50.5);
  CHECK(times.p99 == 99);
  CHECK(times.mean == 50.5);
  CHECK(iteration_times({4, 4}).cv_percent == 0);
  CHECK(iteration_times({1, 3}).cv_percent == 50);
  CHECK(iteration_times({7}).p99 == 7);
}

}  // namespace ronde::bench
