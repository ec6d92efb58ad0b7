// Listening and connecting sockets, non-blocking and close-on-exec, with errors that say what to do.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/config.h"
#include "base/result.h"
#include "boot/address.h"
#include "boot/fork.h"

namespace ronde {

/// RONDE_PORT_RANGE: "lo-hi" or one port; {0, 0} where empty (the kernel chooses).
struct PortRange {
  uint16_t low = 0;
  uint16_t high = 0;
};
Result<PortRange> parse_port_range(std::string_view text);

/// A listening socket and the port it has.
struct Listening {
  BootFd fd;
  uint16_t port = 0;
};

/// Listens on all addresses of this host, on IPv6 and IPv4 alike unless `family` (a value of RONDE_SOCKET_FAMILY) says one, on a
/// free port of `range`. system_error naming the range when it is full, and `user`, who listens.
Result<Listening> listen_tcp(std::string_view family, PortRange range, std::string_view user = "the bootstrap");
/// Listens on exactly this address (NCCL_COMM_ID); `errno_value` says what the system said, 0 where it worked.
Result<Listening> listen_at(const Address& address, int* errno_value);
/// Listens on the abstract unix socket of process number `process`.
Result<BootFd> listen_unix(uint64_t process);

/// A connection under way; errno_value 0 where it is under way or up.
struct Connecting {
  BootFd fd;
  int errno_value = 0;
};
Connecting connect_tcp(const Address& address);
Connecting connect_unix(uint64_t process);

/// True where trying the same address again would be in vain: nobody listens, or there is no way from here.
bool is_refusal(int errno_value);

/// Keeps small messages from waiting and lets a dead host be noticed within half a minute. No effect on unix sockets.
void tune_tcp(int fd);

}  // namespace ronde
