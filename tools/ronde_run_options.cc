#include "tools/ronde_run_options.h"

#include <fmt/core.h>
#include <getopt.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ronde::run {
namespace {

constexpr int kUsage = 2;
constexpr int kMostRanks = 4096;

constexpr const char* kHelp =
    "usage: ronde-run -n N [options] [--] COMMAND [ARGUMENT...]\n"
    "\n"
    "Starts N processes of COMMAND on this host. Each gets RANK (0 to N-1), WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE,\n"
    "MASTER_ADDR and MASTER_PORT (a free port). When one fails, the others are ended and its exit status is ronde-run's\n"
    "(128 and the number for a signal).\n"
    "\n"
    "  -n N               number of processes\n"
    "      --no-prefix    do not put \"[rank] \" before each line of output\n"
    "      --timeout S    end the job after S seconds, with status 124\n"
    "      --grace S      seconds from SIGTERM to SIGKILL (5)\n"
    "  -h, --help         this text\n"
    "\n"
    "Hosts that are none: network namespaces of this machine, joined by a switch, each with NCCL_HOSTID set. They end\n"
    "with the job, whatever ends it. Needs root, or `unshare --map-root-user --net ronde-run ...`.\n"
    "\n"
    "      --hosts H      H hosts, the ranks split over them in order, as evenly as can be\n"
    "      --hosts LISTS  the ranks of each host, hosts separated by /: 0/1,2 or 0,2/1 or 0-6/7-14\n"
    "      --rails R      network interfaces of each host: eth0, eth1, ..., each with a switch of its own (1)\n"
    "      --rate R[,R..] what a rail carries in each direction, for example 100mbit or 1gbit: all rails alike, or each its own\n"
    "      --delay T      how long a packet is on its way, for example 1ms (where the kernel has sch_netem)\n"
    "\n"
    "Standard output and error stay apart. Rank 0 reads ronde-run's standard input unless that is a terminal; the others\n"
    "have none. SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on.\n";

[[noreturn]] void usage_error(const std::string& text) {
  say(text + " (--help explains)");
  std::exit(kUsage);
}

double seconds_value(const char* name, const char* text) {
  double value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc{} || stop != end || !(value >= 0) || value > 1e9) {
    usage_error(fmt::format("{} wants seconds, not '{}'", name, text));
  }
  return value;
}

int number_value(const char* name, const char* text, int most) {
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc{} || stop != end || value < 1 || value > most) {
    usage_error(fmt::format("{} wants a number from 1 to {}, not '{}'", name, most, text));
  }
  return value;
}

/// The values of the options that only mean something together.
struct Given {
  const char* hosts = nullptr;
  const char* rate = nullptr;
  const char* delay = nullptr;
  int rails = 0;
};

void set_hosts(const Given& given, Options& options) {
  if (given.hosts == nullptr) {
    if (given.rate != nullptr || given.delay != nullptr || given.rails != 0) {
      usage_error("--rails, --rate and --delay are for the links between hosts: give --hosts too");
    }
    return;
  }
  std::string why = read_split(given.hosts, options.ranks, options.split);
  if (why.empty()) why = read_links(given.rails, given.rate, given.delay, options.links);
  if (!why.empty()) usage_error(why);
}

}  // namespace

void say(const std::string& text) { std::fputs(fmt::format("ronde-run: {}\n", text).c_str(), stderr); }

Options parse(int argc, char** argv) {
  enum : int { kNoPrefix = 256, kTimeout, kGrace, kHosts, kRails, kRate, kDelay };
  const option longs[] = {{"no-prefix", no_argument, nullptr, kNoPrefix},
                          {"timeout", required_argument, nullptr, kTimeout},
                          {"grace", required_argument, nullptr, kGrace},
                          {"hosts", required_argument, nullptr, kHosts},
                          {"rails", required_argument, nullptr, kRails},
                          {"rate", required_argument, nullptr, kRate},
                          {"delay", required_argument, nullptr, kDelay},
                          {"help", no_argument, nullptr, 'h'},
                          {nullptr, 0, nullptr, 0}};
  Options options;
  Given given;
  opterr = 0;
  for (;;) {
    const int at = std::max(optind, 1);
    const int code = getopt_long(argc, argv, "+:n:h", longs, nullptr);  // +: the command's own options are not ours
    if (code == -1) break;
    const std::string text = argv[std::min(std::max(optind - 1, at), argc - 1)];
    switch (code) {
      case 'n':
        options.ranks = number_value("-n", optarg, kMostRanks);
        break;
      case kNoPrefix:
        options.prefix = false;
        break;
      case kTimeout:
        options.timeout = seconds_value("--timeout", optarg);
        break;
      case kGrace:
        options.grace = seconds_value("--grace", optarg);
        break;
      case kHosts:
        given.hosts = optarg;
        break;
      case kRails:
        given.rails = number_value("--rails", optarg, kMostRails);
        break;
      case kRate:
        given.rate = optarg;
        break;
      case kDelay:
        given.delay = optarg;
        break;
      case 'h':
        std::fputs(kHelp, stdout);
        std::exit(0);
      case ':':
        usage_error(fmt::format("option '{}' needs a value", text));
      default:
        usage_error(fmt::format("unknown option '{}'", text));
    }
  }
  if (options.ranks == 0) usage_error("how many processes? give -n N");
  if (optind >= argc) usage_error("no command");
  set_hosts(given, options);
  options.command = argv + optind;
  return options;
}

}  // namespace ronde::run
