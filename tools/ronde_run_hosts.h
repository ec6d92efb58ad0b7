// Hosts that are network namespaces of this machine, joined by links through switches: for jobs and tests that need several.
#pragma once

#include <string>
#include <vector>

namespace ronde::run {

inline constexpr int kMostRails = 16;

/// The ranks of each host, ascending.
using Split = std::vector<std::vector<int>>;
/// Reads "2" (hosts; the ranks in order, as evenly as can be) or "0,2/1", "0-6/7-14" (ranks of each host). "" or what is wrong.
std::string read_split(const std::string& text, int ranks, Split& split);

/// What lies between each host and the switches.
struct Links {
  std::vector<double> rates{0};  ///< of each rail, bits per second in each direction; 0: as fast as goes
  double delay = 0;              ///< seconds that a packet is on its way
};
/// `rails` 0: as many as there are rates, at least one; `rate` and `delay` may be null. "" or what is wrong.
std::string read_links(int rails, const char* rate, const char* delay, Links& links);

/// A network namespace without a name: it ends, with all that is in it, when its last process and this have gone.
class NetSpace {
 public:
  NetSpace() = default;
  NetSpace(NetSpace&& other) noexcept;
  NetSpace& operator=(NetSpace&& other) noexcept;
  ~NetSpace();

  /// "" or why none can be made, and what to do about it.
  std::string make();
  /// Runs a command (found by PATH) inside and waits for it; "" or what went wrong, its standard error included. Other commands'
  /// arguments may name this space as path_in_commands().
  std::string run(const std::vector<std::string>& command, const std::vector<const NetSpace*>& named = {}) const;
  std::string path_in_commands() const;
  /// Takes the calling thread in; false: errno.
  bool enter() const;
  int descriptor() const { return fd_; }

 private:
  int fd_ = -1;
};

/// For a process of its own (after fork): takes it into the space, with a /sys that shows the space's interfaces. "" or what went
/// wrong.
std::string move_into(const NetSpace& space);

/// Hosts 0, 1, ..., each with interfaces eth0, eth1, ... (one for each rail) at the addresses that address() gives.
class HostNet {
 public:
  /// "" or what went wrong; nothing is left then.
  std::string make(int hosts, const Links& links);
  const NetSpace& host(int host) const { return hosts_[static_cast<size_t>(host)]; }
  /// Where the other ends of the links are: hHOST.RAIL, each in the bridge brRAIL.
  const NetSpace& between() const { return between_; }
  static std::string address(int host, int rail);

 private:
  std::string make_host(int host, const Links& links);
  std::string shape(int host, int rail, double rate, double delay);

  NetSpace between_;
  std::vector<NetSpace> hosts_;
};

}  // namespace ronde::run
