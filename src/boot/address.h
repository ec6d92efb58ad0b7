// Internet addresses as values, and where a rank can be reached.
#pragma once

#include <sys/socket.h>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "boot/wire.h"

namespace ronde {

/// An IPv4 or IPv6 address with port. The scope of a link-local address is an interface of this host and never leaves it.
struct Address {
  uint8_t family = 0;  ///< 4 or 6; 0: none
  std::array<uint8_t, 16> ip{};
  uint16_t port = 0;
  uint32_t scope = 0;

  bool operator==(const Address&) const = default;
  bool link_local() const { return family == 6 && ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80; }
};

/// "192.0.2.1:1234", "[2001:db8::1]:1234", "[fe80::1%eth0]:1234".
std::string to_string(const Address& address);
/// The kernel's form; the length is returned.
socklen_t to_sockaddr(const Address& address, sockaddr_storage* out);
/// From the kernel's form; an IPv4 address mapped into IPv6 becomes IPv4. family 0 where it is neither.
Address from_sockaddr(const sockaddr* in);
/// "ip:port", "[ipv6]:port" or "host:port": all addresses that it stands for, in the resolver's order. Asks the resolver for
/// names.
Result<std::vector<Address>> parse_address(std::string_view text);

/// Where a rank can be reached, and by what names people know it.
struct Place {
  uint64_t process = 0;  ///< random number of the process; also names its unix socket
  uint64_t host = 0;     ///< equal for processes that believe to be on one host
  uint32_t pid = 0;
  std::string host_name;
  std::vector<Address> addresses;  ///< best first; empty where the process does not listen on TCP
};

/// "process 123 on host a".
std::string to_string(const Place& place);
void pack(Writer& out, const Place& place);
Place unpack_place(Reader& in);

}  // namespace ronde
