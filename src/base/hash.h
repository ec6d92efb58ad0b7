// A small stable hash for fingerprints and for comparing inputs between ranks. Not for secrets.
#pragma once

#include <cstdint>
#include <string_view>

namespace ronde {

/// 64-bit FNV-1a (offset basis and prime from the FNV specification), the same on every machine.
constexpr uint64_t fnv1a(std::string_view bytes, uint64_t seed = 0xcbf29ce484222325u) {
  for (const char c : bytes) seed = (seed ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return seed;
}

/// Folds an integer into a running hash, low byte first.
constexpr uint64_t fnv1a_u64(uint64_t value, uint64_t seed) {
  for (int i = 0; i < 8; ++i) seed = (seed ^ ((value >> (8 * i)) & 0xff)) * 0x100000001b3u;
  return seed;
}

}  // namespace ronde
