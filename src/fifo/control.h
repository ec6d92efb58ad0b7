// The control block: what a rank tells the others about itself, in memory that they all can read.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace ronde {

/// Life of a rank in a communicator.
enum class RankState : uint32_t { joining = 0, alive = 1, closed = 2, aborted = 3, revoked = 4, finalized = 5 };

/// What a rank called at one number. Written once per use by its owner under `version` (a sequence lock: odd while being written).
struct CallRecord {
  std::atomic<uint64_t> version;   ///< 2 * sequence + 2 when complete; odd while written
  std::atomic<uint64_t> what;      ///< coll | type << 8 | op << 16 | algorithm << 24 | root << 32
  std::atomic<uint64_t> count;     ///< elements
  std::atomic<uint64_t> fingerprint;
};
inline constexpr int kCallHistory = 64;

/// Followed in memory by the wait set: ceil(ranks / 64) words, bit p set while the rank waits for rank p.
struct ControlBlock {
  alignas(64) std::atomic<uint32_t> state;  ///< RankState
  std::atomic<uint32_t> bell;               ///< index of the Bell, in its process, of the thread that now runs this rank
  std::atomic<uint64_t> issued;             ///< collectives issued so far
  std::atomic<uint64_t> splits;             ///< Splits of this communicator that the rank has called so far
  std::atomic<uint32_t> in_split;           ///< above 0: its one thread is inside a Split, and all it has issued before is done
  alignas(64) std::atomic<uint32_t> blocked;  ///< 1 while every lane of the rank waits and no other thread of it can come to help
  std::atomic<uint64_t> epoch;              ///< grows with all progress; two equal readings with `blocked` set say that nothing moved
  std::atomic<uint64_t> probe;              ///< written by who suspects a cycle of waits; the rank looks again at all it waits for
  std::atomic<uint64_t> probe_answer;       ///< the last probe after which the rank still could not go on
  std::atomic<uint64_t> last_what;          ///< the call that this rank began last, packed as CallRecord::what; 0: none
  std::atomic<uint64_t> last_count;
  std::atomic<uint64_t> waiting_what;       ///< what the blocked call is, packed as CallRecord::what
  std::atomic<uint64_t> waiting_sequence;   ///< its number
  std::atomic<uint64_t> waiting_count;
  alignas(64) std::atomic<uint32_t> mail;   ///< 0 empty, 1 being written, 2 ready: a fatal error that another rank has found
  uint32_t mail_code;
  char mail_text[1016];
  alignas(64) CallRecord history[kCallHistory];
};

/// Leaves a fatal error (`code` of ncclResult_t) in the mailbox of a rank, unless it has one. The rank's Bell is to be rung after it.
inline void leave_mail(ControlBlock& block, uint32_t code, std::string_view text) {
  uint32_t empty = 0;
  // acq_rel claims the box for one writer; the store of 2 pairs with the acquire in take_mail.
  if (!block.mail.compare_exchange_strong(empty, 1, std::memory_order_acq_rel)) return;
  block.mail_code = code;
  const size_t n = std::min(text.size(), sizeof block.mail_text - 1);
  memcpy(block.mail_text, text.data(), n);
  block.mail_text[n] = '\0';
  block.mail.store(2, std::memory_order_seq_cst);
}

/// Words of a wait set.
constexpr size_t wait_words(int ranks) { return (static_cast<size_t>(ranks) + 63) / 64; }
/// Bytes of a control block with its wait set, a multiple of 64.
constexpr size_t control_bytes(int ranks) { return (sizeof(ControlBlock) + wait_words(ranks) * 8 + 63) / 64 * 64; }
inline std::atomic<uint64_t>* wait_set(ControlBlock& block) { return reinterpret_cast<std::atomic<uint64_t>*>(&block + 1); }

}  // namespace ronde
