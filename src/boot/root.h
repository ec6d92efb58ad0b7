// The root of a unique id: where all ranks of one communicator meet. It checks that they agree and introduces them to each other.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "boot/address.h"
#include "boot/link.h"
#include "boot/messages.h"
#include "boot/network.h"
#include "boot/siphash.h"
#include "boot/wire.h"

namespace ronde {

class Family;

/// Has no thread of its own: it acts when a rank speaks, in the loop thread or in the thread of a rank of the same process.
class Root : public std::enable_shared_from_this<Root> {
 public:
  /// `fixed`: of NCCL_COMM_ID, where one communicator after the other is made.
  Root(const Secret& secret, uint64_t process, bool fixed) : secret_(secret), process_(process), fixed_(fixed) {}

  /// Begins to serve, and keeps what it needs for that until the communicator is made or has failed.
  void serve(std::shared_ptr<Family> family, std::shared_ptr<Network> network, std::vector<std::shared_ptr<Lease>> listeners);
  /// A rank speaks; `link` is null if it is in this process.
  void handle(const FrameHeader& header, std::span<const std::byte> payload, const std::shared_ptr<Link>& link,
              const std::shared_ptr<Family>& family);
  /// The last connection with a process has ended.
  void lost(uint64_t process, const std::string& why);
  /// Stops serving: another id of the same list made the communicator.
  void retire();

  const Secret& secret() const { return secret_; }

 private:
  enum class Phase : uint8_t { gathering, listening, introducing, made, failed };
  struct Claim {
    int rank;
    uint64_t ticket;
    Place place;
    std::shared_ptr<Link> link;  // null: local
    std::weak_ptr<Family> family;
    bool ready = false;  // its Place is complete
    bool done = false;
    bool left = false;  // it will not hear us
  };
  /// Freed after the lock is given back, since their destructors wait for the loop.
  struct Resources {
    std::shared_ptr<Family> family;
    std::shared_ptr<Network> network;
    std::vector<std::shared_ptr<Lease>> listeners;
    std::vector<Claim> claims;
  };

  // All with mutex_ held:
  void on_join(const FrameHeader& header, std::span<const std::byte> payload, Claim claim);
  std::optional<Error> objection(const JoinMessage& join, const Claim& claim, const FrameHeader& header) const;
  void all_came();
  void introduce();
  void on_expired(const Claim& claim, std::span<const std::byte> payload);
  Claim* find(uint64_t ticket, const std::shared_ptr<Link>& link);
  void fail_all(Error error);
  void reply(const Claim& claim, const Reply& reply) const;
  void refuse(const Claim& claim, const Error& error) const;
  void release();

  const Secret secret_;
  const uint64_t process_;
  const bool fixed_;

  std::mutex mutex_;
  Phase phase_ = Phase::gathering;
  JoinMessage first_;  // the others must agree with it
  int first_rank_ = -1;
  int most_ranks_ = 0;  // the largest number that anybody named
  int arrivals_ = 0;
  Error error_;
  Resources held_;
  Resources freed_;
};

/// "rank 3 (process 12 on host a)".
std::string who(int rank, const Place& place);

}  // namespace ronde
