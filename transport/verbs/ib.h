// The network "IB": RDMA adapters (InfiniBand, RoCE) by libibverbs.
#pragma once

#include <memory>
#include <string>

#include "transport/net/net.h"

namespace ronde::net {

/// See Provider::open. A device is an active port of an adapter that NCCL_IB_HCA admits.
Result<std::shared_ptr<Net>> open_verbs_net(const Config& config, std::string* why);

}  // namespace ronde::net
