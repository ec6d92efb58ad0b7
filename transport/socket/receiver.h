// The receiving end of a connection over TCP.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "boot/fork.h"
#include "transport/net/net.h"
#include "transport/socket/door.h"
#include "transport/socket/ends.h"
#include "transport/socket/frame.h"

namespace ronde::net {

class SocketReceiver final : public Receiver {
 public:
  SocketReceiver(std::vector<BootFd> streams, const std::string& interface);

  Result<bool> ready() override { return true; }
  Result<> use(std::span<std::byte>) override { return {}; }
  std::vector<int> descriptors() const override;
  void signalled() override;
  std::string describe() const override;
  Result<bool> post(std::span<std::byte> room) override;
  Result<std::optional<size_t>> done() override;

 private:
  // What is read ahead of a Frame: the frame, and small messages behind it at one go.
  static constexpr size_t kAhead = 4096;

  struct Room {
    std::span<std::byte> memory;
    uint64_t total = 0;
    uint32_t missing = 1;  // parts
    bool begun = false;
  };
  struct Stream {
    BootFd fd;
    bool dry = false;           // the kernel has nothing, and has not signalled since
    std::optional<int> ended;   // errno, or 0 where the peer has closed it
    uint64_t next = 0;          // number of the first message that may come over it now
    uint64_t number = 0;        // the part that is coming
    std::span<std::byte> part;  // what of it is still to come
    size_t begin = 0;           // what was read ahead: ahead[begin, end)
    size_t end = 0;
    std::array<std::byte, kAhead> ahead;
  };

  Room& room_of(uint64_t number) { return rooms_[number % kMaxUnderWay]; }
  /// The oldest message is.
  bool whole() { return done_ != posted_ && room_of(done_).missing == 0; }
  Result<> read(size_t index);
  Result<bool> digest(size_t index);
  Result<bool> open_part(size_t index);
  void fill(Stream& stream);
  void advance(Stream& stream, size_t bytes);
  bool owes(size_t index);
  Error break_off(Error error);

  const Ends ends_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::array<Room, kMaxUnderWay> rooms_;
  uint64_t posted_ = 0;
  uint64_t done_ = 0;
  std::optional<Error> error_;
};

class SocketListener final : public Listener {
 public:
  SocketListener(std::shared_ptr<Door> door, uint64_t number, const Handle& handle, std::string interface)
      : door_(std::move(door)), number_(number), handle_(handle), interface_(std::move(interface)) {}
  ~SocketListener() override { door_->forget(number_); }

  const Handle& handle() const override { return handle_; }
  Result<std::unique_ptr<Receiver>> accept() override;
  std::vector<int> descriptors() const override { return door_->descriptors(number_); }

 private:
  const std::shared_ptr<Door> door_;
  const uint64_t number_;
  const Handle handle_;
  const std::string interface_;
};

}  // namespace ronde::net
