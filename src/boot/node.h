// This process, as the bootstrap sees it: its number, its listeners, the unique ids that it knows.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/config.h"
#include "base/result.h"
#include "boot/family.h"
#include "boot/link.h"
#include "boot/network.h"
#include "boot/root.h"

namespace ronde {

/// There is one Node in a process, except where communicators are configured with different port ranges or address families (each
/// combination listens for itself), and in tests that let threads play processes. Nodes treat each other as processes do.
class Node : public std::enable_shared_from_this<Node> {
 public:
  /// The node of `config`; `player` is "" except in tests, where different names are different processes.
  static Result<std::shared_ptr<Node>> get(const std::string& player, const Config& config);
  Node(uint64_t process, std::string family, PortRange ports);

  /// Random and never 0: names the process, and its unix socket.
  uint64_t process() const { return process_; }
  /// The network, started if nobody holds it yet. It lives as long as somebody does.
  Result<std::shared_ptr<Network>> network();
  std::shared_ptr<Network> live_network();
  /// The TCP listener, opened if nobody holds it yet.
  Result<std::shared_ptr<Lease>> tcp(Network& network);
  /// What others need to find this process; TCP addresses where `listener` is given.
  Place place(const Config& config, const Lease* listener) const;

  /// The family of a secret, made if there is none.
  std::shared_ptr<Family> family(const Secret& secret);
  /// What to answer one who asks for this id.
  LinkHost::Knowledge know(const PublicId& id);
  /// Names a rank that has not joined yet.
  uint64_t next_ticket() { return tickets_.fetch_add(1, std::memory_order_relaxed); }  // only uniqueness matters

  /// Called by the Network when it is gone.
  void network_ended();

 private:
  const uint64_t process_;
  const std::string address_family_;
  const PortRange ports_;
  std::atomic<uint64_t> tickets_{1};

  std::mutex mutex_;
  std::condition_variable network_gone_;
  int networks_ = 0;  // alive or being taken down; the unix name is free only when there is none
  std::weak_ptr<Network> network_;
  std::map<PublicId, std::weak_ptr<Family>> families_;

  std::mutex tcp_mutex_;  // not mutex_: the loop, which is waited for under it, takes that one
  std::weak_ptr<Lease> tcp_;
};

/// The root of an id, if the node numbered `process` serves it or has served it.
std::shared_ptr<Root> find_root(const PublicId& id, uint64_t process);
/// False if that node has one for the id already.
bool add_root(const PublicId& id, uint64_t process, const std::shared_ptr<Root>& root);
void remove_root(const PublicId& id, uint64_t process);

}  // namespace ronde
