#include "boot/listen.h"

#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <iterator>

#include "base/clock.h"
#include "base/fd.h"

namespace ronde {
namespace {

constexpr int kBacklog = 4096;  // a whole job may call at once; the kernel caps it at net.core.somaxconn

int open_socket(int family) { return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

Error socket_failure(int errno_value, std::string_view user = "the bootstrap") {
  return system_failure(errno_value, fmt::format("opening a socket for {} ({})", user, descriptor_use()),
                        "raise `ulimit -n` if it is the descriptors");
}

/// Binds and listens; 0 or errno.
int try_listen(int fd, const Address& address) {
  sockaddr_storage storage;
  const socklen_t length = to_sockaddr(address, &storage);
  if (bind(fd, reinterpret_cast<sockaddr*>(&storage), length) != 0) return errno;
  return listen(fd, kBacklog) != 0 ? errno : 0;
}

BootFd open_listener(const Address& address, bool both_families) {
  BootFd fd(open_socket(address.family == 6 ? AF_INET6 : AF_INET));
  if (!fd) return fd;
  const int on = 1, only_six = both_families ? 0 : 1;
  // A chosen port whose old connections linger in TIME_WAIT is free; one that another process listens on is not.
  if (address.port != 0) setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.family == 6) setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only_six, sizeof only_six);
  return fd;
}

uint16_t port_of(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length);
  return from_sockaddr(reinterpret_cast<sockaddr*>(&storage)).port;
}

/// Tries the ports of `range` on the wildcard address of a family; errno of the last attempt in `last`.
Listening search_port(uint8_t family, bool both, PortRange range, int* last) {
  const uint32_t count = static_cast<uint32_t>(range.high - range.low) + 1;
  // Processes that start together begin at different places instead of queueing for the same port.
  const uint32_t first = static_cast<uint32_t>((now_ns() / 1000 + static_cast<uint64_t>(getpid()) * 7919) % count);
  for (uint32_t i = 0; i < count; ++i) {
    Address any;
    any.family = family;
    any.port = static_cast<uint16_t>(range.low + (first + i) % count);
    BootFd fd = open_listener(any, both);
    *last = fd ? try_listen(fd.get(), any) : errno;
    if (*last == 0) {
      const uint16_t port = port_of(fd.get());
      return {std::move(fd), port};
    }
    if (*last != EADDRINUSE && *last != EACCES) break;
  }
  return {};
}

sockaddr_un unix_name(uint64_t process, socklen_t* length) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const std::string text = fmt::format("ronde-{:016x}", process);
  std::memcpy(name.sun_path + 1, text.data(), text.size());  // the leading zero makes it abstract: no file
  *length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return name;
}

Connecting begin_connect(BootFd fd, const sockaddr* to, socklen_t length) {
  if (!fd) return {{}, errno};
  int rc = 0;
  do {
    rc = connect(fd.get(), to, length);
  } while (rc != 0 && errno == EINTR);
  const int failed = rc != 0 && errno != EINPROGRESS && errno != EALREADY && errno != EISCONN ? errno : 0;
  return {std::move(fd), failed};
}

}  // namespace

Result<PortRange> parse_port_range(std::string_view text) {
  PortRange range;
  if (text.empty()) return range;
  const size_t dash = text.find('-');
  const std::string_view parts[2] = {text.substr(0, dash), dash == std::string_view::npos ? text : text.substr(dash + 1)};
  uint16_t* values[2] = {&range.low, &range.high};
  bool good = true;
  for (int i = 0; i < 2; ++i) {
    const char* end = parts[i].data() + parts[i].size();
    const auto [stop, error] = std::from_chars(parts[i].data(), end, *values[i]);
    good = good && error == std::errc() && stop == end && *values[i] != 0;
  }
  if (!good || range.low > range.high) {
    return fail(Code::invalid_argument,
                fmt::format("RONDE_PORT_RANGE={} fits nothing: expected lo-hi with 1 <= lo <= hi <= 65535", text));
  }
  return range;
}

Result<Listening> listen_tcp(std::string_view family, PortRange range, std::string_view user) {
  int last = 0;
  if (family != "AF_INET") {
    Listening found = search_port(6, family == "any", range, &last);
    if (found.fd) return found;
  }
  // A host without IPv6 refuses the socket or the address; a full range was full for both families already.
  if (family == "AF_INET" || (family == "any" && last != EADDRINUSE && last != EMFILE && last != ENFILE)) {
    Listening found = search_port(4, false, range, &last);
    if (found.fd) return found;
  }
  if (range.low != 0 && (last == EADDRINUSE || last == EACCES)) {
    return system_failure(
        last, fmt::format("listening for {} on a port of RONDE_PORT_RANGE={}-{}: none is free", user, range.low, range.high),
        "each process takes one for the bootstrap and one for the network between hosts; widen the range or end what uses it");
  }
  return last == EMFILE || last == ENFILE ? socket_failure(last, user) : system_failure(last, fmt::format("listening on TCP for {}", user));
}

Result<Listening> listen_at(const Address& address, int* errno_value) {
  BootFd fd = open_listener(address, false);
  *errno_value = fd ? try_listen(fd.get(), address) : errno;
  if (!fd) return socket_failure(*errno_value);
  if (*errno_value == 0) return Listening{std::move(fd), address.port};
  const bool elsewhere = *errno_value == EADDRNOTAVAIL;
  return system_failure(*errno_value, fmt::format("listening on {}, the address of NCCL_COMM_ID", to_string(address)),
                        elsewhere ? "rank 0 must run on the host that has this address" : "choose a port that nobody uses");
}

Result<BootFd> listen_unix(uint64_t process) {
  BootFd fd(open_socket(AF_UNIX));
  if (!fd) return socket_failure(errno);
  socklen_t length = 0;
  const sockaddr_un name = unix_name(process, &length);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), length) != 0 || listen(fd.get(), kBacklog) != 0) {
    return system_failure(errno, fmt::format("listening on the abstract unix socket ronde-{:016x}", process));
  }
  return fd;
}

Connecting connect_tcp(const Address& address) {
  sockaddr_storage storage;
  const socklen_t length = to_sockaddr(address, &storage);
  return begin_connect(BootFd(open_socket(address.family == 6 ? AF_INET6 : AF_INET)), reinterpret_cast<sockaddr*>(&storage),
                       length);
}

Connecting connect_unix(uint64_t process) {
  socklen_t length = 0;
  const sockaddr_un name = unix_name(process, &length);
  return begin_connect(BootFd(open_socket(AF_UNIX)), reinterpret_cast<const sockaddr*>(&name), length);
}

bool is_refusal(int errno_value) {
  static constexpr int no[] = {ECONNREFUSED, ENETUNREACH, EADDRNOTAVAIL, EAFNOSUPPORT, EINVAL, EACCES, EPERM};
  return std::find(std::begin(no), std::end(no), errno_value) != std::end(no);
}

void tune_tcp(int fd) {
  const int on = 1, idle = 10, interval = 5, count = 4;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
  // While something is on its way the kernel sends no keepalives, and would go on trying for a quarter of an hour.
  const unsigned int unanswered_ms = 30'000;
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_ms, sizeof unanswered_ms);
}

}  // namespace ronde
