// The queue pairs of one end of a connection, with what belongs to them: a completion queue, and the block that the peer writes
// into.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/fd.h"
#include "base/result.h"
#include "transport/net/net.h"
#include "transport/verbs/adapter.h"
#include "transport/verbs/gid.h"
#include "transport/verbs/layout.h"
#include "transport/verbs/wire.h"
#include "transport/verbs/words.h"

namespace ronde::net {

/// What the settings say of connections.
struct LineSettings {
  uint32_t queues = 1;
  bool split = false;  ///< each message over all queue pairs; else they take turns
  bool send_inline = true;
  int64_t adaptive = -1;  ///< the network may route packets of one message differently; -1: where it is InfiniBand
  uint64_t apart = 8192;  ///< then, longer messages go as a write and a PartNote
  uint8_t timeout = 20;
  uint8_t retries = 7;
  uint8_t service_level = 0;
  uint8_t data_class = 0;     ///< traffic class of what the sender sends
  uint8_t control_class = 0;  ///< and the receiver, which tells of free slots
  int64_t pkey_index = 0;
  int64_t partition = -1;     ///< a partition key, whose index is looked up; -1: pkey_index
  int64_t mtu = 0;            ///< bytes at most; 0: what both ports have
  double rebuild_window = 0;  ///< seconds
  GidWishes gids;
};
Result<LineSettings> line_settings(const Config& config);

/// A port of an adapter.
struct Port {
  std::shared_ptr<Adapter> adapter;
  int number = 1;
  Device device;
};

/// The ports of this host that a connection may use.
using Ports = std::shared_ptr<const std::vector<Port>>;

inline bool is_active(const Port& port) {
  const auto attributes = port.adapter->port(port.number);
  return attributes.has_value() && attributes->state == IBV_PORT_ACTIVE;
}
/// What a port may use towards a peer.
Result<std::vector<Gid>> offered_by(const Port& port, const GidWishes& wishes);

/// One work request that has ended.
struct Completion {
  uint32_t queue = 0;
  bool receive = false;
  uint64_t id = 0;         ///< as it was given to write(); of what was sent
  uint32_t immediate = 0;  ///< of what was received
  uint32_t bytes = 0;      ///< of what was received
  ibv_wc_status status = IBV_WC_SUCCESS;
  uint32_t vendor = 0;
};

/// One thread at a time.
class Line {
 public:
  enum class Side : uint8_t { sender, receiver };

  static Result<std::unique_ptr<Line>> make(const Port& port, const LineSettings& settings, uint32_t queues, Side side);
  ~Line();
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  /// New queue pairs, in place of those that are there; what those have not told yet is lost.
  Result<> make_queues();
  /// How the peer reaches them, but for what has come.
  Result<Card> card(uint32_t generation);
  /// Connects them with the peer's: from now on they take what comes and send. The receives of queue pair 0 of a sender, and of
  /// all of a receiver, are posted.
  Result<> connect(const Card& peer, const Ends& ends);
  /// Makes all that was posted end.
  void fail_queues();
  uint32_t queues() const { return static_cast<uint32_t>(queues_.size()); }
  /// Receives posted that have not ended.
  uint32_t receiving() const { return receiving_; }

  /// Room for that many more requests to send.
  bool has_room(uint32_t queue, uint32_t requests) const { return queues_[queue].sending + requests <= depth_; }
  struct Write {
    const std::byte* from = nullptr;
    uint32_t key = 0;  ///< of `from`
    size_t bytes = 0;
    uint64_t to = 0;
    uint32_t to_key = 0;
    std::optional<uint32_t> immediate;  ///< with one, the end of the write, and of those before it, is told as a Completion
    uint64_t id = 0;                    ///< below 2^47
  };
  Result<> write(uint32_t queue, const Write& write);
  Result<> receive(uint32_t queue);
  /// The next that has ended.
  std::optional<Completion> next();
  /// The next end will show on the descriptor. False: one is there already.
  Result<bool> arm();

  std::byte* block() const { return block_.data(); }
  uint32_t block_key() const { return block_registered_->lkey(); }
  const Card& peer() const { return peer_; }
  Adapter& adapter() const { return *port_.adapter; }
  const LineSettings& settings() const { return settings_; }
  uint64_t longest() const { return longest_; }  ///< bytes of one write
  bool adaptive() const { return adaptive_; }
  int descriptor() const { return channel_->fd; }

  /// Remembers memory of use().
  Result<> use(std::span<std::byte> memory);
  /// What covers it; nullptr: nothing that use() has named.
  const Registered* find(std::span<const std::byte> memory) const;

  /// "mlx5_0:1 (GID 3, 10.0.0.1)", each end's; then from here to there, as the log names it.
  std::string here() const { return here_; }
  std::string there() const { return there_; }
  Failure failure(const Completion& completion, std::string attempted) const;
  /// For tests: puts queue pair `queue` into its error state, as a failed link does.
  void break_queue(uint32_t queue) { fail_queue(queues_.at(queue).pair); }

 private:
  struct Queue {
    ibv_qp* pair = nullptr;
    uint32_t first_packet = 0;
    uint32_t sending = 0;  // requests that have not ended
    uint32_t untold = 0;   // of these, since the last whose end is told
  };

  Line(const Port& port, const LineSettings& settings, Side side) : port_(port), settings_(settings), side_(side) {}
  Result<> open(uint32_t queues);
  Result<ibv_qp*> make_queue(uint32_t index);
  Result<> find_partition();
  Result<ibv_ah_attr> way_to(const Card& peer, const ibv_port_attr& own, std::string* reason);
  Result<> reach(Queue& queue, const Card::Queue& peer, const ibv_ah_attr& way, ibv_mtu mtu);
  void fail_queue(ibv_qp* pair);
  void drop_queues();
  Error failed(int errno_value, const std::string& attempted) const;
  ibv_mtu mtu_for(const Card& peer, const ibv_port_attr& own) const;

  const Port port_;
  const LineSettings settings_;
  const Side side_;
  uint16_t pkey_index_ = 0;
  uint32_t depth_ = 0;
  uint32_t inline_bytes_ = 0;
  uint64_t longest_ = 0;
  bool adaptive_ = false;

  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* completions_ = nullptr;
  bool armed_ = false;
  std::vector<Queue> queues_;
  uint32_t receiving_ = 0;
  std::array<ibv_wc, 16> polled_;
  int polled_begin_ = 0;
  int polled_end_ = 0;

  Mapping block_;
  std::shared_ptr<Registered> block_registered_;
  std::vector<std::shared_ptr<Registered>> used_;
  std::vector<Gid> offered_;
  Card peer_;
  std::string here_, there_;
};

}  // namespace ronde::net
