// Messages beside the exchanges: what came for one rank of one room, and the handlers that it goes to.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <thread>

#include "base/result.h"
#include "boot/wire.h"

namespace ronde {

/// Calls the handlers one at a time, in the order in which news came, on the thread that brought them. A thread that brings news
/// while another is inside a handler leaves them to that one. Thread-safe.
class Posts {
 public:
  using OnPost = std::function<void(int from, std::span<const std::byte> message)>;
  using OnGone = std::function<void(int peer, const Error& why)>;

  /// Null for both: news are kept from now on. No handler of before runs when this returns, but for the one that calls it.
  void listen(OnPost on_post, OnGone on_gone);
  void put(int from, Bytes message);
  /// Rank `peer` lives in this process: what befalls that one concerns us.
  void know(int peer, uint64_t process);
  /// A process has died: news of each rank in it that is known and has not left, once.
  void lost(uint64_t process, const Error& why);
  void leave(int peer);

 private:
  struct News {
    int peer;
    std::optional<Error> gone;
    Bytes message;  // where not gone
  };
  struct Handlers {
    OnPost on_post;
    OnGone on_gone;
  };
  void hand_out();

  std::mutex mutex_;
  std::condition_variable idle_;
  std::deque<News> news_;
  std::shared_ptr<const Handlers> handlers_;
  std::thread::id busy_;           // the thread that calls handlers; none: default
  std::map<int, uint64_t> known_;  // rank to process
  std::set<int> over_;             // ranks that have left or whose death was told
};

}  // namespace ronde
