#include "base/bell.h"

#include <cerrno>
#include <climits>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ronde {
namespace {

// Not FUTEX_PRIVATE: the word may be shared between processes.
long futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation, value, timeout, nullptr, 0);
}

}  // namespace

void ring(Bell& bell) {
  // seq_cst: pairs with the store in prepare(); ordered after the caller's seq_cst store of what changed.
  if (bell.sleeping.load(std::memory_order_seq_cst) == 0) return;
  bell.word.fetch_add(1, std::memory_order_seq_cst);  // pairs with the futex's compare in sleep()
  futex(bell.word, FUTEX_WAKE, INT_MAX, nullptr);
}

uint32_t prepare(Bell& bell) {
  const uint32_t seen = bell.word.load(std::memory_order_seq_cst);
  bell.sleeping.store(1, std::memory_order_seq_cst);  // pairs with the load in ring()
  return seen;
}

bool sleep(Bell& bell, uint32_t prepared, uint64_t timeout_ns) {
  const timespec timeout{static_cast<time_t>(timeout_ns / 1'000'000'000u), static_cast<long>(timeout_ns % 1'000'000'000u)};
  const long rc = futex(bell.word, FUTEX_WAIT, prepared, &timeout);
  const bool timed_out = rc != 0 && errno == ETIMEDOUT;
  bell.sleeping.store(0, std::memory_order_relaxed);  // owner only; a late ring costs one needless wake
  return !timed_out;
}

void cancel(Bell& bell) { bell.sleeping.store(0, std::memory_order_relaxed); }

}  // namespace ronde
