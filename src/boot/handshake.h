// How two processes prove to each other that they hold the secret of a unique id, without sending it. The messages have fixed
// sizes.
//
//   client                                              server
//   Hello: which id, which process is wanted, nonce ->
//                                                    <- Challenge: who answers, nonce, proof over both nonces
//   Proof over both nonces                           ->
//
// This exchange never changes, so that versions that differ later (JoinMessage) can still tell each other so.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "boot/siphash.h"
#include "boot/unique_id.h"

namespace ronde {

struct Hello {
  uint32_t magic = 0;
  uint16_t format = 0;
  uint16_t reserved = 0;
  PublicId id{};
  uint64_t target = 0;   ///< the process that is wanted; 0: whoever answers here (NCCL_COMM_ID)
  uint64_t process = 0;  ///< the client's
  std::array<uint64_t, 2> nonce{};
};

enum class Greeting : uint16_t {
  welcome = 0,
  unknown = 1,  ///< this process is not the one that is wanted, or knows nothing of the id; carries no proof
  used_up = 2,  ///< the id has made its communicator, or has failed to
};

struct Challenge {
  uint32_t magic = 0;
  uint16_t format = 0;
  Greeting greeting = Greeting::unknown;
  uint64_t process = 0;  ///< the server's
  std::array<uint64_t, 2> nonce{};
  std::array<uint64_t, 2> proof{};
};

struct Proof {
  std::array<uint64_t, 2> proof{};
};

static_assert(sizeof(Hello) == 56 && sizeof(Challenge) == 48 && sizeof(Proof) == 16);
static_assert(std::is_trivially_copyable_v<Hello> && std::is_trivially_copyable_v<Challenge>);

Result<Hello> make_hello(const PublicId& id, uint64_t target, uint64_t process);
/// True for what make_hello makes; anything else is a stranger's.
bool is_hello(const Hello& hello);
/// False if no Hello begins with `bytes`.
bool begins_hello(std::span<const std::byte> bytes);
/// `secret` may be null for `unknown` alone.
Result<Challenge> make_challenge(const Hello& hello, Greeting greeting, uint64_t process, const Secret* secret);
/// True if the server holds the secret and is the process that was wanted.
bool proves(const Challenge& challenge, const Hello& hello, const Secret& secret);
Proof make_proof(const Challenge& challenge, const Hello& hello, const Secret& secret);
bool proves(const Proof& proof, const Challenge& challenge, const Hello& hello, const Secret& secret);

}  // namespace ronde
