// What the ranks of one process share for one unique id and the communicators that came of it: mailboxes, and one connection per
// peer process.
#pragma once

#include <compare>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "boot/address.h"
#include "boot/link.h"
#include "boot/mailbox.h"
#include "boot/unique_id.h"
#include "boot/wire.h"

namespace ronde {

class Node;

/// A process to be reached.
struct Target {
  uint64_t key = 0;  ///< its number; 0 for the root at a fixed address
  Place place;
  bool unix_first = false;
  double believe_refusal = 0;  ///< seconds after which "connection refused" is taken for its death; < 0: never
};

/// Thread-safe. Lives as long as a Bootstrap of it, an init under way, or its root.
class Family : public std::enable_shared_from_this<Family> {
 public:
  Family(std::shared_ptr<Node> node, const Secret& secret);
  /// Closes the connections, and returns when they are closed.
  ~Family();
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;

  const Secret& secret() const { return secret_; }
  const PublicId& id() const { return id_; }

  /// The mailbox of a rank of this process; made when first asked for, since mail may come before the rank. nullptr once it was
  /// closed.
  std::shared_ptr<Mailbox> mailbox(const Token& token, int rank);
  void close_mailbox(const Token& token, int rank);

  /// The connection to a process, made if there is none. Blocks within `patience`. remote_error says why it cannot be reached.
  Result<std::shared_ptr<Link>> reach(const Target& target, const Patience& patience);
  /// Sends over the connection to a process. Never blocks: while one is being made, for `patience` at most, what is posted waits
  /// here. Why the process is gone, if it is; what was posted is lost then.
  std::optional<Error> post(const Target& target, const FrameHeader& header, std::span<const std::byte> payload,
                            const Patience& patience);
  /// Behind what was posted, if there is a connection or posts wait for one; lost otherwise.
  void send_last(uint64_t key, const FrameHeader& header, std::span<const std::byte> payload);
  /// Begins to make a connection, so that the peer's death will be noticed.
  void watch(const Target& target);
  /// The connection if there is one.
  std::shared_ptr<Link> linked(uint64_t key);
  /// Why the process cannot be reached any more; nullopt while nothing is known against it.
  std::optional<Error> gone(uint64_t key);
  /// The process was heard of: forget what was held against it. What served at a fixed address (0) may be another process now.
  void renew(uint64_t key);

  // Called by the loop thread:
  void link_begun(uint64_t process);
  void link_up(const std::shared_ptr<Link>& link);
  void link_closed(const Link& link, bool was_up);
  void dial_won(uint64_t key, const std::shared_ptr<Link>& link);
  void dial_trouble(uint64_t key, const std::string& text);  ///< a round has failed, another will come
  void dial_ended(uint64_t key, Error error);
  void deliver(const FrameHeader& header, std::span<const std::byte> payload, const std::shared_ptr<Link>& link);

 private:
  struct Peer {
    std::shared_ptr<Link> out;  ///< where we send; never changes while it lives, so that messages keep their order
    int links = 0;              ///< connections with this process, those that still shake hands included
    bool was_up = false;
    bool dialling = false;
    std::string trouble;  ///< of the last attempt
    std::optional<Error> gone;
    std::vector<std::pair<FrameHeader, Bytes>> waiting;  ///< posts, until there is `out`
  };
  struct MailKey {
    Token token;
    int rank;
    auto operator<=>(const MailKey&) const = default;
  };

  void dial(Peer& peer, const Target& target, const Patience& patience);  // mutex_ held
  std::vector<std::shared_ptr<Mailbox>> all_boxes();
  void touch_all();
  void tell_lost(uint64_t process, const Error& why);

  const std::shared_ptr<Node> node_;
  const Secret secret_;
  const PublicId id_;

  std::mutex mutex_;
  std::condition_variable changed_;  // a Peer has changed
  std::map<uint64_t, Peer> peers_;
  std::map<MailKey, std::shared_ptr<Mailbox>> boxes_;
  std::set<MailKey> closed_;  // so that late mail does not make them again
  std::deque<MailKey> closed_order_;
};

}  // namespace ronde
