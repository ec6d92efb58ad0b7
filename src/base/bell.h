// The Bell: how a thread that has nothing to do is woken by any of the things it waits for.
#pragma once

#include <atomic>
#include <cstdint>

namespace ronde {

/// Lives in memory that everybody who may ring it can reach (shared between processes). Zeroed memory is a silent Bell.
///
/// The rule that loses no wake-up: a ringer stores what changed with seq_cst and then calls ring(); a sleeper calls
/// prepare(), then looks again at all it waits for (seq_cst loads), then calls sleep() only if there is still nothing.
/// Either the ringer sees `sleeping`, or the sleeper sees the change.
struct alignas(64) Bell {
  std::atomic<uint32_t> word{0};      ///< futex; changes with every ring that wakes
  std::atomic<uint32_t> sleeping{0};  ///< 1 between prepare() and the end of sleep()
};
static_assert(sizeof(Bell) == 64 && std::atomic<uint32_t>::is_always_lock_free);

/// Wakes the owner if it sleeps or is about to. Costs one load otherwise.
void ring(Bell& bell);

/// Announces that the calling thread, the Bell's owner, is about to sleep. The value goes to sleep().
uint32_t prepare(Bell& bell);
/// Sleeps until rung or for `timeout_ns`. True if rung (or interrupted), false after the time.
bool sleep(Bell& bell, uint32_t prepared, uint64_t timeout_ns);
/// Takes prepare() back: there is something to do after all.
void cancel(Bell& bell);

}  // namespace ronde
