#include "bench/options.h"

#include "support/catch.h"

namespace ronde::bench {
namespace {

CommandLine parse(std::vector<std::string> arguments) { return parse_command_line(arguments); }

std::string error_of(std::vector<std::string> arguments) { return parse(std::move(arguments)).error.value_or(""); }

}  // namespace

TEST_CASE("bench options: the defaults are nccl-tests'", "[bench]") {
  const CommandLine line = parse({});
  REQUIRE(!line.error);
  const Options& o = line.options;
  CHECK(o.threads == 1);
  CHECK(o.ranks_per_thread == 1);
  CHECK(o.min_bytes == 32u << 20);
  CHECK(o.max_bytes == 32u << 20);
  CHECK(o.next_size(1 << 20) == 2u << 20);
  CHECK(o.iterations == 20);
  CHECK(o.aggregated == 1);
  CHECK(o.warmups == 1);
  CHECK(o.cycles == 1);
  CHECK(o.checks == 1);
  CHECK(o.ops == std::vector<Op>{Op::sum});
  CHECK(o.types == std::vector<ncclDataType_t>{ncclFloat32});
  CHECK(o.root == 0);
  CHECK(o.average == Average::mean);
  CHECK(!o.streams);
}

TEST_CASE("bench options: short and long flags, attached and apart", "[bench]") {
  const CommandLine line =
      parse({"-t2",      "-g",         "4",   "--minbytes=8", "--maxbytes", "64m", "-f", "2",         "-o",  "all", "-d",
             "bfloat16", "--root=all", "-a3", "-J",           "out.json",   "-u",  "3",  "--streams", "-I1", "-K",  "2"});
  REQUIRE(line.error.value_or("") == "");
  const Options& o = line.options;
  CHECK(o.threads == 2);
  CHECK(o.ranks_per_thread == 4);
  CHECK(o.min_bytes == 8);
  CHECK(o.max_bytes == 64u << 20);
  CHECK(o.next_size(8) == 16);
  CHECK(o.ops.size() == 6);
  CHECK(o.types == std::vector<ncclDataType_t>{ncclBfloat16});
  CHECK(o.root == -1);
  CHECK(o.average == Average::max);
  CHECK(o.json_file == "out.json");
  CHECK(o.unalign == 3);
  CHECK(o.streams);
  CHECK(o.per_iteration);
  CHECK(o.per_iteration_skip == 2);
  CHECK(parse({"-d", "all"}).options.types.size() == 12);
  CHECK(parse({"-r", "-1"}).options.root == -1);
}

TEST_CASE("bench options: the NULL stream unless told otherwise", "[bench]") {
  CHECK(!parse({"-y", "1"}).options.streams);
  CHECK(parse({"-y", "0"}).options.streams);
}

TEST_CASE("bench options: sizes", "[bench]") {
  CHECK(parse_size("0") == 0u);
  CHECK(parse_size("512") == 512u);
  CHECK(parse_size("1k") == 1024u);
  CHECK(parse_size("1.5M") == 3u << 19);
  CHECK(parse_size("8G") == size_t{8} << 30);
  for (const char* bad : {"", "M", "1T", "1MB", "-1", "1e3", "nan", "inf", " 1", "9999999999G"}) {
    INFO(bad);
    CHECK(!parse_size(bad));
  }
}

TEST_CASE("bench options: a bad command line says what is wrong", "[bench]") {
  CHECK(error_of({"--nix"}) == "unknown flag '--nix'");
  CHECK(error_of({"-Q"}) == "unknown flag '-Q'");
  CHECK(error_of({"-t2", "-n"}) == "flag '-n' needs a value");
  CHECK(error_of({"-n", "abc"}) == "-n/--iters wants a whole number from 1 to 2147483647, not 'abc'");
  CHECK(error_of({"-b", "1X"}) == "-b/--minbytes wants a size such as 8, 64K, 1.5M or 2G, not '1X'");
  CHECK(test::contains(error_of({"-o", "xor"}), "no operation 'xor'"));
  CHECK(test::contains(error_of({"-d", "fp32"}), "no type 'fp32'"));
  CHECK(error_of({"64M"}) == "'64M' is no flag");
  CHECK(test::contains(error_of({"-b", "64M"}), "is above -e"));
  CHECK(test::contains(error_of({"-b", "0", "-e", "8", "-f", "2"}), "-f cannot grow"));
  CHECK(test::contains(error_of({"-b", "0", "-e", "8", "-i", "0"}), "never reaches"));
  CHECK(error_of({"-b", "0", "-e", "0"}).empty());
  CHECK(test::contains(error_of({"-D", "1"}), "device API"));
  CHECK(test::contains(error_of({"-V", "16"}), "device API"));
  CHECK(test::contains(error_of({"-I", "1", "-K", "20"}), "-K leaves out"));
}

TEST_CASE("bench options: what means nothing on CPU ranks is said and ignored", "[bench]") {
  const CommandLine line = parse({"-G", "1", "-M", "1"});
  CHECK(!line.error);
  CHECK(line.warnings.size() == 2);
  CHECK(parse({"-G", "0"}).warnings.empty());
}

TEST_CASE("bench options: the help names every flag", "[bench]") {
  CHECK(parse({"-h"}).help);
  CHECK(parse({"--help"}).help);
  const std::string text = usage_text("all_reduce_perf");
  for (const char* flag : {"-t/--nthreads", "-K/--per_iter_skip", "-J/--output_file", "--streams", "-x/--cta_policy"}) {
    INFO(flag);
    CHECK(test::contains(text, flag));
  }
}

}  // namespace ronde::bench
