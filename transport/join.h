// How a rank and its peers come to see each other's memory: the collective part of Fabric::make.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/fabric.h"
#include "transport/transport.h"

namespace ronde {

struct JoinedPeer {
  const Transport* transport = nullptr;
  std::unique_ptr<PeerEnd> end;
};

/// The outcome. Destroyed in reverse: the ends go first.
struct Joined {
  int rank = 0;
  std::shared_ptr<Process> process;
  std::shared_ptr<DeathWatch> watch;
  std::shared_ptr<Arena> arena;
  std::shared_ptr<std::vector<PeerInfo>> infos;  // the ends point into it
  std::shared_ptr<net::Net> net;  ///< null where no peer needs a network, as is station
  std::shared_ptr<net::Station> station;
  std::vector<JoinedPeer> peers;

  /// "rank 3 (pid 1234)", with the host where it is another one.
  std::string name(int peer) const;
};

/// Collective. An error on one rank is an error on all, which names it.
Result<Joined> join_peers(const FabricRequest& request);

}  // namespace ronde
