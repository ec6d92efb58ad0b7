// The network "Socket": TCP over the usable interfaces of this host.
#pragma once

#include <memory>
#include <string>

#include "transport/net/net.h"

namespace ronde::net {

/// See Provider::open. A device is an interface; its connections use NCCL_SOCKET_NTHREADS x NCCL_NSOCKS_PERTHREAD streams, or as
/// many as its speed suggests.
Result<std::shared_ptr<Net>> open_socket_net(const Config& config, std::string* why);

}  // namespace ronde::net
