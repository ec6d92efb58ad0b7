// What a joining rank and the root say to each other.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "boot/address.h"
#include "boot/wire.h"

namespace ronde {

/// From a rank: here I am. The frame's `from` is the rank, its `tag` the ticket that names it until there is a communicator.
struct JoinMessage {
  uint32_t protocol = 0;  ///< these two come first in every version
  uint32_t version = 0;
  int32_t rank = 0;
  int32_t ranks = 0;
  uint32_t ids = 0;       ///< number of unique ids
  uint64_t ids_hash = 0;  ///< of all of them
  Place place;

  Bytes pack() const;
  static JoinMessage unpack(std::span<const std::byte> bytes, bool* ok);
};

/// From the root, as message of the mailbox {0, ticket}.
struct Reply {
  enum class Kind : uint8_t {
    listen = 1,    ///< open a TCP listener and send your Place again
    hand_out = 2,  ///< all have come: token and neighbours
    failed = 3,
    later = 4,  ///< another communicator is being made at this fixed address
  };
  Kind kind = Kind::failed;
  Token token{};
  bool one_process = false;
  std::vector<std::pair<int32_t, Place>> neighbours;  ///< the ranks to which this one sends in an all-gather
  Error error;

  Bytes pack() const;
  static Reply unpack(std::span<const std::byte> bytes);
};

void pack_error(Writer& out, const Error& error);
Error unpack_error(std::span<const std::byte> bytes);

}  // namespace ronde
