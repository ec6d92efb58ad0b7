#include "transport/socket/receiver.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/core.h>

namespace ronde::net {

Result<std::unique_ptr<Receiver>> SocketListener::accept() {
  RONDE_TRY(std::vector<BootFd> streams, door_->take(number_));
  if (streams.empty()) return std::unique_ptr<Receiver>();
  return std::unique_ptr<Receiver>(std::make_unique<SocketReceiver>(std::move(streams), interface_));
}

SocketReceiver::SocketReceiver(std::vector<BootFd> streams, const std::string& interface)
    : ends_(ends_of(streams.at(0).get(), interface)) {
  for (BootFd& fd : streams) {
    streams_.push_back(std::make_unique<Stream>());
    streams_.back()->fd = std::move(fd);
  }
}

std::vector<int> SocketReceiver::descriptors() const {
  std::vector<int> all;
  for (const auto& stream : streams_) all.push_back(stream->fd.get());
  return all;
}

void SocketReceiver::signalled() {
  for (const auto& stream : streams_) stream->dry = false;
}

std::string SocketReceiver::describe() const { return net::describe(ends_.there, ends_.here, ends_.interface, streams_.size()); }

Error SocketReceiver::break_off(Error error) {
  error_ = error;
  return error;
}

Result<bool> SocketReceiver::post(std::span<std::byte> room) {
  if (error_.has_value()) return *error_;
  if (posted_ - done_ == kMaxUnderWay) return false;
  room_of(posted_++) = Room{room};
  return true;
}

Result<std::optional<size_t>> SocketReceiver::done() {
  if (error_.has_value()) return *error_;
  for (size_t i = 0; i < streams_.size() && !whole(); ++i) {
    Result<> read_on = read(i);
    if (!read_on.ok()) return break_off(std::move(read_on).error());
  }
  if (whole()) return std::optional<size_t>(room_of(done_++).total);
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (owes(i)) return break_off(broken_stream(ends_, "receiving", *streams_[i]->ended));
  }
  return std::optional<size_t>();
}

// The stream has ended, and something of the oldest message that is not whole had to come over it.
bool SocketReceiver::owes(size_t index) {
  const Stream& stream = *streams_[index];
  if (!stream.ended.has_value()) return false;
  if (done_ != posted_ && room_of(done_).begun) {
    const Cut cut(done_, room_of(done_).total, static_cast<uint32_t>(streams_.size()));
    if (cut.part_on(static_cast<uint32_t>(index)) >= cut.parts) return false;
    return stream.next <= done_ || (stream.number == done_ && !stream.part.empty());
  }
  return done_ % streams_.size() == index && stream.next <= done_;
}

// Reads until the stream is dry, needs room that post() has not given, or the oldest message is whole.
Result<> SocketReceiver::read(size_t index) {
  Stream& stream = *streams_[index];
  while (true) {
    RONDE_TRY(const bool hungry, digest(index));
    if (!hungry || stream.dry || stream.ended.has_value() || whole()) return {};
    fill(stream);
  }
}

void SocketReceiver::fill(Stream& stream) {
  iovec parts[2] = {{stream.part.data(), stream.part.size()}, {stream.ahead.data() + stream.end, kAhead - stream.end}};
  const bool direct = !stream.part.empty();
  msghdr message{};
  message.msg_iov = direct ? parts : parts + 1;
  message.msg_iovlen = direct ? 2 : 1;
  const ssize_t n = recvmsg(stream.fd.get(), &message, MSG_DONTWAIT);
  if (n < 0 && errno == EINTR) return;
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    stream.dry = true;
    return;
  }
  if (n <= 0) {
    stream.ended = n == 0 ? 0 : errno;
    return;
  }
  const size_t into_part = std::min(static_cast<size_t>(n), stream.part.size());
  stream.end += static_cast<size_t>(n) - into_part;
  if (direct) advance(stream, into_part);
}

// `bytes` more of the part have come.
void SocketReceiver::advance(Stream& stream, size_t bytes) {
  stream.part = stream.part.subspan(bytes);
  if (stream.part.empty()) --room_of(stream.number).missing;
}

// Uses what was read ahead. False: it needs room that post() has not given.
Result<bool> SocketReceiver::digest(size_t index) {
  Stream& stream = *streams_[index];
  while (stream.begin != stream.end) {
    if (!stream.part.empty()) {
      const size_t bytes = std::min(stream.end - stream.begin, stream.part.size());
      std::memcpy(stream.part.data(), stream.ahead.data() + stream.begin, bytes);
      stream.begin += bytes;
      advance(stream, bytes);
      continue;
    }
    if (stream.end - stream.begin < sizeof(Frame)) break;
    RONDE_TRY(const bool opened, open_part(index));
    if (!opened) return false;
  }
  std::memmove(stream.ahead.data(), stream.ahead.data() + stream.begin, stream.end - stream.begin);  // less than a Frame
  stream.end -= stream.begin;
  stream.begin = 0;
  return true;
}

// Nothing that comes may lead outside of the room for its message, whoever sent it.
Result<bool> SocketReceiver::open_part(size_t index) {
  Stream& stream = *streams_[index];
  const auto streams = static_cast<uint32_t>(streams_.size());
  Frame frame;
  std::memcpy(&frame, stream.ahead.data() + stream.begin, sizeof frame);
  if (!is_frame(frame))
    return foreign_stream(
        ends_, fmt::format("what came on socket {} where message {} or later should begin is none", index, stream.next));
  const Cut cut(frame.number, frame.total, streams);
  const uint32_t part_number = cut.part_on(static_cast<uint32_t>(index));
  // The first message from `next` on whose first part comes here cannot be passed over.
  const uint64_t last = stream.next + (index + streams - stream.next % streams) % streams;
  if (frame.number < stream.next || frame.number > last || part_number >= cut.parts) {
    return foreign_stream(ends_, fmt::format("message {} of {} bytes came on socket {} where one from {} to {} should",
                                             frame.number, frame.total, index, stream.next, last));
  }
  if (frame.number >= posted_) return false;
  Room& room = room_of(frame.number);
  if (frame.total > room.memory.size()) {
    return foreign_stream(
        ends_, fmt::format("message {} has {} bytes, where at most {} fit", frame.number, frame.total, room.memory.size()));
  }
  if (room.begun && room.total != frame.total) {
    return foreign_stream(
        ends_, fmt::format("message {} has {} bytes on one socket and {} on another", frame.number, room.total, frame.total));
  }
  if (!room.begun) {
    room.begun = true;
    room.total = frame.total;
    room.missing = cut.parts;
  }
  const Part part = cut.part(part_number);
  stream.begin += sizeof frame;
  stream.next = frame.number + 1;
  stream.number = frame.number;
  stream.part = room.memory.subspan(part.begin, part.bytes);
  if (stream.part.empty()) --room.missing;  // an empty message
  return true;
}

}  // namespace ronde::net
