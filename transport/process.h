// What ranks of one process share: the identity by which others know it, and the arenas that its ranks have made.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "base/result.h"

namespace ronde {

class Arena;
namespace shm {
class Hub;
}

/// 128 random bits: the name of a process or an arena, or a secret.
using Id = std::array<uint64_t, 2>;
Result<Id> random_id();

class Process : public std::enable_shared_from_this<Process> {
 public:
  /// The calling process. Never destroyed.
  static Result<std::shared_ptr<Process>> current();
  /// A process in name only, for tests: its ranks see all others as processes of their own.
  static Result<std::shared_ptr<Process>> pretend();
  ~Process();

  const Id& id() const { return id_; }
  /// Lets peers find `arena` by its name as long as it exists.
  void publish(const Id& name, const std::shared_ptr<Arena>& arena);
  /// nullptr where there is none (any more).
  std::shared_ptr<Arena> find(const Id& name);
  /// All peers have mapped `arena`: its descriptor is closed.
  void seal(Arena& arena);
  /// The links of this process to others.
  shm::Hub& hub() { return *hub_; }

 private:
  explicit Process(const Id& id);
  Id id_;
  std::mutex mutex_;  // guards arenas_
  std::map<Id, std::weak_ptr<Arena>> arenas_;
  std::unique_ptr<shm::Hub> hub_;
};

}  // namespace ronde
