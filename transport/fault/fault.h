// A network that wraps another and goes wrong on order, so that tests see what happens then. Nothing but tests makes one.
#pragma once

#include <array>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "transport/net/net.h"

namespace ronde::net {

/// Where something goes wrong. The first four are counted by connections, the others by messages, whatever connection they belong
/// to.
enum class FaultAt : uint8_t { listen, connect, accept, ready, send, sent, room, received, count_ };

enum class FaultKind : uint8_t {
  error,    ///< fails with `errno_value`; the connection stays broken
  cut,      ///< the connection itself ends, so that the other end notices; here as error
  stall,    ///< nothing more comes of it, and nobody is told
  delay,    ///< takes `delay_ns` longer. Of a message, what comes behind it waits too
  drop,     ///< `send`: the message is said to have been sent, and was not. Elsewhere as stall
  shorten,  ///< `send`, `received`: the message has `bytes` bytes only, if it has more. Elsewhere nothing
};

/// One order: `after` of what is counted at `at` pass, then it strikes `times` of them.
struct Fault {
  FaultAt at = FaultAt::send;
  FaultKind kind = FaultKind::error;
  uint64_t after = 0;
  uint64_t times = 1;
  int errno_value = ECONNRESET;
  uint64_t delay_ns = 0;
  size_t bytes = 0;
};

/// What a test orders, at any time. Thread-safe.
class FaultPlan {
 public:
  void order(const Fault& fault);
  /// How many have been counted there, struck or not.
  uint64_t seen(FaultAt at) const;
  /// How often anything has struck.
  uint64_t struck() const;

  /// Counts one; the first order that strikes it.
  std::optional<Fault> next(FaultAt at);

 private:
  mutable std::mutex mutex_;
  std::vector<Fault> orders_;
  std::array<uint64_t, static_cast<size_t>(FaultAt::count_)> seen_{};
  uint64_t struck_ = 0;
};

/// `inner` with the faults of `plan`: its name, its devices, its connections. Handles are its own, so the other side may use it
/// bare.
std::shared_ptr<Net> with_faults(std::shared_ptr<Net> inner, std::shared_ptr<FaultPlan> plan);

}  // namespace ronde::net
