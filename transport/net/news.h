// What ranks on different hosts tell each other over the bootstrap: how to connect, what their control blocks say, and fatal errors.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "boot/wire.h"
#include "fifo/control.h"
#include "transport/net/net.h"

namespace ronde::net {

/// From a writer: "I want to send you slots of this link."
struct OpenNews {
  int32_t link = 0;
  int32_t attempt = 0;  ///< an answer to an earlier one counts no more
  int32_t device = 0;   ///< the reader's, modulo the number of its devices
};
/// From the reader: where it listens for that.
struct ListeningNews {
  int32_t link = 0;
  int32_t attempt = 0;
  int32_t devices = 0;  ///< how many the reader has
  Handle handle{};
};
/// From the reader: it cannot.
struct RefusedNews {
  int32_t link = 0;
  int32_t attempt = 0;
  int32_t devices = 0;
  std::string why;
};
/// "Tell me what your control block says."
struct LookNews {
  uint64_t number = 0;  ///< comes back with the answer
  uint64_t probe = 0;   ///< of the mirror: where it has grown, the rank is to look again at all it waits for
};

/// What a control block says. Every field as there.
struct ControlNews {
  uint32_t state = 0, in_split = 0, blocked = 0;
  uint64_t issued = 0, splits = 0, last_what = 0, last_count = 0, waiting_what = 0, waiting_sequence = 0, waiting_count = 0, epoch = 0;
  uint64_t number = 0;        ///< of the LookNews that this answers; 0: of none
  uint64_t probe_answer = 0;  ///< the last probe of the mirror that was answered, or an earlier one
  struct Record {
    uint64_t version, what, count, fingerprint;
  };
  std::array<Record, kCallHistory> history{};
  /// Slots published so far to the rank that is told, by link: what says that this rank has left counts once they have come.
  std::vector<std::pair<int32_t, uint64_t>> sent;
  /// Of what the rank that is told has sent.
  struct Taken {
    int32_t link;
    uint64_t come;   ///< slots that have come
    uint64_t taken;  ///< of them the executor is done with
  };
  std::vector<Taken> taken;
  std::vector<uint64_t> waits;  ///< the wait set
};
/// A fatal error that the sender has found, for the mailbox of the control block.
struct MailNews {
  uint32_t code = 0;
  std::string text;
};

/// A connection that worked has broken at the sender's end, and why.
struct LostNews {
  std::string why;
};

using News = std::variant<OpenNews, ListeningNews, RefusedNews, LookNews, ControlNews, MailNews, LostNews>;

/// Whether a rank whose control block says that RankState reads no slot any more.
bool takes_nothing_more(uint32_t state);

Bytes pack(const News& news);
/// nullopt for what no rank of this library sends.
std::optional<News> unpack(std::span<const std::byte> bytes);

/// Reads the control block of one of `ranks` ranks, which its owner may be writing.
ControlNews read_control(ControlBlock& block, int ranks);
/// Makes `mirror`, of which the caller is the only writer, say what `news` says, apart from the state.
void write_control(ControlBlock& mirror, int ranks, const ControlNews& news);

}  // namespace ronde::net
