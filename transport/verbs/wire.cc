#include "transport/verbs/wire.h"

#include <sys/socket.h>
#include <cerrno>
#include <cstring>

#include <fmt/core.h>

#include "transport/verbs/layout.h"

namespace ronde::net {

Bytes pack(const Card& card) {
  Writer out;
  out.put(card.generation).text(card.device).put(static_cast<uint8_t>(card.ethernet)).put(card.mtu).put(card.lid);
  out.put(static_cast<uint8_t>(card.gids.size()));
  for (const Gid& gid : card.gids) {
    out.put(gid.bytes)
        .put(gid.index)
        .put(gid.roce)
        .put(gid.prefix)
        .put(static_cast<uint8_t>(gid.version))
        .put(static_cast<uint8_t>(gid.family));
  }
  out.put(static_cast<uint32_t>(card.queues.size()));
  for (const Card::Queue& queue : card.queues) out.put(queue.number).put(queue.first_packet);
  out.put(card.block).put(card.block_key).put(card.whole).put(card.whole_mask);
  return out.take();
}

std::optional<Card> unpack_card(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Card card;
  card.generation = in.get<uint32_t>();
  card.device = in.text();
  card.ethernet = in.get<uint8_t>() != 0;
  card.mtu = in.get<uint8_t>();
  card.lid = in.get<uint16_t>();
  card.gids.resize(in.get<uint8_t>());
  if (card.gids.size() > kMaxGids) return std::nullopt;
  for (Gid& gid : card.gids) {
    gid.bytes = in.get<std::array<uint8_t, 16>>();
    gid.index = in.get<int>();
    gid.roce = in.get<uint8_t>();
    gid.prefix = in.get<uint8_t>();
    gid.version = in.get<uint8_t>() != 0;
    gid.family = in.get<uint8_t>() != 0;
    if (gid.prefix > 128) return std::nullopt;
  }
  const auto queues = in.get<uint32_t>();
  if (queues == 0 || queues > kMaxQueues) return std::nullopt;
  for (uint32_t i = 0; i < queues; ++i) {
    Card::Queue queue;
    queue.number = in.get<uint32_t>();
    queue.first_packet = in.get<uint32_t>();
    card.queues.push_back(queue);
  }
  card.block = in.get<uint64_t>();
  card.block_key = in.get<uint32_t>();
  card.whole = in.get<uint64_t>();
  card.whole_mask = in.get<uint64_t>();
  return in.ok() ? std::optional(card) : std::nullopt;
}

Wire::Wire(BootFd fd, std::string interface) : fd_(std::move(fd)), ends_(ends_of(fd_.get(), interface)) {}

void Wire::put(Kind kind, const Bytes& bytes) {
  const Header header{kMagic, kind, static_cast<uint32_t>(bytes.size())};
  const auto* const begin = reinterpret_cast<const std::byte*>(&header);
  out_.insert(out_.end(), begin, begin + sizeof header);
  out_.insert(out_.end(), bytes.begin(), bytes.end());
}

Result<> Wire::flush() {
  while (sent_ < out_.size()) {
    const ssize_t n = send(fd_.get(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {};
    if (n < 0) return broken_stream(ends_, "sending on the control stream", errno);
    sent_ += static_cast<size_t>(n);
  }
  out_.clear();
  sent_ = 0;
  return {};
}

void Wire::read() {
  while (!ended_.has_value() && in_.size() <= kMaxLetter) {
    std::array<std::byte, 4096> some;
    const ssize_t n = recv(fd_.get(), some.data(), some.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n <= 0) {
      ended_ = n == 0 ? 0 : errno;
      return;
    }
    in_.insert(in_.end(), some.begin(), some.begin() + n);
  }
}

Result<> Wire::move() {
  read();
  if (in_.size() >= sizeof(Header)) {
    Header header;
    std::memcpy(&header, in_.data(), sizeof header);
    if (header.magic != kMagic || header.bytes > kMaxLetter)
      return foreign_stream(ends_, "what came on the control stream is no message of this library");
    if (in_.size() >= sizeof header + header.bytes) return {};  // to be taken first
  }
  if (ended_.has_value()) return broken_stream(ends_, "talking on the control stream", *ended_);
  return flush();
}

std::optional<Wire::Letter> Wire::take() {
  Header header;
  if (in_.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, in_.data(), sizeof header);
  const size_t whole = sizeof header + header.bytes;
  if (header.magic != kMagic || in_.size() < whole) return std::nullopt;
  Letter letter{header.kind, Bytes(in_.begin() + sizeof header, in_.begin() + static_cast<ptrdiff_t>(whole))};
  in_.erase(in_.begin(), in_.begin() + static_cast<ptrdiff_t>(whole));
  return letter;
}

}  // namespace ronde::net
