// Addresses of RDMA ports (GIDs), and which pair of them a connection uses.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/result.h"
#include "boot/interfaces.h"
#include "topo/sysfs.h"

namespace ronde::net {

/// One entry of a port's GID table.
struct Gid {
  std::array<uint8_t, 16> bytes{};
  int index = 0;
  uint8_t roce = 0;      ///< version of RoCE: 1 or 2; 0 on InfiniBand
  uint8_t prefix = 0;    ///< leading bits of `bytes` that its network shares; 0: not known
  bool version = false;  ///< of the version of RoCE that its side prefers
  bool family = false;   ///< of the address family that its side prefers

  bool operator==(const Gid&) const = default;
  bool mapped() const;      ///< an IPv4 address
  bool link_local() const;  ///< fe80::/10, or 169.254.0.0/16
};

/// "10.0.0.1", "fe80::1".
std::string to_string(const Gid& gid);

/// A port's table as /sys has it, without empty entries; prefixes from the addresses of `interfaces`.
std::vector<Gid> read_gids(const topo::HostFiles& files, const std::string& adapter, int port,
                           std::span<const Interface> interfaces);

/// What a side wants of its GIDs.
struct GidWishes {
  int64_t index = -1;  ///< the only one to use; -1: any
  uint8_t roce = 2;
  bool ipv4 = true;
  std::optional<Gid> range;  ///< those in the network of its `bytes` and `prefix` alone
  std::string index_source;  ///< what set the index
};
/// By NCCL_IB_GID_INDEX, NCCL_IB_ADDR_FAMILY, NCCL_IB_ADDR_RANGE and NCCL_IB_ROCE_VERSION_NUM.
Result<GidWishes> gid_wishes(const Config& config);

inline constexpr size_t kMaxGids = 16;  ///< that one side offers
/// What a side may use, best first, at most kMaxGids; an error says that there is none and why.
Result<std::vector<Gid>> offered_gids(std::span<const Gid> table, const GidWishes& wishes);

/// Places in two lists, and why these.
struct GidPair {
  size_t sender = 0;
  size_t receiver = 0;
  int worth = 0;       ///< more is better
  std::string reason;  ///< "RoCE v2, IPv4, one subnet"
};
/// The best pair of what both ends of a connection offer; both find the same. Only GIDs of one version of RoCE, one family and
/// one reach go together. By this order: the preferred version, one subnet, the preferred family, routable before link-local, the
/// sender's place, the receiver's.
std::optional<GidPair> choose_gids(std::span<const Gid> sender, std::span<const Gid> receiver);

}  // namespace ronde::net
