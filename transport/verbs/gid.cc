#include "transport/verbs/gid.h"

#include <arpa/inet.h>
#include <algorithm>
#include <charconv>
#include <cstring>
#include <tuple>

#include <fmt/core.h>

#include "base/lists.h"

namespace ronde::net {
namespace {

constexpr std::array<uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};  // ::ffff:0:0/96
constexpr uint8_t kMappedBits = 96;
constexpr uint8_t kSubnetBits = 64;  // of a GID of InfiniBand

bool same_network(const Gid& a, const Gid& b, unsigned prefix) {
  if (prefix == 0) return false;
  for (size_t i = 0; i < a.bytes.size() && prefix > 0; ++i) {
    const unsigned bits = std::min(prefix, 8u);
    if ((a.bytes[i] ^ b.bytes[i]) >> (8 - bits) != 0) return false;
    prefix -= bits;
  }
  return true;
}

/// The 16 bytes of an internet address.
std::array<uint8_t, 16> bytes_of(const Address& address) {
  if (address.family == 6) return address.ip;
  std::array<uint8_t, 16> bytes{};
  std::copy(kMapped.begin(), kMapped.end(), bytes.begin());
  std::copy_n(address.ip.begin(), 4, bytes.begin() + kMapped.size());
  return bytes;
}

/// "fe80:0000:..." as /sys writes GIDs.
std::optional<std::array<uint8_t, 16>> parse_gid(const std::string& text) {
  std::array<uint8_t, 16> bytes{};
  if (inet_pton(AF_INET6, text.c_str(), bytes.data()) != 1 || bytes == std::array<uint8_t, 16>{}) return std::nullopt;
  return bytes;
}

uint8_t version_of(const std::string& type) {
  if (type.find("RoCE v2") != std::string::npos) return 2;
  // An InfiniBand port says "IB/RoCE v1" too; its link layer tells them apart.
  return type.find("RoCE v1") != std::string::npos ? 1 : 0;
}

/// "10.0.0.0/8", "2001:db8::/32".
std::optional<Gid> parse_range(const std::string& text) {
  const size_t slash = text.find('/');
  const std::string address = text.substr(0, slash);
  Address parsed;
  in_addr four{};
  if (inet_pton(AF_INET, address.c_str(), &four) == 1) {
    parsed.family = 4;
    std::memcpy(parsed.ip.data(), &four, sizeof four);
  } else if (inet_pton(AF_INET6, address.c_str(), parsed.ip.data()) == 1) {
    parsed.family = 6;
  } else {
    return std::nullopt;
  }
  const int whole = parsed.family == 4 ? 32 : 128;
  int prefix = whole;
  if (slash != std::string::npos) {
    const char* const end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data() + slash + 1, end, prefix);
    if (error != std::errc() || at != end || prefix < 0 || prefix > whole) return std::nullopt;
  }
  Gid range;
  range.bytes = bytes_of(parsed);
  range.prefix = static_cast<uint8_t>(prefix + (parsed.family == 4 ? kMappedBits : 0));
  return range;
}

std::string list_of(std::span<const Gid> gids) {
  std::vector<std::string> words;
  for (const Gid& gid : gids) words.push_back(fmt::format("{}: {}", gid.index, to_string(gid)));
  return comma_list(words);
}

}  // namespace

bool Gid::mapped() const { return std::equal(kMapped.begin(), kMapped.end(), bytes.begin()); }

bool Gid::link_local() const {
  if (mapped()) return bytes[12] == 169 && bytes[13] == 254;
  return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

std::string to_string(const Gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (gid.mapped()) {
    inet_ntop(AF_INET, gid.bytes.data() + kMapped.size(), text.data(), text.size());
  } else {
    inet_ntop(AF_INET6, gid.bytes.data(), text.data(), text.size());
  }
  return text.data();
}

std::vector<Gid> read_gids(const topo::HostFiles& files, const std::string& adapter, int port,
                           std::span<const Interface> interfaces) {
  const std::string folder = fmt::format("/sys/class/infiniband/{}/ports/{}", adapter, port);
  const bool ethernet = files.text(folder + "/link_layer").value_or("") == "Ethernet";
  std::vector<Gid> table;
  for (const std::string& name : files.names(folder + "/gids")) {
    const auto bytes = parse_gid(files.text(folder + "/gids/" + name).value_or(""));
    const auto index = topo::parse_number(name);
    if (!bytes.has_value() || !index.has_value()) continue;
    Gid gid;
    gid.bytes = *bytes;
    gid.index = static_cast<int>(*index);
    if (ethernet) {
      gid.roce = version_of(files.text(folder + "/gid_attrs/types/" + name).value_or(""));
    } else {
      gid.prefix = kSubnetBits;
    }
    for (const Interface& one : interfaces) {
      if (one.prefix == 0 || bytes_of(one.address) != gid.bytes) continue;
      gid.prefix = static_cast<uint8_t>(one.prefix + (one.address.family == 4 ? kMappedBits : 0));
      break;
    }
    table.push_back(gid);
  }
  return table;
}

Result<GidWishes> gid_wishes(const Config& config) {
  GidWishes wishes;
  wishes.index = config.integer(Setting::ib_gid_index);
  wishes.index_source = config.source(Setting::ib_gid_index);
  wishes.roce = static_cast<uint8_t>(config.integer(Setting::ib_roce_version_num));
  wishes.ipv4 = config.text(Setting::ib_addr_family) == "AF_INET";
  const std::string& range = config.text(Setting::ib_addr_range);
  if (range.empty()) return wishes;
  wishes.range = parse_range(range);
  if (wishes.range.has_value()) return wishes;
  return fail(Code::invalid_usage,
              fmt::format("{}={} is no range of addresses; write one as 10.0.0.0/8 or 2001:db8::/32",
                          config.source(Setting::ib_addr_range), range),
              Scope::communicator);
}

Result<std::vector<Gid>> offered_gids(std::span<const Gid> table, const GidWishes& wishes) {
  std::vector<Gid> offered;
  for (Gid gid : table) {
    if (wishes.index >= 0 && gid.index != wishes.index) continue;
    if (wishes.index < 0 && wishes.range.has_value() &&
        (!same_network(gid, *wishes.range, wishes.range->prefix) || gid.mapped() != wishes.range->mapped())) {
      continue;
    }
    gid.version = gid.roce == wishes.roce;
    gid.family = gid.mapped() == wishes.ipv4;
    offered.push_back(gid);
  }
  if (offered.empty()) {
    const std::string wanted = wishes.index >= 0 ? fmt::format("index {} ({}) is empty", wishes.index, wishes.index_source)
                               : wishes.range.has_value() ? "none lies in NCCL_IB_ADDR_RANGE"
                                                          : "it is empty; give its interface an address";
    return fail(Code::system_error,
                fmt::format("the GID table has no entry to use: {}; it has {}", wanted, table.empty() ? "none" : list_of(table)));
  }
  std::stable_sort(offered.begin(), offered.end(), [](const Gid& a, const Gid& b) {
    const auto worth = [](const Gid& gid) { return std::tuple(!gid.version, !gid.family, gid.link_local()); };
    return worth(a) < worth(b);
  });
  if (offered.size() > kMaxGids) offered.resize(kMaxGids);
  return offered;
}

std::optional<GidPair> choose_gids(std::span<const Gid> sender, std::span<const Gid> receiver) {
  using Worth = std::tuple<int, bool, int, bool>;
  std::optional<GidPair> best;
  Worth best_worth{};
  for (size_t i = 0; i < sender.size(); ++i) {
    for (size_t j = 0; j < receiver.size(); ++j) {
      const Gid &a = sender[i], &b = receiver[j];
      const bool ethernet = a.roce != 0;
      if (a.roce != b.roce || (ethernet && (a.mapped() != b.mapped() || a.link_local() != b.link_local()))) continue;
      const bool local = ethernet && a.link_local();
      const bool subnet = !local && same_network(a, b, std::max(a.prefix, b.prefix));
      const Worth worth{a.version + b.version, subnet, a.family + b.family, !local};
      if (best.has_value() && worth <= best_worth) continue;
      best_worth = worth;
      const std::string kind = ethernet ? fmt::format("RoCE v{}, {}", a.roce, a.mapped() ? "IPv4" : "IPv6") : "InfiniBand";
      const char* reach = local    ? "link-local, since the two have no routable kind in common"
                          : subnet ? "one subnet"
                                   : "routable, no subnet in common";
      const int number = ((a.version + b.version) * 2 + (subnet ? 1 : 0)) * 6 + (a.family + b.family) * 2 + (local ? 0 : 1);
      best = GidPair{i, j, number, fmt::format("{}, {}", kind, reach)};
    }
  }
  return best;
}

}  // namespace ronde::net
