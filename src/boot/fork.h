// Sockets that a forked child must not keep: a copy in a child would hide the parent's death from its peers.
#pragma once

#include <utility>

namespace ronde {

/// A descriptor that closes itself, and that is closed at once in every child made by fork().
class BootFd {
 public:
  BootFd() = default;
  explicit BootFd(int fd);
  BootFd(BootFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  BootFd& operator=(BootFd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~BootFd() { reset(); }
  void reset();
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// Makes `forget` run in every child made by fork(), after its copies of all BootFds were closed. Called once. `forget` may only
/// store to atomics: the child has one thread, and other threads of the parent may have held any lock.
void on_fork(void (*forget)());

}  // namespace ronde
