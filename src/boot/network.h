// The one thread of a process that answers for its bootstraps: accepts, connects, shakes hands, reads. Asleep in poll()
// otherwise.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "boot/address.h"
#include "boot/link.h"
#include "boot/listen.h"

namespace ronde {

class Node;
class NetworkLoop;

/// An attempt to reach a process by any of its addresses. Made by a caller, then the loop thread's alone.
struct Dial {
  std::weak_ptr<Family> family;
  uint64_t key = 0;     ///< what the family calls the peer: its process number, 0 for the root at a fixed address
  uint64_t target = 0;  ///< the process that must answer; 0: any that knows the id
  bool unix_first = false;
  std::vector<Address> tcp;
  uint64_t deadline = UINT64_MAX;  ///< now_ns; gives up then
  uint64_t patience = 0;           ///< ns after which refusals alone are believed

  enum class Phase : uint8_t { start, unix_tried, tcp_tried };
  Phase phase = Phase::start;
  std::vector<std::shared_ptr<Link>> attempts;
  uint64_t next_try = 0;
  uint64_t pause = 0;
  uint64_t began = 0;
  bool refused = true;  ///< this round, every address has said no
  bool over = false;
  std::string troubles;
};

/// A TCP listener that stays open for as long as somebody holds this.
struct Lease {
  uint16_t port = 0;
  std::shared_ptr<NetworkLoop> loop;
  ~Lease();
};

/// Owns the loop thread. When the last holder lets go, all connections close and the thread ends.
class Network {
 public:
  /// Starts the thread and listens on the process's unix socket.
  static Result<std::shared_ptr<Network>> start(const std::shared_ptr<Node>& node);
  explicit Network(std::shared_ptr<Node> node);
  ~Network();

  void dial(std::shared_ptr<Dial> dial);
  std::shared_ptr<Lease> listen(Listening listening);
  /// Runs `action` on the loop thread after `seconds`, unless the network ends before.
  void after(double seconds, std::function<void()> action);
  /// Returns when the loop has dropped what nobody holds any more. No effect on the loop thread itself.
  void sync();

 private:
  std::shared_ptr<Node> node_;
  std::shared_ptr<NetworkLoop> loop_;
  std::thread thread_;
};

}  // namespace ronde
