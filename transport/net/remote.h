// The transport between hosts: FIFOs in mirrors, whose slots the station's connections carry.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/net/station.h"
#include "transport/transport.h"

namespace ronde::net {

const Transport& transport();

/// Whether any two ranks have no way to each other but a network.
bool needed(const std::vector<PeerInfo>& infos);

/// Collective. The network that all ranks use: the one that the settings name, or the best that works here; an error naming ranks and networks where they
/// differ, and what was tried where there is none.
Result<std::shared_ptr<Net>> choose_net(Bootstrap& bootstrap, const Config& config);

}  // namespace ronde::net
