// SipHash-2-4 (Aumasson and Bernstein), the keyed hash that authenticates connections of the bootstrap.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace ronde {

/// 128 secret bits, as made for each unique id.
using Secret = std::array<uint64_t, 2>;

namespace detail {
struct SipState {
  uint64_t v0, v1, v2, v3;

  static constexpr uint64_t rotate(uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }
  constexpr void round() {
    v0 += v1, v2 += v3;
    v1 = rotate(v1, 13) ^ v0, v3 = rotate(v3, 16) ^ v2;
    v0 = rotate(v0, 32);
    v2 += v1, v0 += v3;
    v1 = rotate(v1, 17) ^ v2, v3 = rotate(v3, 21) ^ v0;
    v2 = rotate(v2, 32);
  }
  constexpr void absorb(uint64_t word) {
    v3 ^= word;
    round();
    round();
    v0 ^= word;
  }
};
}  // namespace detail

/// The 64-bit SipHash-2-4 of `bytes` under `key`.
inline uint64_t siphash(const Secret& key, std::span<const std::byte> bytes) {
  detail::SipState s{key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du, key[0] ^ 0x6c7967656e657261u,
                     key[1] ^ 0x7465646279746573u};
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + at, 8);
    s.absorb(word);
  }
  uint64_t last = static_cast<uint64_t>(bytes.size()) << 56;
  for (size_t i = 0; at + i < bytes.size(); ++i) last |= static_cast<uint64_t>(bytes[at + i]) << (8 * i);
  s.absorb(last);
  s.v2 ^= 0xff;
  for (int i = 0; i < 4; ++i) s.round();
  return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

/// 128 bits that only a holder of `secret` can make of `message`. Different purposes (at most 31 characters) give unrelated
/// values.
inline std::array<uint64_t, 2> keyed_hash(const Secret& secret, std::string_view purpose, std::span<const std::byte> message) {
  std::array<uint64_t, 4> sub{};  // keys of their own for each purpose
  std::byte label[32]{};
  std::memcpy(label + 1, purpose.data(), purpose.size() < 31 ? purpose.size() : 31);
  for (size_t i = 0; i < sub.size(); ++i) {
    label[0] = static_cast<std::byte>(i);
    sub[i] = siphash(secret, label);
  }
  return {siphash({sub[0], sub[1]}, message), siphash({sub[2], sub[3]}, message)};
}

}  // namespace ronde
