#include "boot/handshake.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "base/fd.h"

namespace ronde {
namespace {

constexpr uint32_t kMagic = 0x4b534e52;  // "RNSK"
constexpr uint16_t kFormat = 1;

std::array<uint64_t, 2> seal(const Secret& secret, std::string_view side, const Hello& hello, Challenge challenge) {
  challenge.proof = {};
  std::byte both[sizeof hello + sizeof challenge];
  std::memcpy(both, &hello, sizeof hello);
  std::memcpy(both + sizeof hello, &challenge, sizeof challenge);
  return keyed_hash(secret, side, both);
}

bool equal(const std::array<uint64_t, 2>& a, const std::array<uint64_t, 2>& b) {
  return ((a[0] ^ b[0]) | (a[1] ^ b[1])) == 0;  // takes the same time wherever they differ
}

}  // namespace

Result<Hello> make_hello(const PublicId& id, uint64_t target, uint64_t process) {
  Hello hello{kMagic, kFormat, 0, id, target, process, {}};
  RONDE_TRY(fill_random(std::as_writable_bytes(std::span(hello.nonce))));
  return hello;
}

bool is_hello(const Hello& hello) { return hello.magic == kMagic && hello.format == kFormat && hello.reserved == 0; }

bool begins_hello(std::span<const std::byte> bytes) {
  const Hello right{kMagic, kFormat, 0, {}, 0, 0, {}};
  return std::memcmp(bytes.data(), &right, std::min(bytes.size(), offsetof(Hello, id))) == 0;
}

Result<Challenge> make_challenge(const Hello& hello, Greeting greeting, uint64_t process, const Secret* secret) {
  Challenge challenge{kMagic, kFormat, greeting, process, {}, {}};
  if (secret == nullptr) return challenge;
  RONDE_TRY(fill_random(std::as_writable_bytes(std::span(challenge.nonce))));
  challenge.proof = seal(*secret, "server", hello, challenge);
  return challenge;
}

bool proves(const Challenge& challenge, const Hello& hello, const Secret& secret) {
  return challenge.magic == kMagic && challenge.format == kFormat && (hello.target == 0 || hello.target == challenge.process) &&
         equal(challenge.proof, seal(secret, "server", hello, challenge));
}

Proof make_proof(const Challenge& challenge, const Hello& hello, const Secret& secret) {
  return {seal(secret, "client", hello, challenge)};
}

bool proves(const Proof& proof, const Challenge& challenge, const Hello& hello, const Secret& secret) {
  return equal(proof.proof, seal(secret, "client", hello, challenge));
}

}  // namespace ronde
