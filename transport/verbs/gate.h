// One descriptor that stands for several, which may change.
#pragma once

#include <sys/epoll.h>
#include <array>

#include <fmt/core.h>

#include "base/fd.h"
#include "base/result.h"
#include "boot/fork.h"

namespace ronde::net {

/// Shows something, edge-triggered, whenever one of its descriptors does.
class Gate {
 public:
  Gate() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {}
  /// False where the process has no descriptors left.
  bool open() const { return static_cast<bool>(epoll_); }
  int descriptor() const { return epoll_.get(); }
  /// One that is closed goes by itself.
  void add(int fd) const {
    epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data = {}};
    epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);  // fails for one that is there
  }
  /// What has shown is known.
  void clear() const {
    std::array<epoll_event, 8> events;
    while (epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0) == static_cast<int>(events.size())) {
    }
  }

 private:
  BootFd epoll_;
};

/// There is none for `errno_value`.
inline Error no_gate(int errno_value) {
  return system_failure(errno_value, fmt::format("making an epoll descriptor of an RDMA connection ({})", descriptor_use()),
                        "raise `ulimit -n` if it is the descriptors", Scope::communicator);
}

}  // namespace ronde::net
