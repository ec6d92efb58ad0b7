// What no transport can exceed: plain sockets, and copies in memory.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/fd.h"
#include "tools/fifo/line.h"

namespace ronde::fifo_tool {
namespace {

constexpr int kBacklog = 64;

/// A message is cut evenly over the sockets; what has come is counted, not looked at.
class SocketLine final : public Line {
 public:
  explicit SocketLine(std::vector<UniqueFd> sockets)
      : sockets_(std::move(sockets)), out_(sockets_.size()), in_(sockets_.size()) {}

  Result<> prepare(size_t bytes) override {
    share_ = (bytes + sockets_.size() - 1) / sockets_.size();
    data_.assign(share_, std::byte{1});
    room_.resize(share_ * kUnderWay);
    return {};
  }
  Result<bool> send() override {
    if (*std::max_element(out_.begin(), out_.end()) > 0) {
      RONDE_TRY(push());
      return false;
    }
    std::fill(out_.begin(), out_.end(), share_);
    RONDE_TRY(push());
    return true;
  }
  Result<bool> receive() override {
    if (!receiving_) std::fill(in_.begin(), in_.end(), share_);
    receiving_ = true;
    std::byte* const room = room_.data() + share_ * (next_ % kUnderWay);
    for (size_t i = 0; i < sockets_.size(); ++i) {
      while (in_[i] > 0) {
        const ssize_t n = recv(sockets_[i].get(), room + (share_ - in_[i]), in_[i], MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN) break;
        if (n == 0) return fail(Code::remote_error, "the other party has closed a socket");
        if (n < 0) return system_failure(errno, "receiving from a socket");
        in_[i] -= static_cast<size_t>(n);
      }
    }
    receiving_ = *std::max_element(in_.begin(), in_.end()) > 0;
    if (!receiving_) ++next_;
    return !receiving_;
  }
  Result<bool> flushed() override {
    RONDE_TRY(push());
    return *std::max_element(out_.begin(), out_.end()) == 0;
  }
  Result<> idle() override {
    std::vector<pollfd> all;
    for (size_t i = 0; i < sockets_.size(); ++i) {
      all.push_back({sockets_[i].get(), static_cast<short>(POLLIN | (out_[i] > 0 ? POLLOUT : 0)), 0});
    }
    const int n = poll(all.data(), all.size(), ++looks_ < kLooks ? 0 : 1000);
    if (n == 0) sched_yield();
    if (n > 0) looks_ = 0;
    return {};
  }

 private:
  Result<> push() {
    for (size_t i = 0; i < sockets_.size(); ++i) {
      while (out_[i] > 0) {
        const ssize_t n = ::send(sockets_[i].get(), data_.data() + (share_ - out_[i]), out_[i], MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN) break;
        if (n < 0) return system_failure(errno, "sending over a socket");
        out_[i] -= static_cast<size_t>(n);
      }
    }
    return {};
  }

  std::vector<UniqueFd> sockets_;
  std::vector<size_t> out_;  // of the message that is being sent: what is left
  std::vector<size_t> in_;
  std::vector<std::byte> data_;
  std::vector<std::byte> room_;
  size_t share_ = 0;
  size_t next_ = 0;  // message that comes next
  bool receiving_ = false;
  int looks_ = 0;
};

class MemoryLine final : public Line {
 public:
  Result<> prepare(size_t bytes) override {
    from_.assign(bytes, std::byte{1});
    to_.assign(bytes, std::byte{2});
    return {};
  }
  Result<bool> send() override { return true; }
  Result<bool> receive() override {
    std::memcpy(to_.data(), from_.data(), from_.size());
    asm volatile("" : : "r"(to_.data()) : "memory");  // somebody might look
    return true;
  }
  Result<bool> flushed() override { return true; }
  Result<> idle() override { return {}; }

 private:
  std::vector<std::byte> from_;
  std::vector<std::byte> to_;
};

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

Result<std::vector<UniqueFd>> accept_all(int count, Board& board) {
  UniqueFd listening(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = loopback(0);
  socklen_t length = sizeof address;
  const bool bound = listening && bind(listening.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                     listen(listening.get(), kBacklog) == 0 &&
                     getsockname(listening.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0;
  if (!bound) return system_failure(errno, "listening on the loopback interface");
  board.port = ntohs(address.sin_port);
  board.with_port.store(1);
  std::vector<UniqueFd> sockets;
  for (int i = 0; i < count; ++i) {
    sockets.emplace_back(accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!sockets.back()) return system_failure(errno, "accepting a connection");
  }
  return sockets;
}

Result<std::vector<UniqueFd>> connect_all(int count, Board& board) {
  RONDE_TRY(board.wait(board.with_port));
  const sockaddr_in address = loopback(board.port);
  std::vector<UniqueFd> sockets;
  for (int i = 0; i < count; ++i) {
    sockets.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const bool up =
        sockets.back() && connect(sockets.back().get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    if (!up) return system_failure(errno, "connecting over the loopback interface");
  }
  return sockets;
}

}  // namespace

Result<std::unique_ptr<Line>> make_socket_line(int party, int sockets, Board& board) {
  RONDE_TRY(std::vector<UniqueFd> made, party == 0 ? accept_all(sockets, board) : connect_all(sockets, board));
  const int on = 1;
  for (const UniqueFd& fd : made) setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return std::unique_ptr<Line>(std::make_unique<SocketLine>(std::move(made)));
}

std::unique_ptr<Line> make_memory_line() { return std::make_unique<MemoryLine>(); }

}  // namespace ronde::fifo_tool
