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
struct LookNews {};

/// What a control block says. Every field as there.
struct ControlNews {
  uint32_t state = 0, in_split = 0;
  uint64_t issued = 0, splits = 0, last_what = 0, last_count = 0, waiting_what = 0, waiting_sequence = 0, waiting_count = 0;
  struct Record {
    uint64_t version, what, count, fingerprint;
  };
  std::array<Record, kCallHistory> history{};
  /// Slots published so far to the rank that is told, by link: what says that this rank has left counts once they have come.
  std::vector<std::pair<int32_t, uint64_t>> sent;
};
/// A fatal error that the sender has found, for the mailbox of the control block.
struct MailNews {
  uint32_t code = 0;
  std::string text;
};

using News = std::variant<OpenNews, ListeningNews, RefusedNews, LookNews, ControlNews, MailNews>;

/// Whether a rank whose control block says that RankState reads no slot any more.
bool takes_nothing_more(uint32_t state);

Bytes pack(const News& news);
/// nullopt for what no rank of this library sends.
std::optional<News> unpack(std::span<const std::byte> bytes);

/// Reads a control block that its owner may be writing.
ControlNews read_control(ControlBlock& block);
/// Makes `mirror`, of which the caller is the only writer, say what `news` says, apart from the state.
void write_control(ControlBlock& mirror, const ControlNews& news);

}  // namespace ronde::net
