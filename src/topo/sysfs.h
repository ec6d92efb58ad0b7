// The files below a root in which Linux describes a host, /sys and /proc: the running host's or a copy of another's. Whatever is
// missing, unreadable or no text is nothing to the caller, never an error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "topo/machine.h"

namespace ronde::topo {

/// Paths are absolute as the host itself sees them ("/sys/class/net"). Symbolic links are followed inside the root only, as if
/// the root were the host's "/".
class HostFiles {
 public:
  /// `root`: "" or "/" for the running host. An error where that is no folder.
  static Result<HostFiles> open(const std::string& root);

  /// True where the root is the running host's own.
  bool running() const { return running_; }
  /// The path without symbolic links; "" where nothing is there, or links lead in circles.
  std::string resolve(std::string_view path) const;
  /// Contents of a regular file, without blanks at the end; of long ones the first 64 KiB. Nothing where a zero byte is in it.
  std::optional<std::string> text(std::string_view path) const;
  /// The file's number, decimal or hexadecimal after 0x.
  std::optional<int64_t> number(std::string_view path) const;
  /// What a folder holds, "eth2" before "eth10".
  std::vector<std::string> names(std::string_view path) const;

 private:
  HostFiles(std::string root, bool running) : root_(std::move(root)), running_(running) {}

  /// Goes on with `path` from `done`, which has no links.
  std::string walk(std::string done, std::string_view path) const;

  std::string root_;
  bool running_;
  // Files are read folder by folder.
  mutable std::string last_folder_;
  mutable std::string last_place_;  ///< last_folder_ without links; "" where it is not there
};

/// The parts of a text between separators, without empty ones.
std::vector<std::string_view> split(std::string_view text, char separator);
std::vector<std::string_view> split(std::string&& text, char separator) = delete;  ///< the parts would outlive it
/// All of `text` as a number, decimal or hexadecimal after 0x.
std::optional<int64_t> parse_number(std::string_view text);
/// "0-3,8", as Linux lists CPUs; "" is the empty set. Nothing for any other text and for CPUs beyond CpuMask::kMaxCpus.
std::optional<CpuMask> parse_cpu_list(std::string_view text);

}  // namespace ronde::topo
