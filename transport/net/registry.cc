// The kinds of network, best first.
#include "transport/net/net.h"
#include "transport/socket/socket.h"
#include "transport/verbs/ib.h"

namespace ronde::net {
namespace {

constexpr Provider kProviders[] = {
    {"IB", open_verbs_net},
    {"Socket", open_socket_net},
};

}  // namespace

std::span<const Provider> providers() { return kProviders; }

}  // namespace ronde::net
