// What is measured: a line between two parties, both of which send and receive. One Line is one party's end.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "boot/bootstrap.h"
#include "transport/net/net.h"

namespace ronde::fifo_tool {

/// What both parties see, in shared memory: where they meet, and what they tell each other while they connect.
struct Board {
  std::atomic<uint32_t> arrived{0};
  std::atomic<uint32_t> round{0};
  std::atomic<uint32_t> failed{0};
  char error[512] = {};  ///< of the party that failed
  std::atomic<uint32_t> with_id{0};
  UniqueId id{};
  std::atomic<uint32_t> with_handle[2] = {};
  net::Handle handle[2]{};
  std::atomic<uint32_t> with_port{0};
  uint16_t port = 0;

  /// Waits for the other party; an error if it has failed.
  Result<> meet();
  /// Waits until the other party has set `flag`.
  Result<> wait(const std::atomic<uint32_t>& flag) const;
  void fail_with(const Error& why);
};

inline constexpr size_t kUnderWay = 8;         ///< messages of a connection, each with memory of its own
inline constexpr int kLooks = 200;             ///< for something to do, before a party sleeps
inline constexpr size_t kMostBytes = 8 << 20;  ///< of a message

class Line {
 public:
  virtual ~Line() = default;
  /// Messages have `bytes` bytes from now on. Nothing is under way.
  virtual Result<> prepare(size_t bytes) = 0;
  /// Begins to send a message, if there is room for it.
  virtual Result<bool> send() = 0;
  /// True if a message has come.
  virtual Result<bool> receive() = 0;
  /// True once all that was sent has left.
  virtual Result<bool> flushed() = 0;
  /// Neither send() nor receive() could do anything: waits for a change, or looks for one.
  virtual Result<> idle() = 0;
};

// One party's end, made together with the other's, for each kind of line:
Result<std::unique_ptr<Line>> make_fabric_line(int party, bool apart, Board& board);  ///< slots of a Fabric between two ranks, `apart`: on two hosts
Result<std::unique_ptr<Line>> make_net_line(int party, int sockets,
                                            Board& board);  ///< the network Socket over the loopback interface
Result<std::unique_ptr<Line>> make_socket_line(int party, int sockets, Board& board);  ///< plain sockets over it
std::unique_ptr<Line> make_memory_line();  ///< copies from memory to memory, with nobody

}  // namespace ronde::fifo_tool
