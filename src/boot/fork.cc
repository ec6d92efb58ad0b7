#include "boot/fork.h"

#include <pthread.h>
#include <unistd.h>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace ronde {
namespace {

// A bit per descriptor number, since a child may not walk structures that another thread was changing. Higher numbers stay open
// in children.
constexpr size_t kWords = 1024;
std::atomic<uint64_t> open_fds[kWords];
std::atomic<void (*)()> forget_hook{nullptr};

void mark(int fd, bool open) {
  const size_t word = static_cast<size_t>(fd) / 64;
  if (word >= kWords) return;
  const uint64_t bit = uint64_t{1} << (fd % 64);
  // relaxed: only a forked child reads them all, and fork() itself orders that
  if (open) open_fds[word].fetch_or(bit, std::memory_order_relaxed);
  if (!open) open_fds[word].fetch_and(~bit, std::memory_order_relaxed);
}

void in_child() {
  for (size_t word = 0; word < kWords; ++word) {
    for (uint64_t bits = open_fds[word].exchange(0, std::memory_order_relaxed); bits != 0; bits &= bits - 1) {
      close(static_cast<int>(word * 64) + std::countr_zero(bits));
    }
  }
  if (auto* forget = forget_hook.load(std::memory_order_relaxed)) forget();
}

void watch() {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, in_child); });
}

}  // namespace

BootFd::BootFd(int fd) : fd_(fd) {
  watch();
  if (fd >= 0) mark(fd, true);
}

void BootFd::reset() {
  if (fd_ < 0) return;
  mark(fd_, false);
  close(std::exchange(fd_, -1));
}

void on_fork(void (*forget)()) {
  forget_hook.store(forget, std::memory_order_relaxed);
  watch();
}

}  // namespace ronde
