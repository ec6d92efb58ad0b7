#include "tools/ronde_run_hosts.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>

namespace ronde::run {
namespace {

constexpr int kMostHosts = 250;  // addresses end with the host's number
constexpr const char* kOwnSpace = "/proc/thread-self/ns/net";
constexpr const char* kCgroups = "/sys/fs/cgroup";

std::string failure(const std::string& attempted) {
  return fmt::format("{}: {} (errno {})", attempted, std::strerror(errno), errno);
}

/// The pieces between separators, at least one.
std::vector<std::string_view> pieces(std::string_view text, char separator) {
  std::vector<std::string_view> all;
  for (size_t at = 0; at != std::string_view::npos; at = text.find(separator)) {
    if (!all.empty()) text.remove_prefix(at + 1);
    all.push_back(text.substr(0, text.find(separator)));
  }
  return all;
}

bool whole_number(std::string_view text, int& value) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && stop == text.data() + text.size();
}

struct Unit {
  const char* name;
  double factor;
};

/// A number above 0 with one of `units`.
bool measure(std::string_view text, const std::vector<Unit>& units, double& value) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc{} || !(value > 0) || !std::isfinite(value)) return false;
  const std::string_view unit(stop, static_cast<size_t>(text.data() + text.size() - stop));
  const auto found = std::find_if(units.begin(), units.end(), [&](const Unit& one) { return unit == one.name; });
  if (found == units.end()) return false;
  value *= found->factor;
  return true;
}

/// "3" or "0-6".
bool read_range(std::string_view text, int& first, int& last) {
  const size_t dash = text.find('-');
  if (dash == std::string_view::npos) return whole_number(text, first) && whole_number(text, last);
  return whole_number(text.substr(0, dash), first) && whole_number(text.substr(dash + 1), last);
}

std::string read_lists(const std::string& text, int ranks, Split& split) {
  std::vector<bool> placed(static_cast<size_t>(ranks));
  for (const std::string_view list : pieces(text, '/')) {
    split.emplace_back();
    for (const std::string_view part : pieces(list, ',')) {
      int first = 0, last = -1;
      if (!read_range(part, first, last) || first < 0 || last < first) {
        return fmt::format("--hosts wants a number of hosts, or the ranks of each host as in 0,2/1 or 0-6/7-14; '{}' is neither",
                           part);
      }
      for (int rank = first; rank <= last; ++rank) {
        if (rank >= ranks)
          return fmt::format("--hosts {}: there is no rank {}, with -n {} they end at {}", text, rank, ranks, ranks - 1);
        if (placed[static_cast<size_t>(rank)]) return fmt::format("--hosts {}: rank {} is on two hosts", text, rank);
        placed[static_cast<size_t>(rank)] = true;
        split.back().push_back(rank);
      }
    }
    std::sort(split.back().begin(), split.back().end());
  }
  const auto homeless = std::find(placed.begin(), placed.end(), false);
  if (homeless == placed.end()) return "";
  return fmt::format("--hosts {}: rank {} is on no host", text, homeless - placed.begin());
}

}  // namespace

std::string read_split(const std::string& text, int ranks, Split& split) {
  split.clear();
  int hosts = 0;
  if (!whole_number(text, hosts)) {
    std::string why = read_lists(text, ranks, split);
    if (why.empty() && split.size() > kMostHosts) why = fmt::format("--hosts: {} hosts; at most {}", split.size(), kMostHosts);
    return why;
  }
  if (hosts < 1 || hosts > std::min(ranks, kMostHosts)) {
    return fmt::format("--hosts {}: {} ranks run on 1 to {} hosts", text, ranks, std::min(ranks, kMostHosts));
  }
  for (int host = 0, rank = 0; host < hosts; ++host) {
    split.emplace_back();
    for (int left = ranks / hosts + (host < ranks % hosts ? 1 : 0); left > 0; --left) split.back().push_back(rank++);
  }
  return "";
}

std::string read_links(int rails, const char* rate, const char* delay, Links& links) {
  links.rates.clear();
  for (const std::string_view one : pieces(rate == nullptr ? "" : rate, ',')) {
    links.rates.push_back(0);
    if (rate != nullptr && !measure(one, {{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}}, links.rates.back())) {
      return fmt::format("--rate wants kbit, mbit or gbit per second, as in 100mbit, not '{}'", one);
    }
  }
  if (links.rates.size() == 1 && rails > 1) links.rates.resize(static_cast<size_t>(rails), links.rates[0]);
  if (links.rates.size() > kMostRails || (rails > 0 && links.rates.size() != static_cast<size_t>(rails))) {
    return fmt::format("--rate gives {} rates, for {} rails", links.rates.size(), rails > 0 ? rails : kMostRails);
  }
  links.delay = 0;
  if (delay != nullptr && !measure(delay, {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}}, links.delay)) {
    return fmt::format("--delay wants us, ms or s, as in 1ms, not '{}'", delay);
  }
  return "";
}

NetSpace::NetSpace(NetSpace&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

NetSpace& NetSpace::operator=(NetSpace&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

NetSpace::~NetSpace() {
  if (fd_ >= 0) close(fd_);
}

std::string NetSpace::make() {
  const int before = open(kOwnSpace, O_RDONLY | O_CLOEXEC);
  if (before < 0) return failure(fmt::format("opening {}", kOwnSpace));
  std::string why;
  if (unshare(CLONE_NEWNET) != 0) {
    why = failure("making a network namespace") + (errno == EPERM ? "; run it as root (in a container, with CAP_SYS_ADMIN and "
                                                                    "CAP_NET_ADMIN), or inside `unshare --map-root-user --net`"
                                                                  : "");
  } else {
    fd_ = open(kOwnSpace, O_RDONLY | O_CLOEXEC);
    if (fd_ < 0) why = failure(fmt::format("opening {}", kOwnSpace));
    if (setns(before, CLONE_NEWNET) != 0) why = failure("going back to the own network namespace");
  }
  close(before);
  return why;
}

bool NetSpace::enter() const { return setns(fd_, CLONE_NEWNET) == 0; }

std::string NetSpace::path_in_commands() const { return fmt::format("/proc/self/fd/{}", fd_); }

std::string NetSpace::run(const std::vector<std::string>& command, const std::vector<const NetSpace*>& named) const {
  std::vector<char*> arguments;
  std::string line;
  for (const std::string& one : command) {
    arguments.push_back(const_cast<char*>(one.c_str()));
    line += (line.empty() ? "" : " ") + one;
  }
  arguments.push_back(nullptr);
  const std::string in_sbin = "/usr/sbin/" + command[0];  // where not everybody's PATH leads
  std::array<int, 2> errors = {-1, -1};
  if (pipe2(errors.data(), O_CLOEXEC) != 0) return failure("pipe");
  const pid_t pid = fork();
  if (pid == 0) {  // other threads may have held any lock: system calls alone
    for (const NetSpace* one : named) fcntl(one->fd_, F_SETFD, 0);
    dup2(errors[1], STDERR_FILENO);
    if (!enter()) _exit(126);
    execvp(arguments[0], arguments.data());
    if (errno == ENOENT) execv(in_sbin.c_str(), arguments.data());
    _exit(errno == ENOENT ? 127 : 126);
  }
  close(errors[1]);
  std::string said;
  std::array<char, 512> bytes;
  for (ssize_t got = 1; pid > 0 && got > 0;) {
    got = read(errors[0], bytes.data(), bytes.size());
    if (got > 0) said.append(bytes.data(), static_cast<size_t>(got));
    if (got < 0 && errno == EINTR) got = 1;
  }
  close(errors[0]);
  if (pid < 0) return failure("fork");
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
    return fmt::format("there is no program '{}' on the PATH; it comes with the package iproute2", command[0]);
  }
  while (!said.empty() && (said.back() == '\n' || said.back() == ' ')) said.pop_back();
  return fmt::format("`{}` failed: {}", line, said.empty() ? fmt::format("wait status {}", status) : said);
}

std::string move_into(const NetSpace& space) {
  if (!space.enter()) return failure("entering a network namespace");
  if (unshare(CLONE_NEWNS) != 0) return failure("making a mount namespace");
  if (mount("", "/", "none", MS_SLAVE | MS_REC, nullptr) != 0) return failure("keeping mounts to this process");
  // The new /sys hides what is mounted below the old one; the limits of control groups still count.
  const int groups = open(kCgroups, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0)
    return failure("mounting /sys of a network namespace");
  if (groups >= 0) {
    mount(fmt::format("/proc/self/fd/{}", groups).c_str(), kCgroups, nullptr, MS_BIND | MS_REC, nullptr);
    close(groups);
  }
  return "";
}

std::string HostNet::address(int host, int rail) { return fmt::format("10.77.{}.{}", rail, host + 1); }

std::string HostNet::make(int hosts, const Links& links) {
  std::string why = between_.make();
  for (size_t rail = 0; rail < links.rates.size() && why.empty(); ++rail) {
    const std::string bridge = fmt::format("br{}", rail);
    why = between_.run({"ip", "link", "add", bridge, "type", "bridge"});
    if (why.empty()) why = between_.run({"ip", "link", "set", bridge, "up"});
  }
  for (int host = 0; host < hosts && why.empty(); ++host) why = make_host(host, links);
  return why;
}

std::string HostNet::make_host(int host, const Links& links) {
  hosts_.emplace_back();
  const NetSpace& here = hosts_.back();
  std::string why = hosts_.back().make();
  if (why.empty()) why = here.run({"ip", "link", "set", "lo", "up"});
  for (size_t i = 0; i < links.rates.size() && why.empty(); ++i) {
    const int rail = static_cast<int>(i);
    const std::string mine = fmt::format("eth{}", rail), other = fmt::format("h{}.{}", host, rail);
    why = here.run({"ip", "link", "add", mine, "type", "veth", "peer", "name", other, "netns", between_.path_in_commands()},
                   {&between_});
    if (why.empty()) why = between_.run({"ip", "link", "set", other, "master", fmt::format("br{}", rail), "up"});
    if (why.empty()) why = here.run({"ip", "address", "add", address(host, rail) + "/24", "dev", mine});
    if (why.empty()) why = here.run({"ip", "link", "set", mine, "up"});
    if (why.empty()) why = shape(host, rail, links.rates[i], links.delay);
  }
  return why;
}

std::string HostNet::shape(int host, int rail, double rate, double delay) {
  const std::string mine = fmt::format("eth{}", rail), other = fmt::format("h{}.{}", host, rail);
  std::vector<std::string> limit;
  if (rate > 0) {
    // What may pass at once is what comes between two ticks of a slow kernel clock, and a whole large packet; what waits, 20 ms.
    const double burst = std::max(rate / 8 / 250, 128e3);
    limit = {"tbf", "rate", fmt::format("{:.0f}bit", rate), "burst", fmt::format("{:.0f}", burst), "latency", "20ms"};
  }
  const auto add = [](const NetSpace& space, const std::string& device, std::vector<std::string> where,
                      const std::vector<std::string>& what) {
    std::vector<std::string> command = {"tc", "qdisc", "add", "dev", device};
    command.insert(command.end(), where.begin(), where.end());
    command.insert(command.end(), what.begin(), what.end());
    return space.run(command);
  };
  std::string why;
  if (delay > 0) {
    why = add(this->host(host), mine, {"root", "handle", "1:"},
              {"netem", "delay", fmt::format("{:.0f}us", delay * 1e6), "limit", "100000"});
    if (!why.empty()) return why + "; a delay needs the kernel's module sch_netem (`modprobe sch_netem`)";
  }
  if (limit.empty()) return "";
  why = add(this->host(host), mine, delay > 0 ? std::vector<std::string>{"parent", "1:1"} : std::vector<std::string>{"root"},
            limit);
  if (why.empty()) why = add(between_, other, {"root"}, limit);
  return why;
}

}  // namespace ronde::run
