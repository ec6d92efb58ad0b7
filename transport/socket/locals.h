// The devices of the network "Socket" on this host: its usable interfaces.
#pragma once

#include <string>
#include <vector>

#include "base/config.h"
#include "boot/interfaces.h"
#include "topo/sysfs.h"
#include "transport/net/net.h"

namespace ronde::net {

struct Local {
  Device device;
  std::vector<Interface> addresses;  ///< of this interface, best first; at least one
  uint32_t streams = 1;              ///< of one connection
};

/// One Local for each interface in `usable` (as usable_interfaces gives them), in their order. `files`: where /sys is.
std::vector<Local> make_locals(const std::vector<Interface>& usable, const topo::HostFiles& files, const Config& config);

/// How many streams a connection over a link has, where the settings do not say it. `vendor`: the adapter's PCI vendor, 0 where
/// not known.
uint32_t default_streams(double gbps, int64_t vendor);

/// True where `address` lies in the network of the interface's address.
bool same_network(const Interface& interface, const Address& address);
bool is_loopback(const Address& address);

/// A way to a peer: its address (with scope), and the own address to go from; family 0: the kernel chooses.
struct Way {
  Address to;
  Address from;
};
/// The ways from a Local to addresses of a peer, best first: in a network of its own, then anything routable, then link-local,
/// then what only one host can mean.
std::vector<Way> ways(const Local& local, const std::vector<Address>& addresses);

}  // namespace ronde::net
