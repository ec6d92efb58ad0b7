#include "base/config.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fmt/core.h>
#include <fstream>
#include <mutex>
#include <set>
#include <sstream>
#include <unistd.h>

#include "base/log.h"
#include "base/words.h"

namespace ronde {
namespace {

using Names = std::map<std::string, std::string>;

/// The admitted spelling of a choice, "" where `value` is none of them, and its place.
std::string pick_word(std::string_view words, std::string_view value, int64_t* place) {
  for (*place = 0; !words.empty(); ++*place) {
    const size_t comma = std::min(words.find(','), words.size());
    if (same_word(words.substr(0, comma), value)) return std::string(words.substr(0, comma));
    words.remove_prefix(std::min(comma + 1, words.size()));
  }
  return "";
}

/// Integer with an optional K, M or G (binary) where `suffix`. False where anything else is left over.
bool parse_integer(const std::string& text, bool suffix, int64_t* out) {
  errno = 0;
  char* end = nullptr;
  const long long value = strtoll(text.c_str(), &end, 0);
  if (end == text.c_str() || errno == ERANGE) return false;
  int shift = 0;
  if (suffix && *end != '\0') {
    const char unit = static_cast<char>(std::toupper(*end));
    shift = unit == 'K' ? 10 : unit == 'M' ? 20 : unit == 'G' ? 30 : 0;
    if (shift != 0) ++end;
  }
  if (*end != '\0' || value > (INT64_MAX >> shift) || value < (INT64_MIN >> shift)) return false;
  *out = value * (int64_t{1} << shift);
  return true;
}

/// The word that stands for a distance's old number: 0 to 4, and everything beyond as the last.
std::string old_distance(const std::string& text) {
  constexpr const char* kOld[] = {"LOC", "PIX", "PXB", "PHB", "SYS"};
  int64_t number = -1;
  if (!parse_integer(text, false, &number) || number < 0) return text;
  return kOld[std::min<int64_t>(number, 4)];
}

std::string wanted(const Option& option) {
  switch (option.kind) {
    case Kind::distance: return fmt::format("one of {}, or a number from 0", option.words);
    case Kind::choice: return fmt::format("one of {}", option.words);
    case Kind::flag: return "0 or 1";
    case Kind::bytes: return fmt::format("bytes from {:.0f} to {:.0f}, with K, M or G if you like", option.low, option.high);
    case Kind::seconds: return fmt::format("seconds from {:g} to {:g}", option.low, option.high);
    default: return fmt::format("an integer from {:.0f} to {:.0f}", option.low, option.high);
  }
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t next = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = std::exchange(row[j], next);
    }
  }
  return row[b.size()];
}

const std::set<std::string>& known_names() {
  static const std::set<std::string> names = [] {
    std::set<std::string> all{"RONDE_CONF_FILE"};
    for (const Option& option : options()) {
      all.insert(fmt::format("RONDE_{}", option.name));
      for (const char* name : {option.alias, option.former}) {
        if (name != nullptr) all.insert(name);
      }
    }
    for (const std::string_view name : accepted_nccl_names()) all.insert(fmt::format("NCCL_{}", name));
    return all;
  }();
  return names;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  if (file) text << file.rdbuf();
  return text.str();
}

struct ConfFiles {
  std::vector<Names> names;  ///< the strongest first
  ConfigReport report;
};

/// The configuration files of this process; read once. Nothing is logged here, because the log's settings may stand in them.
const ConfFiles& conf_files() {
  static const ConfFiles files = [] {
    ConfFiles read;
    const char* name = "RONDE_CONF_FILE";
    const char* chosen = process_variable(name);
    if (chosen == nullptr || *chosen == '\0') chosen = process_variable(name = "NCCL_CONF_FILE");
    std::string path = chosen != nullptr ? chosen : "";
    if (path.empty()) {
      const char* home = process_variable("HOME");
      if (home != nullptr) path = std::string(home) + "/.nccl.conf";
    } else if (access(path.c_str(), R_OK) != 0) {
      read.report.warnings.push_back(fmt::format("reading the configuration file {} named by {}: {}; it is ignored", path, name, strerror(errno)));
    }
    for (const std::string& one : {path, std::string("/etc/nccl.conf")}) read.names.push_back(parse_conf(read_file(one), one, &read.report));
    return read;
  }();
  return files;
}

std::vector<std::string> environment_names() {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const char* equals = strchr(*entry, '=');
    if (equals != nullptr) names.emplace_back(*entry, static_cast<size_t>(equals - *entry));
  }
  return names;
}

}  // namespace

const char* process_variable(const char* name) { return getenv(name); }

/// Turns raw text into Config values; the only writer of a Config.
class ConfigReader {
 public:
  ConfigReader(const GetEnv& get, std::span<const Names> files, ConfigReport* report)
      : get_(get), files_(files), report_(report) {}

  Config read() {
    Config config;
    for (const Option& option : options()) {
      Config::Value& value = config.values_[static_cast<size_t>(option.id)];
      auto [text, source] = find(option);
      if (!source.empty() && convert(option, text, &value)) {
        value.source = source;
        continue;
      }
      if (!source.empty() && report_ != nullptr) {
        report_->warnings.push_back(fmt::format("{}={} fits nothing: expected {}; the default {} is used", source, text,
                                                wanted(option), option.fallback));
      }
      convert(option, option.fallback, &value);
      value.source = "default";
    }
    return config;
  }

 private:
  std::pair<std::string, std::string> find(const Option& option) const {
    const std::string own = fmt::format("RONDE_{}", option.name);
    const std::array<const char*, 3> names = {own.c_str(), option.alias, option.former};
    for (const char* name : names) {
      const char* value = name != nullptr ? get_(name) : nullptr;
      if (value != nullptr && *value != '\0') return {value, name};
    }
    for (const Names& file : files_) {
      for (const char* name : names) {
        if (name == nullptr) continue;
        const auto at = file.find(name);
        if (at != file.end() && !at->second.empty()) return {at->second, name};
      }
    }
    return {};
  }

  static bool convert(const Option& option, const std::string& text, Config::Value* value) {
    value->text = text;
    if (option.kind == Kind::text) return true;
    if (option.kind == Kind::choice) {
      value->text = pick_word(option.words, text, &value->integer);
      return !value->text.empty();
    }
    if (option.kind == Kind::distance) {
      value->text = pick_word(option.words, old_distance(text), &value->integer);
      --value->integer;
      return !value->text.empty();
    }
    if (option.kind == Kind::seconds) {
      char* end = nullptr;
      value->number = strtod(text.c_str(), &end);
      value->integer = static_cast<int64_t>(value->number);
      return end != text.c_str() && *end == '\0' && value->number >= option.low && value->number <= option.high;
    }
    if (!parse_integer(text, option.kind == Kind::bytes, &value->integer)) return false;
    value->number = static_cast<double>(value->integer);
    return value->number >= option.low && value->number <= option.high;
  }

  const GetEnv& get_;
  std::span<const Names> files_;
  ConfigReport* report_;
};

std::map<std::string, std::string> parse_conf(std::string_view text, std::string_view path, ConfigReport* report) {
  constexpr size_t kLongest = 1023;  // of a name and of a value, as NCCL has it
  Names names;
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.find_first_not_of(" \t") == std::string_view::npos || line[0] == '#') continue;
    const size_t equals = line.find('=');
    const bool named = equals != std::string_view::npos && equals != 0;
    if (named && equals <= kLongest && line.size() - equals - 1 <= kLongest) {
      names.try_emplace(std::string(line.substr(0, equals)), line.substr(equals + 1));
    } else if (report != nullptr) {
      report->warnings.push_back(fmt::format("line {} of the configuration file {} is ignored, because it {}: {}", number, path,
                                             named ? "has a name or value of more than 1023 characters" : "is no NAME=VALUE", line.substr(0, 80)));
    }
  }
  return names;
}

Config read_config(const GetEnv& get, std::span<const Names> files, ConfigReport* report) {
  return ConfigReader(get, files, report).read();
}

std::vector<std::string> unknown_names(std::span<const std::string> names) {
  std::vector<std::string> warnings;
  for (const std::string& name : names) {
    const bool ours = name.rfind("RONDE_", 0) == 0 && name.rfind("RONDE_EMU_", 0) != 0;  // those are the emulated GPU's
    const bool theirs = name.rfind("NCCL_", 0) == 0 && name.rfind("NCCL_TESTS_", 0) != 0;
    if ((!ours && !theirs) || known_names().count(name) != 0) continue;
    const std::string* nearest = nullptr;
    size_t least = 4;  // farther apart than three edits is no typing error
    for (const std::string& known : known_names()) {
      const size_t distance = edit_distance(name, known);
      if (distance < least) {
        least = distance;
        nearest = &known;
      }
    }
    warnings.push_back(fmt::format("the variable {} is unknown and has no effect{}", name,
                                   nearest != nullptr ? fmt::format("; did you mean {}?", *nearest) : ""));
  }
  return warnings;
}

Config process_config(ConfigReport* report) {
  const ConfFiles& files = conf_files();
  if (report != nullptr) *report = files.report;
  return read_config(process_variable, files.names, report);
}

std::shared_ptr<const Config> current_config() {
  ConfigReport report;
  auto config = std::make_shared<const Config>(process_config(&report));
  std::vector<std::string> names = environment_names();
  for (const Names& file : conf_files().names) {
    for (const auto& [name, value] : file) names.push_back(name);
  }
  for (const std::string& warning : unknown_names(names)) log_once(warning);
  for (const std::string& warning : report.warnings) log_once(warning);
  for (const std::string& word : unknown_subsystems(config->text(Setting::debug_subsys))) {
    log_once(fmt::format("{}={}: {} is no subsystem and is ignored; subsystems are {}", config->source(Setting::debug_subsys),
                         config->text(Setting::debug_subsys), word.empty() ? "an empty word" : word, known_subsystems()));
  }
  return config;
}

Config Config::with(Setting s, std::string text, std::string source) const {
  Config changed = *this;
  changed.values_[static_cast<size_t>(s)] = {0, 0, std::move(text), std::move(source)};
  return changed;
}

Config Config::with(Setting s, int64_t number, std::string source) const {
  Config changed = *this;
  changed.values_[static_cast<size_t>(s)] = {number, static_cast<double>(number), std::to_string(number), std::move(source)};
  return changed;
}

}  // namespace ronde
