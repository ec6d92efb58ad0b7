#include "transport/socket/sender.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <algorithm>
#include <cerrno>

namespace ronde::net {
namespace {

constexpr size_t kPieces = 48;  // of memory in one call
constexpr uint64_t kSilence = 30 * kSecond;

/// The peer's host has answered nothing for that long, though it was asked. One whose process takes nothing answers.
bool silent(int fd) {
  tcp_info info{};
  socklen_t length = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return false;
  return info.tcpi_last_ack_recv >= kSilence / kMillisecond && (info.tcpi_unacked > 0 || info.tcpi_probes > 1);
}

}  // namespace

/// Pieces of memory for one sendmsg().
struct SocketSender::Gather {
  std::array<iovec, kPieces> pieces;
  size_t count = 0;

  bool full() const { return count + 3 > kPieces; }
  /// Adds bytes [skip, skip + most) of `memory`, as far as they exist; takes what was passed over and what was added from both.
  void add(std::span<const std::byte> memory, size_t* skip, size_t* most) {
    const size_t passed = std::min(*skip, memory.size());
    const size_t taken = std::min(*most, memory.size() - passed);
    *skip -= passed;
    *most -= taken;
    if (taken > 0) pieces[count++] = {const_cast<std::byte*>(memory.data() + passed), taken};
  }
};

Result<bool> SocketSender::ready() {
  if (error_.has_value()) return *error_;
  if (dial_ == nullptr) return true;
  Result<bool> up = dial_->step();
  if (!up.ok()) return break_off(std::move(up).error());
  if (!*up) return false;
  for (BootFd& fd : dial_->take()) {
    streams_.push_back(std::make_unique<Stream>());
    streams_.back()->fd = std::move(fd);
  }
  ends_ = ends_of(streams_.at(0)->fd.get(), ends_.interface);
  dial_.reset();
  return true;
}

std::vector<int> SocketSender::descriptors() const {
  if (dial_ != nullptr) return dial_->descriptors();
  std::vector<int> all;
  for (const auto& stream : streams_) all.push_back(stream->fd.get());
  all.push_back(pulse_->descriptor());
  return all;
}

void SocketSender::signalled() {
  news_ = true;
  for (const auto& stream : streams_) stream->full = false;
}

Result<bool> SocketSender::arm() {
  if (dial_ == nullptr && done_ != posted_) pulse_->ask();
  return true;
}

std::string SocketSender::describe() const {
  return dial_ != nullptr ? dial_->describe() : net::describe(ends_.here, ends_.there, ends_.interface, streams_.size());
}

Error SocketSender::break_off(Error error) {
  error_ = error;
  return error;
}

Result<bool> SocketSender::post(std::span<const std::byte> head, std::span<const std::byte> data) {
  if (error_.has_value()) return *error_;
  if (dial_ != nullptr || posted_ - done_ == kMaxUnderWay) return false;
  const uint64_t total = head.size() + data.size();
  const Cut cut(posted_, total, static_cast<uint32_t>(streams_.size()));
  message_of(posted_) = {head, data, cut.parts};
  for (uint32_t i = 0; i < cut.parts; ++i) {
    Stream& stream = *streams_[cut.stream_of(i)];
    stream.at(stream.end++) = {make_frame(posted_, total), cut.part(i)};
  }
  ++posted_;
  for (uint32_t i = 0; i < cut.parts; ++i) {
    Result<> flushed = flush(*streams_[cut.stream_of(i)]);
    if (!flushed.ok()) return break_off(std::move(flushed).error());
  }
  return true;
}

Result<bool> SocketSender::done() {
  if (error_.has_value()) return *error_;
  if (done_ == posted_) return false;
  for (size_t i = 0; i < streams_.size() && message_of(done_).missing > 0; ++i) {
    Result<> flushed = flush(*streams_[i]);
    if (!flushed.ok()) return break_off(std::move(flushed).error());
  }
  if (message_of(done_).missing == 0) {
    ++done_;
    return true;
  }
  Result<> goes_on = look_for_end();
  if (goes_on.ok()) goes_on = look_for_silence();
  if (!goes_on.ok()) return break_off(std::move(goes_on).error());
  return false;
}

// Nothing comes this way: what can be read is the end of the connection.
Result<> SocketSender::look_for_end() {
  if (!news_) return {};
  news_ = false;
  for (const auto& stream : streams_) {
    std::byte byte{};
    const ssize_t n = recv(stream->fd.get(), &byte, 1, MSG_DONTWAIT);
    if (n > 0) return foreign_stream(ends_, "something came back over a connection that goes one way");
    if (n == 0) return broken_stream(ends_, "sending", 0);
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return broken_stream(ends_, "sending", errno);
  }
  return {};
}

// While data is on its way the kernel sends no keepalives, and would go on for a quarter of an hour; its own timeout for that
// (TCP_USER_TIMEOUT) is not for us: see tune_stream().
Result<> SocketSender::look_for_silence() {
  const uint64_t now = now_ns();
  if (now - looked_ < Pulse::kPause / 2) return {};
  looked_ = now;
  if (stuck_at_ != done_) {
    stuck_at_ = done_;
    stuck_ = now;
  }
  if (now - stuck_ < kSilence) return {};
  for (const auto& stream : streams_) {
    if (silent(stream->fd.get())) return broken_stream(ends_, "sending", ETIMEDOUT);
  }
  return {};
}

Result<> SocketSender::flush(Stream& stream) {
  while (stream.begin != stream.end && !stream.full) {
    Gather gather;
    size_t skip = stream.sent;
    for (uint64_t i = stream.begin; i != stream.end && !gather.full(); ++i) {
      const Queued& queued = stream.at(i);
      const Message& message = message_of(queued.frame.number);
      size_t frame_bytes = sizeof(Frame), part_bytes = queued.part.bytes;
      gather.add(std::as_bytes(std::span(&queued.frame, 1)), &skip, &frame_bytes);
      part_bytes -= skip;
      skip += queued.part.begin;
      gather.add(message.head, &skip, &part_bytes);
      gather.add(message.data, &skip, &part_bytes);
      skip = 0;
    }
    msghdr header{};
    header.msg_iov = gather.pieces.data();
    header.msg_iovlen = gather.count;
    const ssize_t n = sendmsg(stream.fd.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      advance(stream, static_cast<size_t>(n));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      stream.full = true;
    } else if (errno != EINTR) {
      return broken_stream(ends_, "sending", errno);
    }
  }
  return {};
}

// The kernel has taken `bytes` more.
void SocketSender::advance(Stream& stream, size_t bytes) {
  stream.sent += bytes;
  while (stream.begin != stream.end) {
    const Queued& first = stream.at(stream.begin);
    const size_t whole = sizeof(Frame) + first.part.bytes;
    if (stream.sent < whole) return;
    stream.sent -= whole;
    --message_of(first.frame.number).missing;
    ++stream.begin;
  }
}

}  // namespace ronde::net
