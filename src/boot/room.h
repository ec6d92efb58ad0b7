// The Bootstrap of one communicator: mailboxes for ranks of this process, connections made on demand for the others.
#pragma once

#include <sys/types.h>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "boot/bootstrap.h"
#include "boot/family.h"
#include "boot/network.h"
#include "boot/node.h"

namespace ronde {

/// What a Room is made of. Order matters at the end: the family closes its connections while the network still runs.
struct RoomParts {
  std::shared_ptr<Node> node;
  std::shared_ptr<Network> network;  ///< null where all ranks are in this process
  std::shared_ptr<Lease> listener;   ///< null where all ranks are on this host
  std::shared_ptr<Family> family;
  std::shared_ptr<const Config> config;
  const AbortWord* abort = nullptr;
  bool unix_sockets = true;
  std::vector<Place> places;  ///< by rank; process 0: not known yet
};

class Room final : public Bootstrap {
 public:
  Room(RoomParts parts, const Token& token, int rank);
  /// Tells the other ranks that this one has left.
  ~Room() override;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(parts_.places.size()); }
  std::array<uint64_t, 2> token() const override { return token_; }
  Result<> all_gather(std::span<std::byte> all) override;
  Result<std::vector<std::vector<std::byte>>> all_gather_parts(std::vector<std::byte> mine) override;
  using Bootstrap::split;
  ChildJob split(int color, int key, const AbortWord* abort, std::function<bool()> stopped) override;
  ChildJob shrink(std::span<const int> survivors, const AbortWord* abort) override;
  void set_deadline(std::optional<Deadline> deadline) override { deadline_ = deadline; }
  std::string describe() const override;
  void listen_posts(OnPost on_post, OnGone on_gone) override;
  Result<> post(int peer, std::span<const std::byte> message) override;

  /// First call after the root's hand-out, which filled in the neighbours' places: learns all others'. `trouble` is asked while
  /// waiting.
  Result<> introduce(std::function<std::optional<Error>()> trouble);

 private:
  using Blobs = std::vector<Bytes>;
  /// One all-gather. `what` and `shape` must be the same on all ranks.
  struct Exchange {
    const char* what = "";
    uint64_t shape = 0;
    Patience patience;
    uint64_t number = 0;  ///< of a split: several may be under way; 0: one after the other
    uint64_t since = now_ns();

    uint64_t tag(uint64_t round) const { return number << kTagBits | round; }
  };
  /// Each rank gives one blob and gets all, in ceil(log2 n) rounds.
  Result<> gather(Blobs& blobs, const Exchange& exchange);
  Result<> gather_rounds(Blobs& blobs, const Exchange& exchange);
  Result<> unpack_round(std::span<const std::byte> message, int from, const Exchange& exchange, int count, Blobs& blobs);
  Result<> gather_parts(std::span<std::byte> all, const Exchange& exchange);
  Result<> push(int peer, uint64_t tag, std::span<const std::byte> bytes, const Patience& patience);
  Result<> push_local(int peer, uint64_t tag, std::span<const std::byte> bytes);
  Result<> push_remote(int peer, uint64_t tag, std::span<const std::byte> bytes, const Patience& patience);
  /// The next message of (peer, tag); while it waits it does what `meanwhile` says.
  Result<Bytes> pull(int peer, uint64_t tag, const Patience& patience, const std::function<void()>& meanwhile = nullptr);
  std::optional<Error> trouble_with(int peer, uint64_t since);
  bool tell(int peer, uint64_t tag);
  void answer_roll(const Exchange& exchange);
  Error call_roll(const Blobs& blobs, const Exchange& exchange, Error late);
  void spread(const Error& error, uint64_t number);
  /// Tells one rank, if there is a connection.
  void poison(int peer, uint64_t number, const Error& error);
  Result<> usable() const;
  Result<std::unique_ptr<Bootstrap>> split_job(int color, int key, uint64_t number, const Patience& patience);
  Result<std::unique_ptr<Bootstrap>> shrink_job(const std::vector<int>& survivors, uint64_t number, const AbortWord* abort);
  std::unique_ptr<Room> child(std::span<const int> members, const Token& token, const AbortWord* abort) const;

  bool local(int peer) const { return place(peer).process == parts_.node->process(); }
  const Place& place(int peer) const { return parts_.places[static_cast<size_t>(peer)]; }
  Target target(int peer) const;
  Patience patience() const;
  Patience child_patience(const AbortWord* abort) const;
  int number_of(int peer) const { return numbers_.empty() ? peer : numbers_[static_cast<size_t>(peer)]; }
  std::string name(int peer) const;

  RoomParts parts_;
  const Token token_;
  const int rank_;
  const pid_t pid_;
  std::shared_ptr<Mailbox> mailbox_;
  std::optional<Deadline> deadline_;
  std::function<std::optional<Error>()> trouble_;
  std::vector<int> numbers_;  // while a shrink is under way: the ranks' numbers in the parent, by which texts call them

  std::mutex mutex_;  // guards what follows
  uint64_t splits_ = 0;
  std::map<std::vector<int>, uint64_t> shrinks_;  // by the list of survivors
};

}  // namespace ronde
