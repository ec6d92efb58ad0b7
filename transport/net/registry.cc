// The kinds of network, best first.
#include "transport/net/net.h"
#include "transport/socket/socket.h"

namespace ronde::net {
namespace {

constexpr Provider kProviders[] = {
    {"Socket", open_socket_net},
};

}  // namespace

std::span<const Provider> providers() { return kProviders; }

}  // namespace ronde::net
