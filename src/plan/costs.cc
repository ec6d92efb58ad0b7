#include "plan/costs.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "base/files.h"

namespace ronde {
namespace {

constexpr std::string_view kBuiltIn =
#include "plan/costs_text.h"
    ;
constexpr std::string_view kHead = "ronde-costs";
constexpr std::string_view kVersion = "1";
constexpr size_t kMostText = size_t{1} << 20;
constexpr int64_t kMostNanos = 1'000'000'000;
constexpr int64_t kMostRate = 100'000'000;  // MB/s
constexpr int64_t kMostBytes = int64_t{1} << 50;

/// A line with one number: its name, where it goes, its unit and range.
struct Entry {
  std::string name;
  int64_t Costs::*plain = nullptr;
  int protocol = -1;  ///< of the hop, where it is one
  int kind = -1;
  int64_t HopCost::*part = nullptr;
  const char* unit = "";
  int64_t least = 0;
  int64_t most = 0;

  int64_t& in(Costs& costs) const {
    if (part == nullptr) return costs.*plain;
    return costs.hop(static_cast<Protocol>(protocol), static_cast<HopKind>(kind)).*part;
  }
};

std::vector<Entry> make_entries() {
  std::vector<Entry> all;
  for (int p = 0; p < kProtocols; ++p) {
    for (int k = 0; k < kHopKinds; ++k) {
      const std::string hop = fmt::format("hop.{}.{}.", to_string(static_cast<Protocol>(p)), to_string(static_cast<HopKind>(k)));
      all.push_back({hop + "latency", nullptr, p, k, &HopCost::latency, "ns", 0, kMostNanos});
      all.push_back({hop + "slot", nullptr, p, k, &HopCost::slot, "ns", 0, kMostNanos});
      all.push_back({hop + "efficiency", nullptr, p, k, &HopCost::efficiency, "permille", 1, 1000});
    }
  }
  all.push_back({"gpu.launch", &Costs::gpu_launch, -1, -1, nullptr, "ns", 0, kMostNanos});
  all.push_back({"gpu.channel", &Costs::gpu_channel, -1, -1, nullptr, "MB/s", 1, kMostRate});
  all.push_back({"cpu.launch", &Costs::cpu_launch, -1, -1, nullptr, "ns", 0, kMostNanos});
  all.push_back({"cpu.wake", &Costs::cpu_wake, -1, -1, nullptr, "ns", 0, kMostNanos});
  all.push_back({"cpu.patience", &Costs::cpu_patience, -1, -1, nullptr, "ns", 0, kMostNanos});
  all.push_back({"cpu.switch", &Costs::cpu_switch, -1, -1, nullptr, "ns", 0, kMostNanos});
  all.push_back({"cpu.net.latency", &Costs::cpu_net_latency, -1, -1, nullptr, "ns", 0, kMostNanos});
  all.push_back({"cpu.net.slot", &Costs::cpu_net_slot, -1, -1, nullptr, "ns", 0, kMostNanos});
  all.push_back({"cpu.net.send", &Costs::cpu_net_send, -1, -1, nullptr, "MB/s", 1, kMostRate});
  all.push_back({"cpu.net.receive", &Costs::cpu_net_receive, -1, -1, nullptr, "MB/s", 1, kMostRate});
  return all;
}
const std::vector<Entry>& entries() {
  static const std::vector<Entry> all = make_entries();
  return all;
}

std::string curve_name(CpuWork work, HopKind kind) { return fmt::format("{}.{}", to_string(work), to_string(kind)); }

/// The curve whose points begin with that name; nullptr for none.
Curve* find_curve(Costs& costs, std::string_view name) {
  for (int w = 0; w < kCpuWorks; ++w) {
    for (const HopKind kind : {HopKind::process, HopKind::shm}) {
      if (name == curve_name(static_cast<CpuWork>(w), kind)) return &costs.curve(static_cast<CpuWork>(w), kind);
    }
  }
  return nullptr;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  line = line.substr(0, line.find('#'));
  while (true) {
    const size_t from = line.find_first_not_of(" \t\r");
    if (from == std::string_view::npos) return words;
    line.remove_prefix(from);
    const size_t to = std::min(line.find_first_of(" \t\r"), line.size());
    words.push_back(line.substr(0, to));
    line.remove_prefix(to);
  }
}

/// Reads the lines of one text.
class Reader {
 public:
  Reader(const std::string& file, const Costs& base) : file_(file), costs_(base) {}

  Result<Costs> read(std::string_view text) {
    bool headed = false;
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      const std::vector<std::string_view> words = words_of(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
      ++line_;
      if (words.empty()) continue;
      if (!headed) {
        if (words.size() != 2 || words[0] != kHead || words[1] != kVersion) {
          return error(fmt::format("the first line has to be \"{} {}\"", kHead, kVersion));
        }
        headed = true;
        continue;
      }
      RONDE_TRY(take(words));
    }
    if (!headed) return error(fmt::format("the file is empty; its first line has to be \"{} {}\"", kHead, kVersion));
    for (auto& [curve, points] : points_) curve->points = std::move(points);
    return std::move(costs_);
  }

 private:
  Result<> take(const std::vector<std::string_view>& words) {
    const std::string_view name = words[0];
    for (const Entry& entry : entries()) {
      if (entry.name != name) continue;
      if (words.size() != 3 || words[2] != entry.unit)
        return error(fmt::format("{} is written \"{} NUMBER {}\"", name, name, entry.unit));
      RONDE_TRY(entry.in(costs_), number(words[1], entry.least, entry.most));
      return {};
    }
    const size_t dot = name.rfind('.');
    Curve* const curve = dot == std::string_view::npos ? nullptr : find_curve(costs_, name.substr(0, dot));
    if (curve == nullptr) return error(fmt::format("\"{}\" is no constant; known are {}", name, known()));
    if (words.size() != 4 || words[3] != "MB/s") return error(fmt::format("{} is written \"{} ALONE SHARED MB/s\"", name, name));
    CurvePoint point;
    RONDE_TRY(point.bytes, number(name.substr(dot + 1), 1, kMostBytes));
    RONDE_TRY(point.alone, number(words[1], 1, kMostRate));
    RONDE_TRY(point.shared, number(words[2], 1, kMostRate));
    std::vector<CurvePoint>& points = points_[curve];
    if (!points.empty() && points.back().bytes >= point.bytes) return error("the points of a curve have to ascend in bytes");
    points.push_back(point);
    return {};
  }

  Result<int64_t> number(std::string_view word, int64_t least, int64_t most) {
    int64_t value = 0;
    const auto [end, bad] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (bad != std::errc() || end != word.data() + word.size() || value < least || value > most) {
      return error(fmt::format("\"{}\" is no whole number from {} to {}", word, least, most));
    }
    return value;
  }

  Error error(const std::string& what) const {
    return fail(Code::invalid_argument, fmt::format("{}:{}: {}", file_, line_, what));
  }

  static std::string known() {
    std::string text = "copy, pull, fold, publish or take, .process or .shm, .BYTES";
    for (const Entry& entry : entries()) text += ", " + entry.name;
    return text;
  }

  const std::string& file_;
  Costs costs_;
  std::map<Curve*, std::vector<CurvePoint>> points_;  ///< of costs_
  int line_ = 0;
};

/// 1024 times the logarithm to base 2, between powers of two linear. `value` above 0.
int64_t log2_1024(int64_t value) {
  const int whole = std::bit_width(static_cast<uint64_t>(value)) - 1;
  const int64_t base = int64_t{1} << whole;
  return whole * 1024 + (whole >= 40 ? (value - base) / (base >> 10) : (value - base) * 1024 / base);
}

int64_t between(int64_t a, int64_t b, int64_t at, int64_t of) { return a + (b - a) * at / std::max<int64_t>(1, of); }

}  // namespace

const char* to_string(Protocol protocol) {
  constexpr const char* names[kProtocols] = {"simple", "ll", "ll128"};
  return names[static_cast<size_t>(protocol)];
}
const char* to_string(HopKind kind) {
  constexpr const char* names[kHopKinds] = {"process", "shm", "nvlink", "pci", "network"};
  return names[static_cast<size_t>(kind)];
}
const char* to_string(CpuWork work) {
  constexpr const char* names[kCpuWorks] = {"copy", "pull", "fold", "publish", "take"};
  return names[static_cast<size_t>(work)];
}

CurvePoint Curve::at(int64_t bytes) const {
  const auto after = std::find_if(points.begin(), points.end(), [&](const CurvePoint& p) { return p.bytes >= bytes; });
  CurvePoint point = after == points.end() ? points.back() : *after;
  point.bytes = bytes;
  if (after == points.begin() || after == points.end()) return point;
  const CurvePoint& low = *(after - 1);
  const int64_t at = log2_1024(bytes) - log2_1024(low.bytes);
  const int64_t of = log2_1024(after->bytes) - log2_1024(low.bytes);
  return {bytes, between(low.alone, after->alone, at, of), between(low.shared, after->shared, at, of)};
}

const Costs& built_in_costs() {
  static const Costs costs = [] {
    Result<Costs> read = parse_costs(kBuiltIn, "costs.txt", Costs{});
    if (!read.ok()) {  // a defect of the build, which the tests find
      fputs((read.error().what + "\n").c_str(), stderr);
      abort();
    }
    return std::move(*read);
  }();
  return costs;
}

Result<Costs> parse_costs(std::string_view text, const std::string& file, const Costs& base) {
  return Reader(file, base).read(text);
}

Result<Costs> read_costs(const std::string& path, const Costs& base) {
  RONDE_TRY(const std::string text, read_file(path, kMostText));
  return parse_costs(text, path, base);
}

Result<Costs> costs_of(const Config& config) {
  if (!config.is_set(Setting::tune_file)) return built_in_costs();
  Result<Costs> read = read_costs(config.text(Setting::tune_file));
  if (read.ok()) return read;
  return fail(Code::invalid_usage, "RONDE_TUNE_FILE: " + read.error().what, Scope::communicator);
}

std::string to_text(const Costs& costs, std::string_view source) {
  std::string text = fmt::format("{} {}\n", kHead, kVersion);
  Costs copy = costs;
  for (const Entry& entry : entries()) text += fmt::format("{} {} {} # {}\n", entry.name, entry.in(copy), entry.unit, source);
  for (int w = 0; w < kCpuWorks; ++w) {
    for (const HopKind kind : {HopKind::process, HopKind::shm}) {
      const auto work = static_cast<CpuWork>(w);
      for (const CurvePoint& point : costs.curve(work, kind).points) {
        text += fmt::format("{}.{} {} {} MB/s # {}\n", curve_name(work, kind), point.bytes, point.alone, point.shared, source);
      }
    }
  }
  return text;
}

}  // namespace ronde
