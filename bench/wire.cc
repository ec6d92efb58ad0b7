#include "bench/wire.h"

#include <fmt/core.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "bench/failure.h"

namespace ronde::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Header {
  uint32_t kind;
  uint32_t bytes;
};
constexpr uint32_t kMaxFrame = 1 << 28;

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

/// The addresses of a meeting place; an abstract unix name has one and leaves nothing behind.
std::vector<Address> addresses_of(const MeetingPlace& place) {
  if (place.host.empty()) {
    Address address;
    auto* local = reinterpret_cast<sockaddr_un*>(&address.storage);
    local->sun_family = AF_UNIX;
    std::memcpy(local->sun_path + 1, place.name.data(), std::min(place.name.size(), sizeof local->sun_path - 1));
    address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + place.name.size());
    return {address};
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int status = getaddrinfo(place.host.c_str(), std::to_string(place.port).c_str(), &hints, &list);
  if (status != 0) {
    throw TestFailure(Exit::invalid_usage,
                      fmt::format("cannot resolve the meeting place's host '{}': {} (MASTER_ADDR or NCCL_COMM_ID names it)",
                                  place.host, gai_strerror(status)));
  }
  std::vector<Address> addresses;
  for (const addrinfo* info = list; info != nullptr; info = info->ai_next) {
    Address address;
    std::memcpy(&address.storage, info->ai_addr, info->ai_addrlen);
    address.length = info->ai_addrlen;
    addresses.push_back(address);
  }
  freeaddrinfo(list);
  return addresses;
}

/// An unconnected socket of the address's family.
Descriptor open_socket(const Address& address, int flags = 0) {
  return Descriptor(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
}

void wait_for(int fd, short events, Deadline deadline) {
  for (;;) {
    pollfd one{fd, events, 0};
    const int ready = poll(&one, 1, poll_left(deadline));
    if (ready > 0) return;
    if (ready == 0 && Clock::now() >= deadline) throw Gone{true, "no answer in time"};
    if (ready < 0 && errno != EINTR) throw Gone{false, std::strerror(errno)};
  }
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

int poll_left(Deadline deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 3600 * 1000));
}

void read_all(int fd, void* data, size_t bytes, Deadline deadline) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = recv(fd, at, bytes, MSG_DONTWAIT);
    if (got == 0) throw Gone{false, "the connection was closed"};
    if (got < 0 && errno == EAGAIN) {
      wait_for(fd, POLLIN, deadline);
    } else if (got < 0 && errno != EINTR) {
      throw Gone{false, std::strerror(errno)};
    } else if (got > 0) {
      at += got;
      bytes -= static_cast<size_t>(got);
    }
  }
}

void write_all(int fd, const void* data, size_t bytes, Deadline deadline) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t put = send(fd, at, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put < 0 && errno == EAGAIN) {
      wait_for(fd, POLLOUT, deadline);
    } else if (put < 0 && errno != EINTR) {
      throw Gone{false, std::strerror(errno)};
    } else if (put > 0) {
      at += put;
      bytes -= static_cast<size_t>(put);
    }
  }
}

void write_frame(int fd, Kind kind, const std::string& text, Deadline deadline) {
  const Header header{static_cast<uint32_t>(kind), static_cast<uint32_t>(text.size())};
  std::string frame(reinterpret_cast<const char*>(&header), sizeof header);
  frame += text;
  write_all(fd, frame.data(), frame.size(), deadline);
}

std::string read_frame(int fd, Deadline deadline) {
  Header header{};
  read_all(fd, &header, sizeof header, deadline);
  if (header.bytes > kMaxFrame) throw Gone{false, "it sent something that is no message of a benchmark"};
  std::string text(header.bytes, '\0');
  read_all(fd, text.data(), text.size(), deadline);
  if (header.kind == static_cast<uint32_t>(Kind::error)) {
    throw TestFailure(text[0] == 'T' ? Exit::timeout : Exit::internal, text.substr(1));
  }
  return text;
}

std::string place_text(const MeetingPlace& place) {
  return place.host.empty() ? fmt::format("the local name {}", place.name) : fmt::format("{} port {}", place.host, place.port);
}

bool same_user(int fd) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == getuid();
}

std::optional<Descriptor> try_listen(const MeetingPlace& place, int backlog) {
  for (const Address& address : addresses_of(place)) {
    Descriptor fd = open_socket(address, SOCK_NONBLOCK);
    if (!fd.valid()) continue;
    const int on = 1;
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd.get(), address.get(), address.length) == 0 && listen(fd.get(), backlog) == 0) return fd;
  }
  return std::nullopt;
}

std::optional<Descriptor> try_connect(const MeetingPlace& place) {
  for (const Address& address : addresses_of(place)) {
    Descriptor fd = open_socket(address);
    if (!fd.valid() || connect(fd.get(), address.get(), address.length) != 0) continue;
    if (place.host.empty() && !same_user(fd.get())) continue;
    return fd;
  }
  return std::nullopt;
}

void drain(int fd, Deadline deadline) {
  shutdown(fd, SHUT_WR);
  try {
    char nothing = 0;
    for (;;) read_all(fd, &nothing, 1, deadline);
  } catch (const Gone&) {
    return;
  }
}

}  // namespace ronde::bench
