#include "transport/socket/ends.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <cerrno>

#include <fmt/core.h>

#include "boot/listen.h"

namespace ronde::net {
namespace {

const char* advice(int errno_value) {
  switch (errno_value) {
    case 0:
    case EPIPE:
    case ECONNRESET:
      return "its process has ended, has left the communicator or has met an error of its own, which its log tells";
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENETDOWN:
    case EHOSTDOWN:
      return "it has not answered for half a minute; see whether its host is up, and the link and what lies between";
    default:
      return "see the logs of both hosts";
  }
}

}  // namespace

Ends ends_of(int fd, const std::string& interface) {
  sockaddr_storage here{}, there{};
  socklen_t length = sizeof here;
  getsockname(fd, reinterpret_cast<sockaddr*>(&here), &length);
  length = sizeof there;
  getpeername(fd, reinterpret_cast<sockaddr*>(&there), &length);
  return {from_sockaddr(reinterpret_cast<sockaddr*>(&here)), from_sockaddr(reinterpret_cast<sockaddr*>(&there)), interface};
}

std::string describe(const Address& sender, const Address& receiver, const std::string& interface, size_t sockets) {
  return fmt::format("{} to {} over {}, {} socket{}", to_string(sender), to_string(receiver), interface, sockets,
                     sockets == 1 ? "" : "s");
}

void tune_stream(int fd, const Buffers& buffers) {
  tune_tcp(fd);
  // By a timeout of the user's the kernel would also end a healthy connection whose reader takes nothing for that long: a rank
  // that computes. A dead peer is found by keepalives: the receiver sends nothing else, so they are always sent there.
  const unsigned int none = 0;
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &none, sizeof none);
  if (buffers.send >= 0) setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffers.send, sizeof buffers.send);
  if (buffers.receive >= 0) setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffers.receive, sizeof buffers.receive);
}

Error broken_stream(const Ends& ends, std::string_view attempted, int errno_value) {
  const std::string what =
      fmt::format("{} between {} and {} over {}", attempted, to_string(ends.here), to_string(ends.there), ends.interface);
  if (errno_value == 0)
    return fail(Code::remote_error, fmt::format("{}: the peer has closed the connection; {}", what, advice(0)),
                Scope::connection);
  Error error = system_failure(errno_value, what, advice(errno_value), Scope::connection);
  error.code = Code::remote_error;
  return error;
}

Error foreign_stream(const Ends& ends, std::string what) {
  return fail(Code::remote_error,
              fmt::format("receiving between {} and {} over {}: {}; use one build of this library on all hosts, and see whether "
                          "something between them "
                          "changes what it carries",
                          to_string(ends.here), to_string(ends.there), ends.interface, what),
              Scope::connection);
}

}  // namespace ronde::net
