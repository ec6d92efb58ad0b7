// Ranks as threads for tests of the bootstrap.
#pragma once

#include <dirent.h>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/config.h"
#include "base/thread.h"
#include "boot/bootstrap.h"
#include "boot/join.h"

namespace ronde::test {

using Settings = std::map<std::string, std::string>;

/// The defaults with `settings` (RONDE_ names) on top; nothing of the environment.
inline std::shared_ptr<const Config> config_of(const Settings& settings = {}) {
  return std::make_shared<const Config>(read_config(
      [&](const char* name) {
        const auto at = settings.find(name);
        return at == settings.end() ? nullptr : at->second.c_str();
      },
      {}, nullptr));
}

using Joined = Result<std::unique_ptr<Bootstrap>>;

/// Runs body(i) for i < n on threads of their own.
inline void run_threads(int n, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < n; ++i) threads.emplace_back([&body, i] { body(i); });
  for (std::thread& thread : threads) thread.join();
}

/// What threads found wrong, to be checked by the test's own thread: Catch's assertions are for one thread.
class Findings {
 public:
  void expect(bool right, const std::string& what) {
    if (right) return;
    const std::lock_guard lock(mutex_);
    wrong_.push_back(what);
  }
  /// An error is expected, with this code and this part in its text.
  template <class T>
  void expect_error(const Result<T>& result, Code code, const std::string& part) {
    const std::string text = result.ok() ? "success" : result.error().what;
    expect(result.code() == code && text.find(part) != std::string::npos,
           "expected code " + std::to_string(static_cast<int>(code)) + " with \"" + part + "\", got: " + text);
  }
  std::vector<std::string> wrong() const { return wrong_; }

 private:
  std::mutex mutex_;
  std::vector<std::string> wrong_;
};

/// How the ranks of a test find each other: in one process, or as players that use unix sockets or TCP.
enum class Path { in_process, unix_socket, tcp, mixed };

inline JoinHooks hooks_of(Path path, int rank) {
  JoinHooks hooks;
  if (path == Path::unix_socket || path == Path::tcp) hooks.player = "player" + std::to_string(rank);
  if (path == Path::mixed) hooks.player = "player" + std::to_string(rank / 2);
  hooks.unix_sockets = path != Path::tcp;
  return hooks;
}

/// Over TCP all on this machine is one host, so players say that they are on different ones.
inline Settings settings_of(Path path, int rank, Settings more = {}) {
  if (path == Path::tcp) {
    more.insert({"RONDE_HOSTID", "host" + std::to_string(rank)});
    more.insert({"RONDE_SOCKET_IFNAME", "lo"});
  }
  return more;
}

/// Makes a communicator of n ranks and runs body on each; returns what join returned where it failed.
inline std::vector<std::string> run_ranks(int n, Path path, const std::function<void(Bootstrap&)>& body,
                                          const Settings& more = {}) {
  std::vector<std::string> errors(static_cast<size_t>(n));
  const auto id = make_unique_id(*config_of(settings_of(path, 0, more)), hooks_of(path, 0));
  if (!id.ok()) return {id.error().what};
  run_threads(n, [&](int rank) {
    JoinRequest request{rank, n, {*id}};
    Joined joined = join(request, config_of(settings_of(path, rank, more)), nullptr, hooks_of(path, rank));
    if (joined.ok()) body(**joined);
    if (!joined.ok()) errors[static_cast<size_t>(rank)] = joined.error().what;
  });
  std::erase(errors, "");
  return errors;
}

/// Each rank gives its number and a check value; true if all came as they should.
inline bool gathers(Bootstrap& boot) {
  std::vector<uint64_t> all(static_cast<size_t>(boot.size()) * 2);
  all[static_cast<size_t>(boot.rank()) * 2] = static_cast<uint64_t>(boot.rank());
  all[static_cast<size_t>(boot.rank()) * 2 + 1] = static_cast<uint64_t>(boot.rank()) * 1000003u + 7;
  if (!boot.all_gather(std::as_writable_bytes(std::span(all))).ok()) return false;
  for (size_t i = 0; i < all.size() / 2; ++i) {
    if (all[i * 2] != i || all[i * 2 + 1] != i * 1000003u + 7) return false;
  }
  return true;
}

inline int open_descriptors() {
  int count = 0;
  if (DIR* dir = opendir("/proc/self/fd")) {
    while (readdir(dir) != nullptr) ++count;
    closedir(dir);
  }
  return count - 3;
}

/// Looks again until `value()` is at most `wanted` or five seconds have passed; the last value. It may fall below: an init that
/// failed in an earlier test keeps its root for a while.
inline int settled(const std::function<int()>& value, int wanted) {
  const Deadline limit = Deadline::in(5);
  while (value() > wanted && !limit.passed()) std::this_thread::yield();
  return value();
}

}  // namespace ronde::test
