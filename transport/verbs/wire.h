// The control stream of a connection: what its two ends tell each other beside the queue pairs. It is authenticated as a stream
// of the network Socket; its end is the end of the peer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "boot/fork.h"
#include "boot/wire.h"
#include "transport/socket/ends.h"
#include "transport/verbs/gid.h"

namespace ronde::net {

/// How to reach one end's queue pairs, and, where they are made anew, what has come.
struct Card {
  uint32_t generation = 0;  ///< counts the sets of queue pairs of a connection
  std::string device;       ///< "mlx5_0:1"
  bool ethernet = false;
  uint8_t mtu = 0;  ///< ibv_mtu
  uint16_t lid = 0;
  std::vector<Gid> gids;
  struct Queue {
    uint32_t number = 0;
    uint32_t first_packet = 0;
  };
  std::vector<Queue> queues;
  uint64_t block = 0;  ///< address of the block
  uint32_t block_key = 0;
  uint64_t whole = 0;       ///< receiver: number of the first message that has not come whole
  uint64_t whole_mask = 0;  ///< receiver: bit i: message whole + i has
};
Bytes pack(const Card& card);
std::optional<Card> unpack_card(std::span<const std::byte> bytes);

class Wire {
 public:
  enum class Kind : uint32_t {
    card = 1,
    up = 2,      ///< sender to receiver: its queue pairs of the generation of its last card can take what comes
    broken = 3,  ///< receiver to sender: the queue pairs have failed, with the reason as text
  };
  struct Letter {
    Kind kind = Kind::card;
    Bytes bytes;
  };

  /// `interface`: for texts.
  Wire(BootFd fd, std::string interface);

  int descriptor() const { return fd_.get(); }
  const Ends& ends() const { return ends_; }
  void put(Kind kind, const Bytes& bytes);
  /// Sends and reads what can be. An error once the stream has ended and all that came over it was taken.
  Result<> move();
  std::optional<Letter> take();
  bool ended() const { return ended_.has_value(); }

 private:
  struct Header {
    uint32_t magic = 0;
    Kind kind = Kind::card;
    uint32_t bytes = 0;
  };
  static constexpr uint32_t kMagic = 0x31425652;  // "RVB1"; another format has another one
  static constexpr size_t kMaxLetter = 1 << 16;

  Result<> flush();
  void read();

  BootFd fd_;
  Ends ends_;
  Bytes out_;
  size_t sent_ = 0;
  Bytes in_;
  std::optional<int> ended_;  // errno; 0: the peer has closed it
};

}  // namespace ronde::net
