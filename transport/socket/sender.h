// The sending end of a connection over TCP.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "boot/fork.h"
#include "transport/net/net.h"
#include "transport/socket/dial.h"
#include "transport/socket/ends.h"
#include "transport/socket/frame.h"
#include "transport/socket/pulse.h"

namespace ronde::net {

class SocketSender final : public Sender {
 public:
  SocketSender(std::unique_ptr<Dial> dial, std::shared_ptr<Pulse> pulse, std::string interface)
      : pulse_(std::move(pulse)), dial_(std::move(dial)) {
    ends_.interface = std::move(interface);
  }

  Result<bool> ready() override;
  Result<> use(std::span<std::byte>) override { return {}; }
  std::vector<int> descriptors() const override;
  void signalled() override;
  Result<bool> arm() override;
  std::string describe() const override;
  Result<bool> post(std::span<const std::byte> head, std::span<const std::byte> data) override;
  /// Done is what the kernel has taken.
  Result<bool> done() override;

 private:
  struct Message {
    std::span<const std::byte> head;
    std::span<const std::byte> data;
    uint32_t missing = 0;  // parts
  };
  struct Queued {
    Frame frame;
    Part part;
  };
  struct Stream {
    BootFd fd;
    bool full = false;   // the kernel takes no more, and has not signalled since
    uint64_t begin = 0;  // queue_[begin, end), by number modulo its size
    uint64_t end = 0;
    size_t sent = 0;  // bytes of the first one, its Frame included
    std::array<Queued, kMaxUnderWay> queue;
    Queued& at(uint64_t number) { return queue[number % kMaxUnderWay]; }
  };
  struct Gather;

  Message& message_of(uint64_t number) { return messages_[number % kMaxUnderWay]; }
  Result<> flush(Stream& stream);
  void advance(Stream& stream, size_t bytes);
  Result<> look_for_end();
  Result<> look_for_silence();
  Error break_off(Error error);

  const std::shared_ptr<Pulse> pulse_;
  Ends ends_;
  std::unique_ptr<Dial> dial_;  // until the connection is up
  std::vector<std::unique_ptr<Stream>> streams_;
  std::array<Message, kMaxUnderWay> messages_;
  uint64_t posted_ = 0;
  uint64_t done_ = 0;
  bool news_ = false;    // a descriptor has shown something
  uint64_t looked_ = 0;  // now_ns of the last look for silence
  uint64_t stuck_ = 0;   // now_ns since which message number stuck_at_ has been the oldest
  uint64_t stuck_at_ = UINT64_MAX;
  std::optional<Error> error_;
};

}  // namespace ronde::net
