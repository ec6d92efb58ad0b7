#include "topo/sysfs.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <filesystem>

#include "base/fd.h"

namespace ronde::topo {
namespace {

constexpr int kMaxLinks = 40;  // as Linux itself has it
constexpr size_t kMaxText = 64 * 1024;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Numbers in names count by value; equal ones ("eth1", "eth01") by their characters.
bool natural_less(std::string_view a, std::string_view b) {
  size_t i = 0;
  size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (!is_digit(a[i]) || !is_digit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i, ++j;
      continue;
    }
    const auto digits = [](std::string_view text, size_t& at) {
      while (at + 1 < text.size() && text[at] == '0' && is_digit(text[at + 1])) ++at;
      const size_t first = at;
      while (at < text.size() && is_digit(text[at])) ++at;
      return text.substr(first, at - first);
    };
    const std::string_view x = digits(a, i);
    const std::string_view y = digits(b, j);
    if (x.size() != y.size()) return x.size() < y.size();
    if (x != y) return x < y;
  }
  return a.size() - i != b.size() - j ? a.size() - i < b.size() - j : a < b;
}

void push_reversed(std::vector<std::string>& todo, std::string_view path) {
  const auto parts = split(path, '/');
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) todo.emplace_back(*part);
}

}  // namespace

Result<HostFiles> HostFiles::open(const std::string& root) {
  const std::string folder = root.empty() ? "/" : root;
  struct stat self {};
  struct stat top {};
  if (stat(folder.c_str(), &self) != 0)
    return system_failure(errno, fmt::format("reading the machine below '{}'", folder), "name a folder that holds sys and proc");
  if (!S_ISDIR(self.st_mode))
    return fail(Code::invalid_argument,
                fmt::format("reading the machine below '{}': that is no folder; name one that holds sys and proc", folder));
  const bool running = stat("/", &top) == 0 && top.st_dev == self.st_dev && top.st_ino == self.st_ino;
  return HostFiles(running ? "" : folder, running);
}

std::string HostFiles::resolve(std::string_view path) const {
  const size_t slash = path.rfind('/');
  if (slash == 0 || slash == std::string_view::npos) return walk("", path);
  const std::string_view folder = path.substr(0, slash);
  if (folder != last_folder_) {
    last_place_ = walk("", folder);
    last_folder_ = folder;
  }
  return last_place_.empty() ? "" : walk(last_place_ == "/" ? "" : last_place_, path.substr(slash + 1));
}

std::string HostFiles::walk(std::string done, std::string_view path) const {
  std::vector<std::string> todo;
  push_reversed(todo, path);
  int links = 0;
  while (!todo.empty()) {
    const std::string part = std::move(todo.back());
    todo.pop_back();
    if (part == ".") continue;
    const std::string folder = done;
    if (part == "..") {
      // Above the root there is nothing, as above "/".
      done.resize(done.empty() ? 0 : done.rfind('/'));
      continue;
    }
    done += "/" + part;
    struct stat status {};
    if (lstat((root_ + done).c_str(), &status) != 0) return "";
    if (!S_ISLNK(status.st_mode)) continue;
    char target[PATH_MAX];
    const ssize_t length = readlink((root_ + done).c_str(), target, sizeof target);
    if (length <= 0 || ++links > kMaxLinks) return "";
    done = target[0] == '/' ? "" : folder;
    push_reversed(todo, {target, static_cast<size_t>(length)});
  }
  return done.empty() ? "/" : done;
}

std::optional<std::string> HostFiles::text(std::string_view path) const {
  const std::string place = resolve(path);
  if (place.empty()) return std::nullopt;
  // Not blocking: a copy may hold a FIFO.
  const UniqueFd fd(::open((root_ + place).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  struct stat status {};
  if (!fd || fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  std::string contents(kMaxText, '\0');
  size_t size = 0;
  while (size < kMaxText) {
    const ssize_t got = read(fd.get(), contents.data() + size, kMaxText - size);
    if (got < 0 && errno == EINTR) continue;
    // Attributes of links that are down cannot be read (EINVAL).
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  contents.resize(size);
  if (contents.find('\0') != std::string::npos) return std::nullopt;
  contents.resize(contents.find_last_not_of(" \t\r\n") + 1);
  return contents;
}

std::optional<int64_t> HostFiles::number(std::string_view path) const {
  const auto contents = text(path);
  return contents ? parse_number(*contents) : std::nullopt;
}

std::vector<std::string> HostFiles::names(std::string_view path) const {
  std::vector<std::string> all;
  const std::string place = resolve(path);
  if (place.empty()) return all;
  std::error_code error;
  std::filesystem::directory_iterator entry(root_ + place, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    all.push_back(entry->path().filename().string());
  std::sort(all.begin(), all.end(), natural_less);
  return all;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::optional<int64_t> parse_number(std::string_view text) {
  const bool hexadecimal = text.substr(0, 2) == "0x";
  if (hexadecimal) text.remove_prefix(2);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, hexadecimal ? 16 : 10);
  if (error != std::errc() || end != text.data() + text.size() || (hexadecimal && value < 0)) return std::nullopt;
  return value;
}

std::optional<CpuMask> parse_cpu_list(std::string_view text) {
  CpuMask mask;
  int64_t before = -1;  // lists rise: so nobody's list makes this take long
  for (const std::string_view range : split(text, ',')) {
    const size_t dash = range.find('-');
    const auto first = parse_number(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_number(range.substr(dash + 1));
    if (!first || !last || *first <= before || *first > *last || *last >= CpuMask::kMaxCpus) return std::nullopt;
    before = *last;
    for (int64_t cpu = *first; cpu <= *last; ++cpu) mask.set(static_cast<int>(cpu));
  }
  return mask;
}

}  // namespace ronde::topo
