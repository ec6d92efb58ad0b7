#include "transport/socket/greeting.h"

#include <algorithm>
#include <cstring>

#include "boot/wire.h"
#include "transport/socket/frame.h"

namespace ronde::net {
namespace {

constexpr uint32_t kMagic = 0x314e5352;  // "RSN1"; another format has another one

std::array<uint64_t, 2> seal(const Secret& secret, std::string_view side, Hello hello) {
  hello.proof = {};
  return keyed_hash(secret, side, std::as_bytes(std::span(&hello, 1)));
}

bool equal(const std::array<uint64_t, 2>& a, const std::array<uint64_t, 2>& b) {
  return ((a[0] ^ b[0]) | (a[1] ^ b[1])) == 0;  // takes the same time wherever they differ
}

}  // namespace

Handle to_handle(const Contact& contact) {
  Writer out;
  const size_t count = std::min(contact.addresses.size(), kMaxAddresses);
  out.put(kMagic).put(contact.number).put(contact.secret).put(contact.port).put(static_cast<uint8_t>(count));
  for (size_t i = 0; i < count; ++i) out.put(contact.addresses[i].family).put(contact.addresses[i].ip);
  const Bytes packed = out.take();
  Handle handle{};
  static_assert(4 + 8 + 16 + 2 + 1 + kMaxAddresses * 17 <= sizeof handle);
  std::copy(packed.begin(), packed.end(), handle.begin());
  return handle;
}

Result<Contact> from_handle(const Handle& handle) {
  Reader in(handle);
  Contact contact;
  bool good = in.get<uint32_t>() == kMagic;
  contact.number = in.get<uint64_t>();
  contact.secret = in.get<Secret>();
  contact.port = in.get<uint16_t>();
  const auto count = in.get<uint8_t>();
  good = good && count > 0 && count <= kMaxAddresses && contact.port != 0;
  for (size_t i = 0; good && i < count; ++i) {
    Address address;
    address.family = in.get<uint8_t>();
    address.ip = in.get<std::array<uint8_t, 16>>();
    address.port = contact.port;
    good = address.family == 4 || address.family == 6;
    contact.addresses.push_back(address);
  }
  if (good) return contact;
  return fail(Code::internal_error,
              "what the peer sent to be reached by is no address of the network Socket; use one build of this library, and one "
              "choice of NCCL_NET, on all hosts",
              Scope::connection);
}

Hello make_hello(const Contact& contact, uint32_t stream, uint32_t streams) {
  Hello hello{kMagic, static_cast<uint16_t>(stream), static_cast<uint16_t>(streams), contact.number, {}};
  hello.proof = seal(contact.secret, "net sender", hello);
  return hello;
}

bool begins_hello(std::span<const std::byte> bytes) {
  return std::memcmp(bytes.data(), &kMagic, std::min(bytes.size(), sizeof kMagic)) == 0;
}

bool proves(const Hello& hello, const Secret& secret) {
  return hello.magic == kMagic && hello.streams <= kMaxStreams && hello.stream < hello.streams &&
         equal(hello.proof, seal(secret, "net sender", hello));
}

Welcome make_welcome(const Hello& hello, const Secret& secret) { return {seal(secret, "net receiver", hello)}; }

bool proves(const Welcome& welcome, const Hello& hello, const Secret& secret) {
  return equal(welcome.proof, seal(secret, "net receiver", hello));
}

}  // namespace ronde::net
