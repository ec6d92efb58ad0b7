#include "boot/address.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace ronde {

std::string to_string(const Address& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.family == 4) {
    inet_ntop(AF_INET, address.ip.data(), text, sizeof text);
    return fmt::format("{}:{}", text, address.port);
  }
  if (address.family != 6) return "no address";
  inet_ntop(AF_INET6, address.ip.data(), text, sizeof text);
  char name[IF_NAMESIZE] = "";
  const bool scoped = address.scope != 0 && if_indextoname(address.scope, name) != nullptr;
  return fmt::format("[{}{}{}]:{}", text, scoped ? "%" : "", name, address.port);
}

socklen_t to_sockaddr(const Address& address, sockaddr_storage* out) {
  std::memset(out, 0, sizeof *out);
  if (address.family == 4) {
    auto* in = reinterpret_cast<sockaddr_in*>(out);
    in->sin_family = AF_INET;
    in->sin_port = htons(address.port);
    std::memcpy(&in->sin_addr, address.ip.data(), 4);
    return sizeof *in;
  }
  auto* in = reinterpret_cast<sockaddr_in6*>(out);
  in->sin6_family = AF_INET6;
  in->sin6_port = htons(address.port);
  in->sin6_scope_id = address.scope;
  std::memcpy(&in->sin6_addr, address.ip.data(), 16);
  return sizeof *in;
}

Address from_sockaddr(const sockaddr* in) {
  Address address;
  if (in != nullptr && in->sa_family == AF_INET) {
    const auto* four = reinterpret_cast<const sockaddr_in*>(in);
    address.family = 4;
    address.port = ntohs(four->sin_port);
    std::memcpy(address.ip.data(), &four->sin_addr, 4);
  } else if (in != nullptr && in->sa_family == AF_INET6) {
    const auto* six = reinterpret_cast<const sockaddr_in6*>(in);
    address.port = ntohs(six->sin6_port);
    const bool mapped = IN6_IS_ADDR_V4MAPPED(&six->sin6_addr);
    address.family = mapped ? 4 : 6;
    if (!mapped) address.scope = six->sin6_scope_id;
    std::memcpy(address.ip.data(), six->sin6_addr.s6_addr + (mapped ? 12 : 0), mapped ? 4 : 16);
  }
  return address;
}

Result<std::vector<Address>> parse_address(std::string_view text) {
  const Error bad =
      fail(Code::invalid_argument, fmt::format("\"{}\" is no address: expected ip:port, [ipv6]:port or host:port", text));
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return bad;
  std::string_view host = text.substr(0, colon);
  const std::string port(text.substr(colon + 1));
  const bool bracketed = host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (host.empty() || (!bracketed && host.find(':') != std::string_view::npos)) return bad;
  unsigned number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc() || end != port.data() + port.size() || number == 0 || number > 65535) return bad;

  addrinfo hints{};
  hints.ai_family = bracketed ? AF_INET6 : AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int rc = getaddrinfo(std::string(host).c_str(), nullptr, &hints, &list);
  if (rc != 0) {
    return fail(rc == EAI_SYSTEM ? Code::system_error : Code::invalid_argument,
                fmt::format("resolving the address \"{}\": {}; use a numeric address or mend the name service", text,
                            rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc)));
  }
  std::vector<Address> addresses;
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
    Address address = from_sockaddr(one->ai_addr);
    address.port = static_cast<uint16_t>(number);
    if (address.family != 0 && std::find(addresses.begin(), addresses.end(), address) == addresses.end()) {
      addresses.push_back(address);
    }
  }
  freeaddrinfo(list);
  if (addresses.empty()) return bad;
  return addresses;
}

std::string to_string(const Place& place) { return fmt::format("process {} on host {}", place.pid, place.host_name); }

void pack(Writer& out, const Place& place) {
  out.put(place.process).put(place.host).put(place.pid).text(place.host_name);
  out.put(static_cast<uint32_t>(place.addresses.size()));
  for (const Address& address : place.addresses) out.put(address.family).put(address.ip).put(address.port);
}

Place unpack_place(Reader& in) {
  Place place;
  place.process = in.get<uint64_t>();
  place.host = in.get<uint64_t>();
  place.pid = in.get<uint32_t>();
  place.host_name = in.text();
  const auto count = in.get<uint32_t>();
  for (uint32_t i = 0; i < count && in.ok(); ++i) {
    Address address;
    address.family = in.get<uint8_t>();
    address.ip = in.get<std::array<uint8_t, 16>>();
    address.port = in.get<uint16_t>();
    if (in.ok() && (address.family == 4 || address.family == 6)) place.addresses.push_back(address);
  }
  return place;
}

}  // namespace ronde
