// The sending end of a connection over RDMA.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "boot/fork.h"
#include "transport/net/net.h"
#include "transport/socket/dial.h"
#include "transport/verbs/gate.h"
#include "transport/verbs/line.h"

namespace ronde::net {

class VerbsSender final : public Sender {
 public:
  /// `interface`: of the control stream, for texts.
  VerbsSender(Ports ports, size_t port, const LineSettings& settings, std::unique_ptr<Dial> dial, BootFd timer, Gate gate,
              std::string interface)
      : ports_(std::move(ports)),
        at_(port),
        settings_(settings),
        interface_(std::move(interface)),
        dial_(std::move(dial)),
        timer_(std::move(timer)),
        gate_(std::move(gate)) {}

  Result<bool> ready() override;
  Result<> use(std::span<std::byte> memory) override;
  std::vector<int> descriptors() const override;
  void signalled() override;
  Result<bool> arm() override;
  std::string describe() const override;
  Result<bool> post(std::span<const std::byte> head, std::span<const std::byte> data) override;
  /// Done is what the peer's adapter has acknowledged.
  Result<bool> done() override;

  /// For tests.
  Line& line() { return *line_; }
  uint32_t generation() const { return generation_; }

 private:
  enum class Stage : uint8_t { dialling, asking, up, pausing };
  struct Message {
    std::span<const std::byte> bytes;
    uint32_t key = 0;
    uint32_t missing = 1;  // parts that are not acknowledged
  };

  Message& message_of(uint64_t number) { return messages_[number % kMaxMessages]; }
  Result<> move();
  Result<> dial();
  Result<> hear();
  Result<> ask();
  void change_rail();
  Result<> move_to(size_t port);
  const Port& port() const { return (*ports_)[at_]; }
  Result<> on_card(const Card& card);
  Result<> take_back(const Card& card);
  Result<> complete();
  Result<> push();
  Result<bool> push_one();
  uint32_t parts_of(uint64_t bytes) const;
  Result<> write_part(uint64_t number, uint32_t part, uint32_t parts);
  Result<> broken(std::string why, bool mendable);
  Result<> pause(uint64_t nanoseconds);
  void set_timer(uint64_t nanoseconds);
  Result<> look_at_window();

  const Ports ports_;
  size_t at_;  // the port in use
  const LineSettings settings_;
  const std::string interface_;
  std::unique_ptr<Dial> dial_;  // until the control stream is there
  const BootFd timer_;
  const Gate gate_;
  std::optional<Wire> wire_;
  std::unique_ptr<Line> line_;
  std::vector<std::span<std::byte>> used_;  // memory that use() has named

  Stage stage_ = Stage::dialling;
  uint32_t generation_ = 0;
  std::array<Message, kMaxMessages> messages_;
  uint64_t rooms_ = 0;    // that the receiver has announced
  uint64_t posted_ = 0;   // messages taken
  uint64_t pushed_ = 0;   // of these, given to the adapter
  uint64_t done_ = 0;     // of these, ended
  uint64_t changes_ = 0;  // that may let a message be posted, or have ended one

  uint64_t until_ = 0;  // now_ns, until which it is tried to mend the connection; 0: it is well, or something has passed since
  std::string broken_by_;
  uint32_t attempts_ = 0;  // since then
  uint64_t next_ = 0;      // now_ns of the next
  bool news_ = true;       // a descriptor has shown something
  std::optional<Error> error_;
};

}  // namespace ronde::net
