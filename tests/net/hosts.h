// Ranks as processes on hosts that are network namespaces.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "support/catch.h"
#include "tools/ronde_run_hosts.h"

namespace ronde::test {

/// "" where hosts can be made here; else why not.
const std::string& why_no_hosts();

/// In a test case: it is skipped where hosts cannot be made.
#define RONDE_NEED_HOSTS()                                                                                            \
  do {                                                                                                                \
    if (!::ronde::test::why_no_hosts().empty()) RONDE_SKIP("hosts cannot be made: " + ::ronde::test::why_no_hosts()); \
  } while (0)

/// The hosts of a test and the processes on them. `split` as for ronde-run --hosts.
class HostWorld {
 public:
  HostWorld(int ranks, const std::string& split, const run::Links& links = {});
  ~HostWorld();
  HostWorld(const HostWorld&) = delete;

  int ranks() const { return ranks_; }
  int host_of(int rank) const { return host_of_.at(static_cast<size_t>(rank)); }

  /// Runs a command ("ip link set eth0 down") on a host; fails the test where it fails.
  void on_host(int host, const std::string& command);
  /// Sets a value in a host's /proc/sys.
  void set(int host, const std::string& file, const std::string& value);
  /// As on_host where the links' other ends are: h0.0 is that of host 0's eth0, in the bridge br0.
  void between(const std::string& command);
  /// Gives a host another interface, up, with these addresses; its other end leads nowhere.
  void add_interface(int host, const std::string& name, const std::vector<std::string>& addresses);
  /// Takes a host's link out of its switch, so that packets are lost without a word, and puts it back.
  void cut(int host, int rail = 0);
  void mend(int host, int rail = 0);

  /// Runs body(rank) in a process for each rank on its host, and `meanwhile` here; what each returned ("" is good). A process
  /// that takes more than `seconds` is killed: "(no answer)", as from one that dies.
  std::vector<std::string> run(const std::function<std::string(int rank)>& body, const std::function<void()>& meanwhile = nullptr,
                               int seconds = 60);
  /// Runs body in another process on a host until the world ends.
  void accompany(int host, const std::function<void()>& body);

  /// Bytes that one process gives to all, in run(); get() waits for them.
  void put(const void* bytes, size_t size);
  void get(void* bytes, size_t size);
  /// What processes and test count together; 0 when run() begins.
  std::atomic<int>& count(int which) { return shared_->counts[which]; }

 private:
  static constexpr int kMostRanks = 64;
  struct Shared {
    std::atomic<int> counts[8];
    std::atomic<bool> put;
    std::byte bytes[1024];
    struct {
      std::atomic<bool> done;
      char text[2000];
    } answers[kMostRanks];
  };

  const int ranks_;
  std::vector<int> host_of_;
  run::HostNet net_;
  Shared* shared_;
  std::vector<pid_t> companions_;
};

/// Waits until it holds, for `seconds` at most; whether it does.
template <class Condition>
bool comes(Condition condition, double seconds = 30) {
  const Deadline limit = Deadline::in(seconds);
  while (!condition() && !limit.passed()) std::this_thread::yield();
  return condition();
}

}  // namespace ronde::test
