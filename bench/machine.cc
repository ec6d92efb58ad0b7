#include "bench/machine.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <limits>
#include <sstream>

namespace ronde::bench {
namespace {

/// The number at the start of a file; nothing where there is none ("max").
bool read_number(const std::string& path, size_t& value) {
  std::ifstream file(path);
  return static_cast<bool>(file >> value);
}

/// What one control group's limit leaves, for version 2 and 1.
size_t left_by_group(const std::string& folder, const char* limit_file, const char* usage_file) {
  size_t limit = 0;
  size_t used = 0;
  if (!read_number(folder + limit_file, limit) || !read_number(folder + usage_file, used))
    return std::numeric_limits<size_t>::max();
  return limit > used ? limit - used : 0;
}

size_t left_by_groups() {
  size_t least = std::numeric_limits<size_t>::max();
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t path_at = line.rfind(':') + 1;
    // A container sees its own group as the root, whatever its path says: look at both.
    for (const std::string& path : {line.substr(path_at), std::string()}) {
      if (line.starts_with("0::")) {
        least = std::min(least, left_by_group("/sys/fs/cgroup" + path + "/", "memory.max", "memory.current"));
      } else if (line.find(":memory:") != std::string::npos) {
        least = std::min(least,
                         left_by_group("/sys/fs/cgroup/memory" + path + "/", "memory.limit_in_bytes", "memory.usage_in_bytes"));
      }
    }
  }
  return least;
}

std::string formatted_time(const char* format) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 64> text{};
  const size_t length = std::strftime(text.data(), text.size(), format, &local);
  return {text.data(), length};
}

}  // namespace

std::string host_name() {
  utsname names{};
  if (uname(&names) != 0) return "unknown";
  const std::string name = names.nodename;
  return name.substr(0, name.find('.'));
}

std::string host_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return host_name() + " " + boot;
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  utsname names{};
  return uname(&names) == 0 ? std::string(names.machine) + " CPU" : "CPU";
}

size_t available_memory() {
  std::ifstream file("/proc/meminfo");
  size_t available = std::numeric_limits<size_t>::max();
  for (std::string line; std::getline(file, line);) {
    std::string name;
    size_t kilobytes = 0;
    if (std::istringstream(line) >> name >> kilobytes && name == "MemAvailable:") available = kilobytes * 1024;
  }
  return std::min(available, left_by_groups());
}

std::string time_of_day() { return formatted_time("%H:%M:%S"); }
std::string date_and_time() { return formatted_time("%Y-%m-%dT%H:%M:%S%z"); }

}  // namespace ronde::bench
