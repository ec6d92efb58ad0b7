#include "transport/monitor.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <array>
#include <cerrno>

#include "base/fd.h"
#include "base/thread.h"

namespace ronde {
namespace {

Error descriptor_failure(const char* attempted) {
  return system_failure(errno, std::string(attempted) + " (" + descriptor_use() + ")",
                        "raise `ulimit -n` if it is the descriptors", Scope::process);
}

}  // namespace

Result<std::shared_ptr<Monitor>> Monitor::start(After after) {
  std::shared_ptr<Monitor> monitor(new Monitor);
  monitor->after_ = std::move(after);
  monitor->epoll_ = BootFd(epoll_create1(EPOLL_CLOEXEC));
  if (!monitor->epoll_) return descriptor_failure("making the monitor's epoll descriptor");
  monitor->event_ = BootFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!monitor->event_) return descriptor_failure("making the monitor's event descriptor");
  epoll_event event{.events = EPOLLIN, .data = {.u64 = 0}};
  if (epoll_ctl(monitor->epoll_.get(), EPOLL_CTL_ADD, monitor->event_.get(), &event) != 0) {
    return system_failure(errno, "watching the monitor's event descriptor");
  }
  RONDE_TRY(monitor->thread_, start_thread("ronde-monitor", [monitor] { monitor->run(); }));
  return monitor;
}

Result<> Monitor::watch(int fd, Ready ready) {
  const std::lock_guard lock(mutex_);
  const uint64_t key = next_key_++;
  epoll_event event{.events = EPOLLIN | EPOLLRDHUP, .data = {.u64 = key}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return system_failure(errno, "watching a socket with epoll");
  sources_.emplace(key, Source{fd, std::move(ready)});
  return {};
}

void Monitor::unwatch(int fd) {
  Ready dropped;  // destroyed without the lock: it may hold the last reference to something
  const std::lock_guard lock(mutex_);
  for (auto it = sources_.begin(); it != sources_.end(); ++it) {
    if (it->second.fd != fd) continue;
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
    dropped = std::move(it->second.ready);
    sources_.erase(it);
    return;
  }
}

void Monitor::wake() {
  const uint64_t one = 1;
  // Can only fail when the counter is full, and then the thread is awake anyway.
  [[maybe_unused]] const ssize_t n = write(event_.get(), &one, sizeof one);
}

void Monitor::stop() {
  stopping_.store(true, std::memory_order_seq_cst);  // read after the event that wake() raises
  stopping_.notify_all();
  wake();
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else if (thread_.joinable()) {
    thread_.join();
  }
}

void Monitor::dispatch(uint64_t key) {
  if (key == 0) {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t n = read(event_.get(), &count, sizeof count);
    return;
  }
  Ready ready;
  {
    const std::lock_guard lock(mutex_);
    const auto found = sources_.find(key);
    if (found == sources_.end()) return;  // unwatched after the event was reported
    ready = found->second.ready;
  }
  ready();
}

void Monitor::run() {
  std::array<epoll_event, 16> events;
  bool again = false;
  while (!stopping_.load(std::memory_order_seq_cst)) {
    const int n = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), again ? 2 : -1);
    // The process ends with the thread in here, unless a communicator is closed even later, by what was registered before it.
    if (process_exits()) stopping_.wait(false, std::memory_order_seq_cst);
    for (int i = 0; i < n && !stopping_.load(std::memory_order_seq_cst); ++i) dispatch(events[static_cast<size_t>(i)].data.u64);
    if (!stopping_.load(std::memory_order_seq_cst)) again = after_();
  }
}

}  // namespace ronde
