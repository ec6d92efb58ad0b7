#include "base/log.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <pthread.h>
#include <set>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/config.h"
#include "base/thread.h"
#include "base/words.h"

namespace ronde {
namespace {

constexpr std::string_view kLevels[] = {"NONE", "VERSION", "WARN", "INFO", "ABORT", "TRACE"};
constexpr std::string_view kSubsystems[] = {"INIT",  "COLL", "P2P",  "SHM",       "NET", "GRAPH",   "TUNING", "ENV",     "ALLOC",
                                            "CALL",  "PROXY", "NVLS", "BOOTSTRAP", "REG", "PROFILE", "RAS",    "DESTROY", "ALLOC_HOST"};

constexpr uint32_t kAll = (1u << std::size(kSubsystems)) - 1;

/// The bits of one name; 0 where it is none.
uint32_t bits_of(std::string_view word) {
  if (same_word(word, "ALL")) return kAll;
  for (size_t i = 0; i < std::size(kSubsystems); ++i) {
    if (same_word(word, kSubsystems[i])) return 1u << i;
  }
  return 0;
}

std::vector<std::string_view> words_of(std::string_view list) {
  std::vector<std::string_view> words;
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    words.push_back(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return words;
}

struct Sink {
  std::atomic<int> level{-1};  // -1: not read yet. Release/acquire: who sees a level sees the file and the bits too
  std::atomic<uint32_t> subsystems{0};
  std::mutex mutex;  // guards file, once and the reading
  FILE* file = stderr;
  std::set<std::string> once;
};

Sink& sink() {
  static Sink* one = [] {
    // A fork while another thread writes a line would leave the lock held for ever in the child.
    pthread_atfork([] { sink().mutex.lock(); }, [] { sink().mutex.unlock(); }, [] { sink().mutex.unlock(); });
    return new Sink;  // never destroyed: threads may log while the process exits
  }();
  return *one;
}

void open_sink(Sink& s) {
  const Config config = process_config(nullptr);
  int level = 0;
  for (int i = 0; i < 6; ++i) {
    if (config.text(Setting::debug) == kLevels[i]) level = i;
  }
  const std::string& pattern = config.text(Setting::debug_file);
  if (!pattern.empty() && level > static_cast<int>(Level::version)) {
    const std::string path = expand_log_path(pattern, host_name(), getpid());
    FILE* file = fopen(path.c_str(), "we");
    if (file != nullptr) {
      setvbuf(file, nullptr, _IOLBF, 0);
      s.file = file;
    } else {
      fprintf(stderr, "ronde: opening the log file %s named by %s: %s; the log goes to stderr\n", path.c_str(),
              config.source(Setting::debug_file).c_str(), strerror(errno));
    }
  }
  s.subsystems.store(parse_subsystems(config.text(Setting::debug_subsys)), std::memory_order_relaxed);
  s.level.store(level, std::memory_order_release);
}

int level_of(Sink& s) {
  int level = s.level.load(std::memory_order_acquire);  // pairs with the release in open_sink
  if (level < 0) {
    const std::lock_guard lock(s.mutex);
    if (s.level.load(std::memory_order_relaxed) < 0) open_sink(s);
    level = s.level.load(std::memory_order_relaxed);
  }
  return level;
}

}  // namespace

uint32_t parse_subsystems(std::string_view list) {
  const bool inverted = !list.empty() && list[0] == '^';
  if (inverted) list.remove_prefix(1);
  uint32_t bits = 0;
  for (const std::string_view word : words_of(list)) bits |= bits_of(word);
  return inverted ? kAll & ~bits : bits;
}

std::vector<std::string> unknown_subsystems(std::string_view list) {
  if (!list.empty() && list[0] == '^') list.remove_prefix(1);
  std::vector<std::string> unknown;
  for (const std::string_view word : words_of(list)) {
    if (bits_of(word) == 0) unknown.emplace_back(word);
  }
  return unknown;
}

std::string known_subsystems() {
  std::string text;
  for (const std::string_view name : kSubsystems) text.append(name).append(", ");
  return text + "ALL";
}

std::string expand_log_path(std::string_view pattern, std::string_view host, int pid) {
  std::string path;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (next == 'h') {
      for (const char c : host) path += c == '%' || c == '/' ? '-' : c;
    } else if (next == 'p') {
      path += std::to_string(pid);
    } else if (next == '%') {
      path += '%';
    } else {
      path += pattern[i];
      continue;
    }
    ++i;
  }
  return path;
}

bool log_enabled(Level level, Subsys subsys) {
  Sink& s = sink();
  if (static_cast<int>(level) > level_of(s)) return false;
  return level <= Level::warn || (s.subsystems.load(std::memory_order_relaxed) & static_cast<uint32_t>(subsys)) != 0;
}

void log_line(Level level, std::string_view text, const Where& where) {
  Sink& s = sink();
  if (static_cast<int>(level) > level_of(s)) return;
  std::string place;
  if (where.line != 0) {
    std::string_view file = where.file;
    file.remove_prefix(std::min(file.find_last_of('/') + 1, file.size()));
    place = fmt::format("{}:{} ", file, where.line);
  }
  const std::string line = fmt::format("{}:{}:{} {}RONDE {} {}\n", host_name(), getpid(), syscall(SYS_gettid), place,
                                       kLevels[static_cast<int>(level)], text);
  const std::lock_guard lock(s.mutex);
  fwrite(line.data(), 1, line.size(), s.file);
}

void log_version(std::string_view text) {
  const int level = level_of(sink());
  if (level == static_cast<int>(Level::version) || level >= static_cast<int>(Level::info)) log_line(Level::version, text);
}

void log_once(const std::string& text) {
  Sink& s = sink();
  level_of(s);
  {
    const std::lock_guard lock(s.mutex);
    if (!s.once.insert(text).second) return;
  }
  log_line(Level::warn, text);
}

void log_error(const Error& error) { log_line(Level::warn, error.what, error.where); }

void log_reset() {
  Sink& s = sink();
  const std::lock_guard lock(s.mutex);
  if (s.file != stderr) fclose(s.file);
  s.file = stderr;
  s.level.store(-1, std::memory_order_release);  // pairs with the acquire in level_of
}

}  // namespace ronde
