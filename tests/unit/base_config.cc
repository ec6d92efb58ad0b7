// Settings: values, ranges, names, files.
#include <cstdlib>
#include <cstring>

#include "base/config.h"
#include "support/catch.h"

using namespace ronde;
using namespace ronde::test;

namespace {

using Names = std::map<std::string, std::string>;

struct Read {
  Config config;
  std::vector<std::string> warnings;
};

Read read(const Names& environment, const std::vector<Names>& files = {}) {
  ConfigReport report;
  const auto get = [&](const char* name) {
    const auto at = environment.find(name);
    return at == environment.end() ? nullptr : at->second.c_str();
  };
  Config config = read_config(get, files, &report);
  return {config, report.warnings};
}

}  // namespace

TEST_CASE("every option's default fits its own kind and range", "[base]") {
  const Read nothing = read({});
  CHECK(nothing.warnings.empty());
  for (const Option& option : options()) {
    INFO(option.name);
    CHECK(nothing.config.source(option.id) == "default");
    // Written out, the default must be admitted like any other value, unless it is empty.
    const Read written = read({{std::string("RONDE_") + option.name, option.fallback}});
    CHECK(written.warnings.empty());
    CHECK(written.config.text(option.id) == nothing.config.text(option.id));
    CHECK(strlen(option.help) > 0);
  }
}

TEST_CASE("kinds of values: what they admit and what becomes the default with a warning", "[base]") {
  struct Case {
    const char* name;
    const char* value;
    Setting setting;
    bool good;
    double number;
  };
  const std::vector<Case> cases = {
      {"RONDE_SLOTS", "2", Setting::slots, true, 2},
      {"RONDE_SLOTS", "0x10", Setting::slots, true, 16},
      {"RONDE_SLOTS", "010", Setting::slots, true, 8},
      {"RONDE_SLOTS", "64", Setting::slots, true, 64},
      {"RONDE_SLOTS", "1", Setting::slots, false, 4},
      {"RONDE_SLOTS", "65", Setting::slots, false, 4},
      {"RONDE_SLOTS", "3x", Setting::slots, false, 4},
      {"RONDE_SLOTS", "2K", Setting::slots, false, 4},
      {"RONDE_SLOTS", "99999999999999999999", Setting::slots, false, 4},
      {"RONDE_BUFFSIZE", "64K", Setting::buffsize, true, 65536},
      {"RONDE_BUFFSIZE", "64k", Setting::buffsize, true, 65536},
      {"RONDE_BUFFSIZE", "1M", Setting::buffsize, true, 1 << 20},
      {"RONDE_BUFFSIZE", "64KB", Setting::buffsize, false, 262144},
      {"RONDE_BUFFSIZE", "9000000000000000G", Setting::buffsize, false, 262144},
      {"RONDE_STRICT", "1", Setting::strict, true, 1},
      {"RONDE_STRICT", "2", Setting::strict, false, 0},
      {"RONDE_STRICT", "yes", Setting::strict, false, 0},
      {"RONDE_TIMEOUT", "0.25", Setting::timeout, true, 0.25},
      {"RONDE_TIMEOUT", "-1", Setting::timeout, false, 0},
      {"RONDE_TIMEOUT", "1s", Setting::timeout, false, 0},
      {"RONDE_TIMEOUT", "nan", Setting::timeout, false, 0},
  };
  for (const Case& one : cases) {
    INFO(one.name << "=" << one.value);
    const Read got = read({{one.name, one.value}});
    CHECK(got.config.seconds(one.setting) == one.number);
    CHECK(got.config.source(one.setting) == (one.good ? one.name : "default"));
    CHECK(got.warnings.size() == (one.good ? 0u : 1u));
    for (const std::string& warning : got.warnings) {
      CHECK(contains(warning, std::string(one.name) + "=" + one.value));
      CHECK(contains(warning, "expected"));
    }
  }
}

TEST_CASE("choices are spelled in any case and kept as the table has them", "[base]") {
  CHECK(read({{"NCCL_DEBUG", "info"}}).config.text(Setting::debug) == "INFO");
  CHECK(read({{"NCCL_SOCKET_FAMILY", "af_inet6"}}).config.text(Setting::socket_family) == "AF_INET6");
  const Read wrong = read({{"NCCL_DEBUG", "loud"}});
  CHECK(wrong.config.text(Setting::debug) == "WARN");
  REQUIRE(wrong.warnings.size() == 1);
  CHECK(contains(wrong.warnings[0], "one of NONE,VERSION,WARN"));
}

TEST_CASE("distances are names or old numbers, and count from the nearest", "[base]") {
  const Read unset = read({});
  CHECK(unset.config.text(Setting::p2p_level) == "auto");
  CHECK(unset.config.integer(Setting::p2p_level) == -1);
  const auto level = [](const char* value) { return read({{"NCCL_P2P_LEVEL", value}}).config; };
  CHECK(level("loc").integer(Setting::p2p_level) == 0);
  CHECK(level("PIX").integer(Setting::p2p_level) == 4);
  CHECK(level("Sys").integer(Setting::p2p_level) == 9);
  CHECK(level("auto").integer(Setting::p2p_level) == -1);
  const char* const old[] = {"LOC", "PIX", "PXB", "PHB", "SYS", "SYS"};
  for (int number = 0; number < 6; ++number) {
    CHECK(level(std::to_string(number).c_str()).text(Setting::p2p_level) == old[number]);
  }
  CHECK(level("0x1").text(Setting::p2p_level) == "PIX");
  for (const char* bad : {"-1", "NET", "PI", "1x", "99999999999999999999"}) {
    const Read wrong = read({{"NCCL_NET_GDR_LEVEL", bad}});
    INFO(bad);
    CHECK(wrong.config.integer(Setting::net_gdr_level) == -1);
    CHECK(wrong.config.source(Setting::net_gdr_level) == "default");
    REQUIRE(wrong.warnings.size() == 1);
    CHECK(contains(wrong.warnings[0], "one of auto,LOC,NVL,NVB,C2C,PIX,PXB,P2C,PXN,PHB,SYS, or a number from 0"));
  }
}

TEST_CASE("what NCCL once called a setting is read where no newer name is set", "[base]") {
  const Names file{{"NCCL_IB_GDR_LEVEL", "PHB"}};
  const auto level = [&](const Names& names, const Names& in_file = {}) {
    const Read got = read(names, {in_file});
    CHECK(got.warnings.empty());
    return got.config.text(Setting::net_gdr_level) + " of " + got.config.source(Setting::net_gdr_level);
  };
  CHECK(level({{"NCCL_IB_GDR_LEVEL", "4"}}) == "SYS of NCCL_IB_GDR_LEVEL");
  CHECK(level({{"NCCL_IB_GDR_LEVEL", "SYS"}, {"NCCL_NET_GDR_LEVEL", "PIX"}}) == "PIX of NCCL_NET_GDR_LEVEL");
  CHECK(level({{"NCCL_IB_GDR_LEVEL", "SYS"}, {"RONDE_NET_GDR_LEVEL", "LOC"}}) == "LOC of RONDE_NET_GDR_LEVEL");
  CHECK(level({}, file) == "PHB of NCCL_IB_GDR_LEVEL");
  CHECK(level({{"NCCL_IB_GDR_LEVEL", "SYS"}}, file) == "SYS of NCCL_IB_GDR_LEVEL");
  CHECK(unknown_names(std::vector<std::string>{"NCCL_IB_GDR_LEVEL"}).empty());
}

TEST_CASE("RONDE_ wins over NCCL_, the environment over files, and earlier files over later ones", "[base]") {
  const Names first{{"NCCL_ALGO", "first"}, {"RONDE_SLOTS", "3"}}, second{{"NCCL_ALGO", "second"}, {"NCCL_PROTO", "second"}};
  const Read got = read({{"NCCL_DEBUG", "INFO"}, {"RONDE_DEBUG", "TRACE"}, {"RONDE_SLOTS", "5"}}, {first, second});
  CHECK(got.config.text(Setting::debug) == "TRACE");
  CHECK(got.config.source(Setting::debug) == "RONDE_DEBUG");
  CHECK(got.config.integer(Setting::slots) == 5);
  CHECK(got.config.text(Setting::algo) == "first");
  CHECK(got.config.text(Setting::proto) == "second");
  CHECK(got.config.is_set(Setting::proto));
  CHECK_FALSE(got.config.is_set(Setting::strict));
  // An empty variable is as good as none.
  CHECK(read({{"RONDE_ALGO", ""}, {"NCCL_ALGO", "tree"}}).config.text(Setting::algo) == "tree");
}

TEST_CASE("configuration files: comments, carriage returns, first line wins, nothing is trimmed", "[base]") {
  ConfigReport report;
  const Names names = parse_conf(
      "# a comment\n"
      "NCCL_DEBUG=INFO\r\n"
      "NCCL_DEBUG=WARN\n"
      "\n"
      "no equals sign\n"
      "=no name\n"
      " \t\r\n"
      " NCCL_ALGO= ring \n"
      "NCCL_PROTO=\"LL\"\n"
      "EMPTY=\n"
      "TWO=a=b\n"
      "LAST=1", "/the/file", &report);
  CHECK(names == Names{{"NCCL_DEBUG", "INFO"},
                       {" NCCL_ALGO", " ring "},
                       {"NCCL_PROTO", "\"LL\""},
                       {"EMPTY", ""},
                       {"TWO", "a=b"},
                       {"LAST", "1"}});
  REQUIRE(report.warnings.size() == 2);
  CHECK(contains(report.warnings[0], "line 5 of the configuration file /the/file"));
  CHECK(contains(report.warnings[0], "no equals sign"));
  CHECK(contains(report.warnings[1], "line 6 of"));
  CHECK(parse_conf("", "", &report).empty());
  const Names longest = parse_conf("A=" + std::string(1024, 'x') + "\nB=" + std::string(1023, 'y'), "", &report);
  CHECK(longest.count("A") == 0);
  CHECK(longest.count("B") == 1);
  REQUIRE(report.warnings.size() == 3);
  CHECK(contains(report.warnings[2], "line 1 of"));
}

TEST_CASE("unknown names are reported with the nearest known one", "[base]") {
  const std::vector<std::string> names{"NCCL_DEBUG",          "RONDE_DEBUG", "NCCL_DEBGU",        "RONDE_SLOT",
                                       "NCCL_FROBNICATE_ALL", "NCCL_IB_HCA", "NCCL_TESTS_DEVICE", "RONDE_CONF_FILE",
                                       "NCCL_CONF_FILE",      "PATH",        "XNCCL_NOTHING",     "NCCL_SOCKET_IFNAMES",
                                       "RONDE_EMU_SEED"};
  const std::vector<std::string> warnings = unknown_names(names);
  REQUIRE(warnings.size() == 4);
  CHECK(contains(warnings[0], "NCCL_DEBGU is unknown"));
  CHECK(contains(warnings[0], "did you mean NCCL_DEBUG?"));
  CHECK(contains(warnings[1], "did you mean RONDE_SLOTS?"));
  CHECK(contains(warnings[2], "NCCL_FROBNICATE_ALL is unknown"));
  CHECK_FALSE(contains(warnings[2], "did you mean"));
  CHECK(contains(warnings[3], "did you mean NCCL_SOCKET_IFNAME?"));
}

TEST_CASE("the process's configuration follows the environment at each call", "[base]") {
  const std::string before = getenv("RONDE_SLOTS") != nullptr ? getenv("RONDE_SLOTS") : "";
  setenv("RONDE_SLOTS", "7", 1);
  CHECK(current_config()->integer(Setting::slots) == 7);
  const auto kept = current_config();
  setenv("RONDE_SLOTS", "9", 1);
  CHECK(current_config()->integer(Setting::slots) == 9);
  CHECK(kept->integer(Setting::slots) == 7);
  before.empty() ? unsetenv("RONDE_SLOTS") : setenv("RONDE_SLOTS", before.c_str(), 1);
}
