#include "transport/socket/locals.h"

#include <net/if.h>
#include <algorithm>

#include <fmt/core.h>

#include "base/integers.h"
#include "base/log.h"
#include "transport/socket/frame.h"

namespace ronde::net {
namespace {

// What one thread gets through the loopback interface, roughly: it has no speed of its own, and ranks of one host that are kept
// apart still choose by it.
constexpr double kLoopbackGbps = 20;
constexpr double kGbpsOfStream = 25;
// Their virtual networks limit what one flow may carry, whatever the adapter could.
constexpr int64_t kAmazon = 0x1d0f;
constexpr int64_t kGoogle = 0x1ae0;

double speed_of(const topo::HostFiles& files, const Interface& interface) {
  if (interface.loopback) return kLoopbackGbps;
  const auto mbps = files.number("/sys/class/net/" + interface.name + "/speed");
  return mbps.has_value() && *mbps > 0 ? static_cast<double>(*mbps) / 1000 : 0;
}

/// What the settings ask for; 0: nothing.
uint32_t streams_asked(const Config& config) {
  const int64_t threads = config.integer(Setting::socket_nthreads);
  const int64_t each = config.integer(Setting::nsocks_perthread);
  if (threads == 0 && each == 0) return 0;
  const int64_t asked = std::max<int64_t>(threads, 1) * std::max<int64_t>(each, 1);
  if (asked > kMaxStreams) {
    log_once(fmt::format("{}={} times {}={} sockets for a connection are more than {}: {} are used",
                         config.source(Setting::socket_nthreads), threads, config.source(Setting::nsocks_perthread), each,
                         kMaxStreams, kMaxStreams));
  }
  return static_cast<uint32_t>(std::min<int64_t>(asked, kMaxStreams));
}

int fit(const Local& local, const Address& to) {
  const auto any = [&](auto&& holds) { return std::any_of(local.addresses.begin(), local.addresses.end(), holds); };
  if (is_loopback(to)) return local.addresses.front().loopback ? 0 : 4;
  if (to.link_local()) return any([](const Interface& own) { return own.address.link_local(); }) ? 2 : 4;
  if (any([&](const Interface& own) { return same_network(own, to); })) return 0;
  return any([&](const Interface& own) { return own.address.family == to.family && !own.address.link_local(); }) ? 1 : 3;
}

/// The own address to go from: of the interface, so that the kernel takes no other one; none where that could not reach.
Address source_for(const Local& local, const Address& to) {
  Address best;
  for (const Interface& own : local.addresses) {
    const bool can =
        own.address.family == to.family && own.address.link_local() == to.link_local() && own.loopback == is_loopback(to);
    if (!can) continue;
    if (same_network(own, to)) return own.address;
    if (best.family == 0) best = own.address;
  }
  return best;
}

}  // namespace

bool is_loopback(const Address& address) {
  static constexpr std::array<uint8_t, 16> kSix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return address.family == 4 ? address.ip[0] == 127 : address.ip == kSix;
}

bool same_network(const Interface& interface, const Address& address) {
  if (interface.address.family != address.family) return false;
  unsigned left = interface.prefix;
  for (size_t i = 0; i < address.ip.size() && left > 0; ++i) {
    const unsigned bits = std::min(left, 8u);
    if ((interface.address.ip[i] ^ address.ip[i]) >> (8 - bits) != 0) return false;
    left -= bits;
  }
  return interface.prefix > 0;
}

uint32_t default_streams(double gbps, int64_t vendor) {
  if (vendor == kAmazon) return 8;
  if (vendor == kGoogle) return 4;
  return static_cast<uint32_t>(std::clamp(gbps / kGbpsOfStream, 1.0, 8.0));
}

std::vector<Local> make_locals(const std::vector<Interface>& usable, const topo::HostFiles& files, const Config& config) {
  std::vector<Local> locals;
  const uint32_t asked = streams_asked(config);
  for (const Interface& one : usable) {
    const auto same =
        std::find_if(locals.begin(), locals.end(), [&](const Local& local) { return local.device.name == one.name; });
    if (same != locals.end()) {
      same->addresses.push_back(one);
      continue;
    }
    Local local;
    local.device.name = one.name;
    local.device.pci_path = files.resolve("/sys/class/net/" + one.name + "/device");
    local.device.gbps = speed_of(files, one);
    local.device.gathers = true;
    local.addresses.push_back(one);
    const int64_t vendor = files.number("/sys/class/net/" + one.name + "/device/vendor").value_or(0);
    local.streams = asked > 0 ? asked : one.loopback ? 1 : default_streams(local.device.gbps, vendor);
    locals.push_back(std::move(local));
  }
  return locals;
}

std::vector<Way> ways(const Local& local, const std::vector<Address>& addresses) {
  std::vector<Way> all;
  for (const Address& address : addresses) {
    Way way{address, source_for(local, address)};
    if (address.link_local()) way.to.scope = if_nametoindex(local.device.name.c_str());
    all.push_back(way);
  }
  std::stable_sort(all.begin(), all.end(), [&](const Way& a, const Way& b) { return fit(local, a.to) < fit(local, b.to); });
  return all;
}

}  // namespace ronde::net
