// Where messages for one rank wait until it takes them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "base/abort.h"
#include "base/clock.h"
#include "base/result.h"
#include "boot/posts.h"
#include "boot/wire.h"

namespace ronde {

/// What bounds a wait.
struct Patience {
  const AbortWord* abort = nullptr;  ///< may be null
  Deadline deadline = Deadline::never();
  const AbortWord* child = nullptr;  ///< a second word: of the communicator that is being made; may be null
  std::function<bool()> stopped = nullptr;  ///< another reason to give up; may be empty

  bool aborted() const { return (abort != nullptr && abort->raised()) || (child != nullptr && child->raised()) || (stopped && stopped()); }
};

/// The abort word has no way to wake us, so nobody sleeps longer than this without looking at it.
inline constexpr int kSliceMs = 50;

/// How a wait for a message ended.
enum class Ended : uint8_t { message, failed, aborted, expired };

struct Taken {
  Ended how = Ended::expired;
  Bytes message;  ///< of `message`
  Error error;    ///< of `failed`
};

/// The number of the exchange to which a tag belongs: a split's, or 0 for those that the room's ranks make one after the other.
inline constexpr int kTagBits = 8;
inline uint64_t exchange_of(uint64_t tag) { return tag >> kTagBits; }

/// Messages to one rank of one room, in order by sender and tag. Any thread may put and take; a tag has one taker.
class Mailbox {
 public:
  void put(int from, uint64_t tag, Bytes message);
  /// An exchange has failed: every take of its tags that finds no message returns `error`. The first error stays.
  void poison(uint64_t exchange, Error error);
  std::optional<Error> poisoned(uint64_t exchange);
  /// The exchanges that have failed, and why.
  std::map<uint64_t, Error> poison();
  /// Nothing more will come from rank `from`.
  void leave(int from);
  /// Makes a waiting take look again.
  void touch();
  /// What came beside the exchanges.
  Posts& posts() { return posts_; }

  /// The next message of (from, tag) if it is there.
  std::optional<Bytes> poll(int from, uint64_t tag);
  /// Waits for the next message of (from, tag). `trouble` is asked before each sleep, without a lock held, for a reason to give
  /// up.
  Taken take(int from, uint64_t tag, const Patience& patience, const std::function<std::optional<Error>()>& trouble);

 private:
  bool pop(int from, uint64_t tag, Bytes* out);  // mutex_ held

  Posts posts_;

  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t version_ = 0;
  std::map<std::pair<int, uint64_t>, std::deque<Bytes>> mail_;
  std::set<int> left_;
  std::map<uint64_t, Error> poison_;  // by exchange
};

}  // namespace ronde
