#include "bench/options.h"

#include <fmt/core.h>
#include <getopt.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

namespace ronde::bench {
namespace {

/// Thrown by a flag's setter; the text goes to the user behind the flag's name.
struct BadValue {
  std::string why;
};

long long number(const std::string& text, long long low, long long high) {
  long long value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || value < low || value > high) {
    throw BadValue{fmt::format("wants a whole number from {} to {}, not '{}'", low, high, text)};
  }
  return value;
}

constexpr long long kMaxInt = 2147483647;
int whole(const std::string& text, long long low = 0, long long high = kMaxInt) {
  return static_cast<int>(number(text, low, high));
}
bool yes(const std::string& text) { return number(text, 0, 1) == 1; }

size_t size_value(const std::string& text) {
  if (auto bytes = parse_size(text)) return *bytes;
  throw BadValue{fmt::format("wants a size such as 8, 64K, 1.5M or 2G, not '{}'", text)};
}

int root_value(const std::string& text) { return text == "all" ? -1 : whole(text, -1); }

std::vector<Op> op_value(const std::string& text) {
  if (text == "all") return {Op::sum, Op::prod, Op::min, Op::max, Op::avg, Op::mulsum};
  if (auto op = op_from_name(text)) return {*op};
  throw BadValue{fmt::format("knows no operation '{}' (sum prod min max avg mulsum all)", text)};
}

std::vector<ncclDataType_t> type_value(const std::string& text) {
  std::vector<ncclDataType_t> all;
  for (int i = 0; i < kTypes; ++i) all.push_back(static_cast<ncclDataType_t>(i));
  if (text == "all") return all;
  if (auto type = type_from_name(text)) return {*type};
  std::string names;
  for (auto type : all) names += fmt::format("{} ", type_name(type));
  throw BadValue{fmt::format("knows no type '{}' ({}all)", text, names)};
}

using Set = void (*)(CommandLine&, const std::string&);

/// Flags of nccl-tests that say how a GPU is used.
void ignored(CommandLine& line, const std::string& value, const char* flag, const char* why) {
  if (number(value, 0, kMaxInt) != 0) line.warnings.push_back(fmt::format("{} is ignored: {}", flag, why));
}

void device_kernel(CommandLine&, const std::string& value) {
  if (number(value, 0, kMaxInt) != 0) throw BadValue{"is for kernels written with the device API, which ronde does not have"};
}

/// One flag: letter (0: none), long name, value's name in the help text ("" takes none), help, what it sets.
struct Flag {
  char letter;
  const char* name;
  const char* value;
  const char* help;
  Set set;
};

constexpr std::array kFlags = {
    Flag{'t', "nthreads", "N", "threads per process (1)",
         [](CommandLine& l, const std::string& v) { l.options.threads = whole(v, 1, 4096); }},
    Flag{'g', "ngpus", "N", "ranks per thread (1)",
         [](CommandLine& l, const std::string& v) { l.options.ranks_per_thread = whole(v, 1, 4096); }},
    Flag{'b', "minbytes", "SIZE", "first size (32M)",
         [](CommandLine& l, const std::string& v) { l.options.min_bytes = size_value(v); }},
    Flag{'e', "maxbytes", "SIZE", "last size (32M)",
         [](CommandLine& l, const std::string& v) { l.options.max_bytes = size_value(v); }},
    Flag{'i', "stepbytes", "SIZE", "increment of the size (1M)",
         [](CommandLine& l, const std::string& v) { l.options.step_bytes = size_value(v); }},
    Flag{'f', "stepfactor", "N", "factor of the size instead of an increment, above 1",
         [](CommandLine& l, const std::string& v) { l.options.step_factor = whole(v, 1); }},
    Flag{'n', "iters", "N", "timed iterations (20)",
         [](CommandLine& l, const std::string& v) { l.options.iterations = whole(v, 1); }},
    Flag{'m', "agg_iters", "N", "operations in one group per iteration (1)",
         [](CommandLine& l, const std::string& v) { l.options.aggregated = whole(v, 1); }},
    Flag{'w', "warmup_iters", "N", "untimed iterations before a table (1)",
         [](CommandLine& l, const std::string& v) { l.options.warmups = whole(v); }},
    Flag{'N', "run_cycles", "N", "repeat the whole sweep; 0: for ever (1)",
         [](CommandLine& l, const std::string& v) { l.options.cycles = whole(v); }},
    Flag{'p', "parallel_init", "0/1", "each thread initialises its own ranks (0)",
         [](CommandLine& l, const std::string& v) { l.options.parallel_init = yes(v); }},
    Flag{'c', "check", "N", "checks of the result, bit for bit; 0: none (1)",
         [](CommandLine& l, const std::string& v) { l.options.checks = whole(v); }},
    Flag{'o', "op", "OP", "sum prod min max avg mulsum all (sum)",
         [](CommandLine& l, const std::string& v) { l.options.ops = op_value(v); }},
    Flag{'d', "datatype", "TYPE", "int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2 all (float)",
         [](CommandLine& l, const std::string& v) { l.options.types = type_value(v); }},
    Flag{'r', "root", "RANK", "root rank; -1 or all: every rank in turn (0)",
         [](CommandLine& l, const std::string& v) { l.options.root = root_value(v); }},
    Flag{'z', "blocking", "0..3",
         "1: wait and barrier after each inner iteration, 2: wait only, 3: both after each outer one (0)",
         [](CommandLine& l, const std::string& v) { l.options.blocking = whole(v, 0, 3); }},
    Flag{'y', "stream_null", "0/1", "1: the NULL stream (what happens without this flag), 0: host streams",
         [](CommandLine& l, const std::string& v) { l.options.streams = !yes(v); }},
    Flag{'T', "timeout", "SECONDS", "abort and exit 4 when a step takes longer; 0: never (0)",
         [](CommandLine& l, const std::string& v) { l.options.timeout_seconds = whole(v); }},
    Flag{'G', "cudagraph", "N", "ignored on CPU ranks",
         [](CommandLine& l, const std::string& v) { ignored(l, v, "-G/--cudagraph", "CPU ranks have no CUDA graphs"); }},
    Flag{'C', "report_cputime", "0/1", "report the time to enqueue instead of the latency (0)",
         [](CommandLine& l, const std::string& v) { l.options.cpu_time = yes(v); }},
    Flag{'S', "report_timestamps", "0/1", "add a column with the time of day (0)",
         [](CommandLine& l, const std::string& v) { l.options.timestamps = yes(v); }},
    Flag{'J', "output_file", "FILE", "write the results to FILE as JSON too; FILE.1 and so on where it exists",
         [](CommandLine& l, const std::string& v) { l.options.json_file = v; }},
    Flag{'a', "average", "0..3", "time over the ranks: 0 rank 0's, 1 mean, 2 min, 3 max (1)",
         [](CommandLine& l, const std::string& v) { l.options.average = static_cast<Average>(whole(v, 0, 3)); }},
    Flag{'R', "local_register", "0..2", "register the buffers: 1 ncclCommRegister, 2 ncclCommWindowRegister (0)",
         [](CommandLine& l, const std::string& v) { l.options.registration = whole(v, 0, 2); }},
    Flag{'x', "cta_policy", "0..2", "CTAPolicy of the communicators: 0 default, 1 efficiency, 2 zero (not set)",
         [](CommandLine& l, const std::string& v) { l.options.cta_policy = whole(v, -1, 2); }},
    Flag{'D', "device_implementation", "N", "only 0: there is no device API", device_kernel},
    Flag{'V', "device_cta_count", "N", "only 0: there is no device API", device_kernel},
    Flag{'M', "memory", "0/1", "ignored on CPU ranks",
         [](CommandLine& l, const std::string& v) { ignored(l, v, "-M/--memory", "CPU ranks use no GPU memory"); }},
    Flag{'u', "unalign", "N", "first element used of each buffer (0)",
         [](CommandLine& l, const std::string& v) { l.options.unalign = static_cast<size_t>(whole(v, 0, 1 << 20)); }},
    Flag{'I', "per_iter_timing", "0/1", "time each iteration: columns i_min i_max i_p99 i_cv%, and the medians at the end (0)",
         [](CommandLine& l, const std::string& v) { l.options.per_iteration = yes(v); }},
    Flag{'K', "per_iter_skip", "N", "first iterations that -I leaves out (0)",
         [](CommandLine& l, const std::string& v) { l.options.per_iteration_skip = whole(v); }},
    Flag{0, "streams", "", "use host streams instead of the NULL stream",
         [](CommandLine& l, const std::string&) { l.options.streams = true; }},
    Flag{0, "choice", "", "algorithm, protocol and channels as columns at the end of each row instead of lines of their own",
         [](CommandLine& l, const std::string&) { l.options.choice_columns = true; }},
    Flag{'h', "help", "", "this text", [](CommandLine& l, const std::string&) { l.help = true; }},
};

std::string spelled(const Flag& flag) {
  return flag.letter != 0 ? fmt::format("-{}/--{}", flag.letter, flag.name) : fmt::format("--{}", flag.name);
}

/// What no single flag can see.
std::optional<std::string> contradiction(const Options& o) {
  if (o.min_bytes > o.max_bytes) {
    return fmt::format("-b ({} bytes) is above -e ({} bytes); without -e the last size is 32M", o.min_bytes, o.max_bytes);
  }
  if (o.min_bytes < o.max_bytes && o.step_factor > 1 && o.min_bytes == 0)
    return "-f cannot grow a size of 0; give -b at least 1, or -i";
  if (o.min_bytes < o.max_bytes && o.step_factor <= 1 && o.step_bytes == 0)
    return "-i 0 never reaches -e; give an increment, or -f";
  if (o.per_iteration && o.per_iteration_skip >= o.iterations) return "-K leaves out all of the -n iterations";
  return std::nullopt;
}

/// getopt's tables, from the flags.
struct Tables {
  std::string letters = ":";  // a missing value is told from an unknown flag
  std::vector<option> longs;

  Tables() {
    for (size_t i = 0; i < kFlags.size(); ++i) {
      const bool takes_value = *kFlags[i].value != '\0';
      if (kFlags[i].letter != 0) letters += kFlags[i].letter;
      if (kFlags[i].letter != 0 && takes_value) letters += ':';
      longs.push_back({kFlags[i].name, takes_value ? required_argument : no_argument, nullptr, 256 + static_cast<int>(i)});
    }
    longs.push_back({});
  }
};

const Flag* flag_of(int code) {
  if (code >= 256) return &kFlags[static_cast<size_t>(code - 256)];
  for (const Flag& flag : kFlags) {
    if (flag.letter == code) return &flag;
  }
  return nullptr;
}

}  // namespace

std::optional<size_t> parse_size(const std::string& text) {
  if (text.empty() || (std::isdigit(static_cast<unsigned char>(text[0])) == 0 && text[0] != '.')) return std::nullopt;
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc{}) return std::nullopt;
  const std::string unit(stop, text.data() + text.size());
  double factor = 1;
  if (unit == "K" || unit == "k") {
    factor = 1024.0;
  } else if (unit == "M" || unit == "m") {
    factor = 1024.0 * 1024;
  } else if (unit == "G" || unit == "g") {
    factor = 1024.0 * 1024 * 1024;
  } else if (!unit.empty()) {
    return std::nullopt;
  }
  const double bytes = value * factor;
  return bytes <= 0x1p62 ? std::optional<size_t>(static_cast<size_t>(bytes)) : std::nullopt;
}

CommandLine parse_command_line(std::span<const std::string> arguments) {
  const Tables tables;
  std::vector<std::string> copy = {""};
  copy.insert(copy.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (auto& argument : copy) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const int argc = static_cast<int>(copy.size());

  CommandLine line;
  optind = 0;  // glibc: start over
  opterr = 0;
  for (;;) {
    const int current = std::max(optind, 1);
    const int code = getopt_long(argc, argv.data(), tables.letters.c_str(), tables.longs.data(), nullptr);
    if (code == -1) break;
    if (code == ':' || code == '?') {
      const std::string given = argv[static_cast<size_t>(std::min(std::max(optind - 1, current), argc - 1))];
      line.error = code == ':' ? fmt::format("flag '{}' needs a value", given) : fmt::format("unknown flag '{}'", given);
      return line;
    }
    const Flag* flag = flag_of(code);
    try {
      flag->set(line, optarg != nullptr ? optarg : "");
    } catch (const BadValue& bad) {
      line.error = fmt::format("{} {}", spelled(*flag), bad.why);
      return line;
    }
    if (line.help) return line;
  }
  if (optind < argc) {
    line.error = fmt::format("'{}' is no flag", argv[static_cast<size_t>(optind)]);
    return line;
  }
  line.error = contradiction(line.options);
  return line;
}

std::string usage_text(const std::string& program) {
  std::string text = fmt::format("usage: {} [flags]\n", program);
  for (const Flag& flag : kFlags) {
    const std::string names = fmt::format("{} {}", spelled(flag), flag.value);
    text += fmt::format("  {:<34} {}\n", names, flag.help);
  }
  return text + "Sizes are decimal numbers with an optional K, M or G (1024, 1024^2, 1024^3).\n";
}

}  // namespace ronde::bench
