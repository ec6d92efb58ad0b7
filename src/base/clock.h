// Monotonic time.
#pragma once

#include <cstdint>
#include <ctime>

namespace ronde {

/// Nanoseconds of CLOCK_MONOTONIC.
inline uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

inline constexpr uint64_t kMillisecond = 1'000'000;
inline constexpr uint64_t kSecond = 1'000'000'000;

/// A point in time after which something has taken too long.
class Deadline {
 public:
  /// `seconds` from now; 0 or less: never.
  static Deadline in(double seconds) {
    return Deadline(seconds > 0 ? now_ns() + static_cast<uint64_t>(seconds * 1e9) : UINT64_MAX);
  }
  static Deadline never() { return Deadline(UINT64_MAX); }
  bool passed() const { return at_ != UINT64_MAX && now_ns() >= at_; }
  bool bounded() const { return at_ != UINT64_MAX; }
  /// Milliseconds left, for poll(): at least 0, at most `cap`.
  int left_ms(int cap) const {
    if (at_ == UINT64_MAX) return cap;
    const uint64_t now = now_ns();
    if (now >= at_) return 0;
    const uint64_t left = (at_ - now + kMillisecond - 1) / kMillisecond;
    return left < static_cast<uint64_t>(cap) ? static_cast<int>(left) : cap;
  }

 private:
  explicit Deadline(uint64_t at) : at_(at) {}
  uint64_t at_;
};

}  // namespace ronde
