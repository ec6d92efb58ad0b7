// What travels between the processes of a bootstrap, and how values are packed into it. Little-endian.
#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace ronde {

static_assert(std::endian::native == std::endian::little, "the wire formats are written as they lie in memory");

using Bytes = std::vector<std::byte>;
/// 128 bits that name a room (the ranks of one communicator), or {0, ticket} for a rank that is still joining.
using Token = std::array<uint64_t, 2>;

/// Number of the protocol that this file, root.cc and room.cc speak. Grows with every change of theirs.
inline constexpr uint32_t kBootProtocol = 3;

enum class FrameKind : uint16_t {
  data = 1,      ///< for a mailbox: the next message of (from, tag)
  poison = 2,    ///< for a mailbox: the exchange of `tag` has failed; payload: code, text
  leave = 3,     ///< for a mailbox: rank `from` has left
  post = 4,      ///< for a mailbox: a message beside the exchanges
  join = 16,     ///< for the root, tag = ticket in all of these: see JoinMessage. Its first two fields never change their place
  address = 17,  ///< for the root: the Place of a rank that was asked to listen
  done = 18,     ///< for the root: the rank knows all others
  give_up = 19,  ///< for the root: the rank ends its attempt; payload: text
  expired = 20,  ///< for the root: the rank's time is over; the root fails the init and says who is missing
};

/// Precedes every payload on an authenticated connection.
struct FrameHeader {
  uint32_t length = 0;  ///< of the payload
  FrameKind kind = FrameKind::data;
  uint16_t reserved = 0;
  Token token{};
  int32_t from = 0;
  int32_t to = 0;
  uint64_t tag = 0;
};
static_assert(sizeof(FrameHeader) == 40 && std::is_trivially_copyable_v<FrameHeader>);
inline constexpr uint32_t kMaxFrame = 1u << 30;

/// Packs values one after the other.
class Writer {
 public:
  template <class T>
  Writer& put(T value) {
    static_assert(std::is_trivially_copyable_v<T> && std::has_unique_object_representations_v<T>);
    return append(std::as_bytes(std::span(&value, 1)));
  }
  Writer& blob(std::span<const std::byte> bytes) {
    return put(static_cast<uint32_t>(bytes.size())).append(bytes);
  }
  Writer& text(std::string_view text) { return blob(std::as_bytes(std::span(text))); }
  Bytes take() { return std::move(out_); }

 private:
  Writer& append(std::span<const std::byte> bytes);
  Bytes out_;
};

/// Unpacks what a Writer packed. Reading past the end gives zeros and makes ok() false.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <class T>
  T get() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    if (bytes_.size() < sizeof value) {
      ok_ = false;
      return value;
    }
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_ = bytes_.subspan(sizeof value);
    return value;
  }
  std::span<const std::byte> blob() {
    const auto size = get<uint32_t>();
    if (size > bytes_.size()) {
      ok_ = false;
      return {};
    }
    const auto part = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return part;
  }
  std::string text() {
    const auto part = blob();
    return std::string(reinterpret_cast<const char*>(part.data()), part.size());
  }
  bool ok() const { return ok_; }

 private:
  std::span<const std::byte> bytes_;
  bool ok_ = true;
};

}  // namespace ronde
