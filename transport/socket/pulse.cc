#include "transport/socket/pulse.h"

#include <sys/timerfd.h>
#include <unistd.h>
#include <cerrno>
#include <map>
#include <mutex>

#include <fmt/core.h>

#include "base/fd.h"

namespace ronde::net {
namespace {

struct Pulses {
  std::mutex mutex;
  std::map<pid_t, std::weak_ptr<Pulse>> by_process;  // what a forked child has inherited is closed
};
Pulses& pulses() {
  static Pulses* one = new Pulses;  // never destroyed: communicators may live while the process exits
  return *one;
}

}  // namespace

Result<std::shared_ptr<Pulse>> Pulse::of_process() {
  Pulses& all = pulses();
  const std::lock_guard lock(all.mutex);
  std::weak_ptr<Pulse>& known = all.by_process[getpid()];
  if (std::shared_ptr<Pulse> there = known.lock()) return there;
  auto made = std::make_shared<Pulse>();
  made->timer_ = BootFd(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!made->timer_) {
    return system_failure(errno, fmt::format("making a timer of the network Socket ({})", descriptor_use()),
                          "raise `ulimit -n` if it is the descriptors", Scope::communicator);
  }
  known = made;
  return made;
}

void Pulse::ask() {
  const uint64_t now = now_ns();
  uint64_t due = due_.load(std::memory_order_relaxed);
  if (due > now || !due_.compare_exchange_strong(due, now + kPause, std::memory_order_relaxed)) return;  // one is to come
  const itimerspec once{{}, {static_cast<time_t>(kPause / kSecond), 0}};
  timerfd_settime(timer_.get(), 0, &once, nullptr);
}

}  // namespace ronde::net
