#include "boot/interfaces.h"

#include <fmt/core.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>

#include "base/lists.h"
#include "base/log.h"

namespace ronde {
namespace {

constexpr size_t kMost = 16;
enum Class : int { kInfiniband, kOrdinary, kContainer, kLoopback };

int class_of(const Interface& interface) {
  static constexpr std::string_view container[] = {"docker", "br-", "veth", "virbr", "cni", "flannel", "cali", "tunl"};
  if (interface.loopback) return kLoopback;
  for (const std::string_view prefix : container) {
    if (interface.name.starts_with(prefix)) return kContainer;
  }
  return interface.name.starts_with("ib") ? kInfiniband : kOrdinary;
}

bool family_fits(const Interface& interface, std::string_view family) {
  return family == "any" || family == (interface.address.family == 4 ? "AF_INET" : "AF_INET6");
}

/// The number of bits set in a netmask.
uint8_t prefix_of(const sockaddr* netmask, const Address& address) {
  if (netmask == nullptr) return 0;
  sockaddr_storage mask{};  // the kernel's may say no family
  std::memcpy(&mask, netmask, address.family == 4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
  const auto* at = address.family == 4 ? reinterpret_cast<const uint8_t*>(&reinterpret_cast<sockaddr_in*>(&mask)->sin_addr)
                                       : reinterpret_cast<const uint8_t*>(&reinterpret_cast<sockaddr_in6*>(&mask)->sin6_addr);
  int bits = 0;
  for (int i = 0; i < (address.family == 4 ? 4 : 16); ++i) bits += std::popcount(at[i]);
  return static_cast<uint8_t>(bits);
}

}  // namespace

std::vector<Interface> list_interfaces() {
  std::vector<Interface> all;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return all;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    Interface interface;
    interface.name = one->ifa_name;
    interface.address = from_sockaddr(one->ifa_addr);
    if (interface.address.family == 0) continue;
    interface.prefix = prefix_of(one->ifa_netmask, interface.address);
    interface.up = (one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_RUNNING) != 0;
    interface.loopback = (one->ifa_flags & IFF_LOOPBACK) != 0;
    all.push_back(std::move(interface));
  }
  freeifaddrs(list);
  return all;
}

InterfaceFilter::InterfaceFilter(std::string_view text) {
  if (text.starts_with('^')) {
    exclude_ = true;
    text.remove_prefix(1);
  }
  if (text.starts_with('=')) {
    exact_ = true;
    text.remove_prefix(1);
  }
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    if (comma > 0) names_.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
}

int InterfaceFilter::place(std::string_view name) const {
  for (size_t i = 0; i < names_.size(); ++i) {
    if (exact_ ? name == names_[i] : name.starts_with(names_[i])) return static_cast<int>(i);
  }
  return -1;
}

std::vector<Interface> choose_interfaces(std::span<const Interface> all, std::string_view ifname, std::string_view family) {
  const InterfaceFilter filter(ifname);
  const bool named = filter.chosen() && !ifname.starts_with('^');
  std::vector<Interface> chosen;
  int best = kLoopback;
  for (const Interface& one : all) {
    if (!one.up || !family_fits(one, family) || (filter.chosen() && !filter.admits(one.name))) continue;
    best = std::min(best, class_of(one));
    chosen.push_back(one);
  }
  if (!named) {
    const int worst = std::max<int>(best, kOrdinary);
    std::erase_if(chosen, [&](const Interface& one) { return class_of(one) > worst; });
  }
  const auto key = [&](const Interface& one) {
    const int kind = one.address.family == 4 ? 0 : one.address.link_local() ? 2 : 1;
    return std::make_tuple(named ? filter.place(one.name) : class_of(one), kind);
  };
  std::stable_sort(chosen.begin(), chosen.end(), [&](const Interface& a, const Interface& b) { return key(a) < key(b); });
  if (chosen.size() > kMost) chosen.resize(kMost);
  return chosen;
}

std::vector<Interface> usable_interfaces(const Config& config) {
  const std::vector<Interface> all = list_interfaces();
  const std::string& ifname = config.text(Setting::socket_ifname);
  std::vector<Interface> chosen = choose_interfaces(all, ifname, config.text(Setting::socket_family));
  if (chosen.empty() && !ifname.empty()) {
    std::vector<std::string> names;
    for (const Interface& one : all) {
      if (one.up && std::find(names.begin(), names.end(), one.name) == names.end()) names.push_back(one.name);
    }
    log_once(
        fmt::format("{}={} with address family {} fits none of the interfaces that are up ({}); "
                    "ranks on other hosts cannot reach this process",
                    config.source(Setting::socket_ifname), ifname, config.text(Setting::socket_family),
                    names.empty() ? "none" : comma_list(names)));
  }
  return chosen;
}

}  // namespace ronde
