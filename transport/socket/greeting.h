// How a connection begins: what a Handle holds, and how both sides of each stream prove that they hold its secret, without
// sending it.
//
//   sender                                                receiver
//   Hello: which listener, which stream, proof ->
//                                                      <- Welcome: proof
//
// The secret is made for one connection and each of its streams is taken once, so it serves as the nonce too. Whoever proves
// nothing gets no answer.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "boot/address.h"
#include "boot/siphash.h"
#include "transport/net/net.h"

namespace ronde::net {

/// Where a listener is reached. The addresses have no scope; all share one port.
struct Contact {
  uint64_t number = 0;
  Secret secret{};
  uint16_t port = 0;
  std::vector<Address> addresses;
};
inline constexpr size_t kMaxAddresses = 5;  ///< of a Contact: what a Handle has room for

Handle to_handle(const Contact& contact);
/// internal_error where the Handle is no Contact.
Result<Contact> from_handle(const Handle& handle);

struct Hello {
  uint32_t magic = 0;
  uint16_t stream = 0;
  uint16_t streams = 0;
  uint64_t number = 0;  ///< of the listener
  std::array<uint64_t, 2> proof{};
};
struct Welcome {
  std::array<uint64_t, 2> proof{};
};
static_assert(sizeof(Hello) == 32 && sizeof(Welcome) == 16 && std::is_trivially_copyable_v<Hello>);

Hello make_hello(const Contact& contact, uint32_t stream, uint32_t streams);
/// False if no Hello begins with `bytes`.
bool begins_hello(std::span<const std::byte> bytes);
/// True if the sender holds the secret and asks for something that can be.
bool proves(const Hello& hello, const Secret& secret);
Welcome make_welcome(const Hello& hello, const Secret& secret);
bool proves(const Welcome& welcome, const Hello& hello, const Secret& secret);

}  // namespace ronde::net
