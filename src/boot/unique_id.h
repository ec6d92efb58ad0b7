// What the 128 bytes of a unique id say.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/result.h"
#include "boot/address.h"
#include "boot/bootstrap.h"
#include "boot/siphash.h"

namespace ronde {

/// The name of a secret that may be seen by anybody: says which unique id a connection is for, and cannot be turned back.
using PublicId = std::array<uint64_t, 2>;
PublicId public_id(const Secret& secret);

/// A unique id, unpacked.
struct IdInfo {
  Secret secret{};
  Place root;         ///< the process that made the id: number, host, addresses (those that fitted)
  std::string fixed;  ///< the text of NCCL_COMM_ID where that was set: rank 0 listens there, and `root` is empty
  uint32_t version = 0;
  uint32_t protocol = 0;
};

/// Packs as many addresses as fit, best first. invalid_argument where `fixed` is too long.
Result<UniqueId> encode_id(const IdInfo& info);
/// invalid_argument for anything that encode_id has not made: zeros, a cut id, another library's.
Result<IdInfo> decode_id(const UniqueId& id);

/// The identity of this host: RONDE_HOSTID, or the kernel's boot id with the host name.
uint64_t host_identity(const Config& config);
/// The identity of the machine under it, whose cores containers and pretended hosts share: the kernel's boot id, or the host name where that cannot be read.
uint64_t machine_identity();

}  // namespace ronde
