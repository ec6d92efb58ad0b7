// Which of the host's network addresses the bootstrap uses, and in which order.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "boot/address.h"

namespace ronde {

/// One address of one network interface.
struct Interface {
  std::string name;
  Address address;  ///< port 0; scope set where link-local
  bool up = false;  ///< up and with carrier
  bool loopback = false;
  uint8_t prefix = 0;  ///< leading bits that the addresses of its network share; 0: not known
};

/// All addresses of this host, in the kernel's order; empty where they cannot be read.
std::vector<Interface> list_interfaces();

/// NCCL_SOCKET_IFNAME: prefixes separated by commas; a leading ^ excludes them; then (or alone) = means whole names.
class InterfaceFilter {
 public:
  explicit InterfaceFilter(std::string_view text);
  bool chosen() const { return !names_.empty(); }
  bool admits(std::string_view name) const { return (place(name) >= 0) != exclude_; }
  /// Index of the first entry that `name` matches; -1: none.
  int place(std::string_view name) const;

 private:
  std::vector<std::string> names_;
  bool exclude_ = false;
  bool exact_ = false;
};

/// The interfaces to use, best first, at most 16 addresses.
///
/// The rule: down interfaces and other families than `family` ("any", "AF_INET", "AF_INET6") never. With a list of names or
/// prefixes: what it admits, in the order of the list. Otherwise classes: ib*, then others, then bridges and container networks
/// (docker*, br-*, veth*, virbr*, cni*, flannel*, cali*, tunl*), then loopback; container networks and loopback only where
/// nothing better is up, since their addresses mean nothing to other hosts. An excluding list drops names and then goes by
/// classes. Inside a class: IPv4, then IPv6, link-local last.
std::vector<Interface> choose_interfaces(std::span<const Interface> all, std::string_view ifname, std::string_view family);

/// choose_interfaces over this host, with the settings of `config`. Warns once when a list of names matches nothing.
std::vector<Interface> usable_interfaces(const Config& config);

}  // namespace ronde
