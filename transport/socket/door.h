// The listening socket of a process, through which all connections of the network "Socket" come in: one port, however many are
// awaited. It is there as long as somebody waits. Whoever waits does the work: nobody waits for a stranger, and strangers are
// bounded in number and time.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/config.h"
#include "base/result.h"
#include "boot/fork.h"
#include "transport/socket/ends.h"
#include "transport/socket/greeting.h"

namespace ronde::net {

/// Thread-safe.
class Door {
 public:
  /// The door for RONDE_SOCKET_FAMILY and RONDE_PORT_RANGE, opened if nobody holds it.
  static Result<std::shared_ptr<Door>> of(const Config& config);

  uint16_t port() const { return port_; }
  /// False where the host, or the settings, have no addresses of that family (4 or 6).
  bool admits(uint8_t family) const { return family == 6 ? six_ : four_; }

  /// Begins to wait for a connection whose sender holds `secret`. A new number, which forget() ends.
  Result<uint64_t> await(const Secret& secret, const Buffers& buffers);
  void forget(uint64_t number);
  /// Lets in who stands outside, turns strangers away, and gives the streams of connection `number`, in order, if all have come;
  /// else none. An error where nobody could be let in for kFull, since descriptors or memory are used up.
  Result<std::vector<BootFd>> take(uint64_t number);
  /// To be watched by who waits for `number`: what take() looks at, and that somebody else's take() has let its streams in.
  std::vector<int> descriptors(uint64_t number) const;

  static constexpr size_t kMaxPending = 256;  ///< callers that have not proven themselves; the oldest go when there are more
  static constexpr uint64_t kPatience = 10 * kSecond;
  static constexpr uint64_t kFull = 3 * kSecond;

 private:
  struct Awaited {
    Secret secret{};
    Buffers buffers;
    std::vector<BootFd> streams;  ///< empty until the first comes
    size_t missing = 1;
    BootFd event;
  };
  struct Caller {
    BootFd fd;
    uint64_t until = 0;  // now_ns
    size_t got = 0;
    std::array<std::byte, sizeof(Hello)> bytes{};
  };

  Result<> open(const Config& config);
  // With mutex_ held:
  void accept_all();
  bool accept_one();
  void hear_all();
  bool hear(Caller& caller);  ///< false: the caller goes
  void admit(Caller& caller, const Hello& hello);

  BootFd listening_;
  BootFd epoll_;
  uint16_t port_ = 0;
  bool four_ = false;
  bool six_ = false;

  mutable std::mutex mutex_;  // guards what follows
  std::map<uint64_t, Awaited> awaited_;
  std::map<uint64_t, Caller> callers_;  // by order of coming
  uint64_t next_ = 1;                   // numbers both
  uint64_t full_since_ = 0;             // now_ns since which nobody can be let in; 0: they can
  int full_errno_ = 0;
};

}  // namespace ronde::net
