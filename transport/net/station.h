// The station: what one rank has towards the ranks of other hosts. It opens connections when a FIFO is first used, tells and hears news (news.h), and keeps for
// each such rank a mirror: an Arena of this process that stands for the rank's own, with the FIFOs to it and a copy of its control block.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/abort.h"
#include "boot/bootstrap.h"
#include "transport/arena.h"
#include "transport/bells.h"
#include "transport/death.h"
#include "transport/net/flow.h"
#include "transport/net/news.h"
#include "transport/net/proxy.h"

namespace ronde::net {

/// What a Station is made of.
struct StationParts {
  Bootstrap* bootstrap = nullptr;  ///< used until close()
  std::shared_ptr<Net> net;
  int links_per_channel = 1;         ///< see FabricRequest
  std::shared_ptr<Arena> arena;      ///< this rank's own
  std::shared_ptr<DeathWatch> watch;
  std::function<void(int peer, Error)> on_error;  ///< a connection with `peer` is lost for good; from any thread
  std::function<std::string(int peer)> name;      ///< for texts
};

class Station : public std::enable_shared_from_this<Station> {
 public:
  explicit Station(StationParts parts);
  ~Station();

  Net& net() const { return *parts_.net; }
  /// That are worth using.
  int devices() const { return static_cast<int>(devices_.size()); }
  /// The mirror of `peer`. Before start().
  void attach(int peer, std::shared_ptr<Arena> mirror);
  /// From now on news are heard, and the deaths of peers told to the watch.
  Result<> start();

  /// This rank has made the FIFO `link` in the mirror of `peer`: connects it, once.
  Result<> open(int peer, int link);
  /// A counter of a FIFO with `peer`, its mailbox or this rank's state has changed.
  void nudge(int peer);
  /// See Fabric. Ranks that have no mirror are passed over.
  void refresh(std::span<const int> peers);
  uint64_t ask(std::span<const int> peers);
  bool settled(std::span<const int> peers, uint64_t since);
  /// Reports connections that have been lost for a while without a better reason. Cheap where there are none.
  void report_lost();
  /// Does the proxies' work once, in place of their threads. True if anything moved.
  bool help();
  /// The calling thread helps no more for now: the proxies go on, at once where `sleeps` or something is left to do.
  void rest(bool sleeps);

  bool alive(int peer) const;

  /// Nothing more goes out or comes in, and nothing lent is read after this.
  void cut();
  /// Waits until what this rank has published is with the kernel or the adapter, as long as somebody may take it; says that this rank leaves; hears nothing
  /// more.
  void close();

 private:
  struct Link {
    int attempt = 0;
    std::shared_ptr<SendFlow> send;
    std::shared_ptr<RecvFlow> recv;
    std::shared_ptr<Proxy> send_proxy, recv_proxy;
    int peer_devices = 1;
  };
  struct Peer {
    std::shared_ptr<Arena> mirror;
    std::atomic<bool> gone{false};
    std::atomic<uint32_t> told_state{0};  // RankState last told
    std::atomic<bool> told_mail{false};
    std::map<int, Link> sends, recvs;           // by link
    std::optional<ControlNews> leaving;         // counts when all has come that it says was sent
    ControlNews heard;                          // last
    uint64_t probe = 0, own_probe = 0;          // its last probe, and the number that this has in this rank's control block
    std::optional<Error> lost;                  // a connection, for a reason that may be the consequence of another
    std::string said;                           // what it has told of its end of it
    uint64_t lost_since = 0;
    std::set<int> lost_recvs;                   // links whose reader's ends are all that is lost: their writer may try again
  };

  Peer* find(int peer) const;
  bool has_link(int link) const;
  bool post(int peer, const News& news);
  void on_post(int from, std::span<const std::byte> message);
  void on_gone(int peer, const Error& why);
  void hear(int from, const OpenNews& news);
  void hear(int from, const ListeningNews& news);
  void hear(int from, const RefusedNews& news);
  void hear(int from, const LostNews& news);
  void hear(int from, const LookNews& news);
  void hear(int from, const ControlNews& news);
  void hear(int from, const MailNews& news);
  ControlNews control_for(int peer, uint64_t number);
  void look(int peer, uint64_t number);
  int ranks() const { return static_cast<int>(peers_.size()); }
  // With mutex_ held:
  bool leaving_applies(int peer);
  bool nothing_comes(int peer, const ControlNews& theirs);
  bool nothing_leaves(int peer, const ControlNews& theirs);
  // Without:
  void settle_leaving(int peer);

  /// Channels take turns over the devices, and so do pairs of ranks with what they have one of.
  int first_device(int peer, int link) const { return link / parts_.links_per_channel + rank_ + peer; }
  int device_of(int number) const { return devices_[static_cast<size_t>(number) % devices_.size()]; }
  Result<std::shared_ptr<Proxy>> proxy_of(int device);
  FlowEvents events_of(int peer, int link, int attempt, bool sends);
  void flow_broken(int peer, int link, int attempt, bool sends, Error error);
  bool try_again(int peer, int link, int attempt, const std::string& why);
  void lose(int peer, Error error, std::optional<int> recv = {});
  void ring_own();
  bool drained(int peer);
  bool undelivered(int peer);
  void own_up(int peer);
  std::vector<std::shared_ptr<Proxy>> proxies();

  StationParts parts_;
  const int rank_;
  BellHold bells_;
  std::vector<int> devices_;  // of the net: those worth using
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank; null: not of another host. Fixed by start()

  std::mutex mutex_;  // guards Link and Peer beside their atomics, and what follows. No news is posted, and no proxy's report awaited, under it
  std::vector<std::shared_ptr<Proxy>> proxies_;  // by place in devices_; made when first used
  bool cut_ = false;

  std::atomic<int> lost_{0};        // peers that have a `lost`; relaxed: who reads it comes again
  std::atomic<bool> due_{false};  // something has changed since the last help(); an optimisation, the proxies look by themselves
  std::atomic<uint32_t> turns_{0};   // of refresh(); relaxed: only whose turn it is
  std::atomic<uint64_t> asked_{0};   // number of the last question; relaxed: only a number to be had
  // Who posts counts itself in users_ and then looks at closed_; close() sets that and then waits for users_ to come to 0. All seq_cst.
  std::atomic<int> users_{0};
  std::atomic<bool> closed_{false};
};

}  // namespace ronde::net
