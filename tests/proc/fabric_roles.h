// What the tests of Fabrics between processes share.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "support/children.h"
#include "support/fabric_world.h"
#include "transport/fabric.h"

namespace ronde::test {

/// Deaths as on_death tells them.
struct Deaths {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<int, std::string> how;
  std::vector<int> order;

  void tell(int rank, const std::string& text) {
    const std::lock_guard lock(mutex);
    how[rank] = text;
    order.push_back(rank);
    changed.notify_all();
  }
  std::string await(int rank) {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, std::chrono::seconds(30), [&] { return how.count(rank) != 0; });
    return how.count(rank) != 0 ? how[rank] : "(no death)";
  }
  size_t count() {
    const std::lock_guard lock(mutex);
    return order.size();
  }
};

/// A Fabric over `bootstrap`, with the default settings and `settings` on top. `deaths` may be null.
inline Result<std::unique_ptr<Fabric>> make(Bootstrap& bootstrap, Deaths* deaths,
                                            const std::map<std::string, std::string>& settings = {}) {
  static AbortWord abort;
  FabricRequest request;
  request.bootstrap = &bootstrap;
  request.config = config_of(settings);
  request.abort = &abort;
  if (deaths != nullptr) request.on_death = [deaths](int rank, const std::string& how) { deaths->tell(rank, how); };
  return Fabric::make(std::move(request));
}

/// Sleeps on `lease` until `done`; false after 30 s.
template <class Done>
bool await(BellLease& lease, Done done) {
  const Deadline deadline = Deadline::in(30);
  while (!done()) {
    if (deadline.passed()) return false;
    const uint32_t prepared = prepare(lease.bell());
    if (done()) {
      cancel(lease.bell());
      return true;
    }
    sleep(lease.bell(), prepared, kSecond);
  }
  return true;
}

/// Says how the role went; the exit code that goes with it.
inline int report(Child& child, const std::string& text) {
  child.say(text);
  return text == "ok" ? 0 : 1;
}

}  // namespace ronde::test
