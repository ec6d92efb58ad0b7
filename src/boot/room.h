// The Bootstrap of one communicator: mailboxes for ranks of this process, connections made on demand for the others.
#pragma once

#include <sys/types.h>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

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
  Result<> send(int peer, uint32_t tag, std::span<const std::byte> bytes) override;
  Result<> recv(int peer, uint32_t tag, std::span<std::byte> bytes) override;
  Result<std::unique_ptr<Bootstrap>> split(int color, int key) override;
  Result<std::unique_ptr<Bootstrap>> shrink(std::span<const int> survivors) override;
  void set_deadline(Deadline deadline) override { deadline_ = deadline; }
  void clear_deadline() { deadline_.reset(); }
  void set_abort(const AbortWord* abort) override { parts_.abort = abort; }
  std::string describe() const override;

  /// First call after the root's hand-out, which filled in the neighbours' places: learns all others'. `trouble` is asked while
  /// waiting.
  Result<> introduce(std::function<std::optional<Error>()> trouble);

 private:
  using Blobs = std::vector<Bytes>;
  /// Each rank gives one blob and gets all, in ceil(log2 n) rounds. `what` and `shape` must be the same on all ranks.
  Result<> gather(Blobs& blobs, const char* what, uint64_t shape);
  Result<> gather_rounds(Blobs& blobs, const char* what, uint64_t shape, const Patience& patience);
  Result<> unpack_round(std::span<const std::byte> message, int from, const char* what, uint64_t shape, int count, Blobs& blobs);
  Result<> push(int peer, uint64_t tag, std::span<const std::byte> bytes, const Patience& patience);
  Result<> push_local(int peer, uint64_t tag, std::span<const std::byte> bytes);
  Result<> push_remote(int peer, uint64_t tag, std::span<const std::byte> bytes, const Patience& patience);
  Result<Bytes> pull(int peer, uint64_t tag, const Patience& patience);
  std::optional<Error> trouble_with(int peer, uint64_t since);
  void spread(const Error& error);
  Result<> usable(int peer) const;
  Result<std::unique_ptr<Bootstrap>> child(std::span<const int> members, const Token& token) const;

  bool local(int peer) const { return place(peer).process == parts_.node->process(); }
  const Place& place(int peer) const { return parts_.places[static_cast<size_t>(peer)]; }
  Target target(int peer) const;
  Patience patience() const;
  std::string name(int peer) const;

  RoomParts parts_;
  const Token token_;
  const int rank_;
  const pid_t pid_;
  std::shared_ptr<Mailbox> mailbox_;
  std::optional<Deadline> deadline_;
  std::function<std::optional<Error>()> trouble_;
  uint64_t splits_ = 0;
  std::map<uint64_t, uint64_t> shrinks_;  // by the list of survivors
};

}  // namespace ronde
